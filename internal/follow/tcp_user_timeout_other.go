//go:build !linux

package follow

import (
	"net"
	"time"
)

// setUserTimeout does nothing: this system has no option for the time that sent bytes may stay unacknowledged.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
