//go:build !linux

package follow

import (
	"net"
	"time"
)

// setUserTimeout does nothing, because only Linux lets a program limit the time without TCP acknowledgement.
// Their sockets have no limit of the time that sent bytes may stay unacknowledged.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
