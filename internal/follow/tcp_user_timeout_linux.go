package follow

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout sets the longest time for the peer to acknowledge sent bytes, before a TCP connection breaks.
// The socket option is TCP_USER_TIMEOUT (RFC 5482).
func setUserTimeout(conn *net.TCPConn, d time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err == nil {
		err = set
	}
	return err
}
