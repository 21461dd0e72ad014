//go:build !linux

package follow

import (
	"net"
	"time"
)

// setUserTimeout does nothing: the variant for systems other than Linux, whose sockets have no option for the time that sent
// bytes may stay unacknowledged.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
