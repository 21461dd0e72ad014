//go:build !linux

package follow

import (
	"net"
	"time"
)

// setUserTimeout leaves it to the kernel how long it waits.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
