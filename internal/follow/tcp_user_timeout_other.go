//go:build !linux

package follow

import (
	"net"
	"time"
)

// setUserTimeout does nothing on systems other than Linux. Their sockets have no limit of the time that sent bytes may
// stay unacknowledged.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
