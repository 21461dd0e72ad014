//go:build unix

package wsconn

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// readAheadBytes bounds the bytes that one system call reads, which may be several messages.
const readAheadBytes = 8 << 10

// rawReader reads directly from the socket of a net.Conn. It takes a pooled buffer only when bytes have
// arrived, so that an idle connection holds none.
type rawReader struct {
	conn syscall.RawConn
	read func(fd uintptr) bool // made once, for all reads
	n    int
	err  error
}

// newRawReader returns a reader for the socket of a connection without TLS. It returns nil if nc gives no
// access to a socket.
func newRawReader(nc net.Conn, c *Conn) *rawReader {
	f, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawReader{conn: conn}
	r.read = func(fd uintptr) bool {
		p := c.buffers.get(readAheadBytes)
		r.n, r.err = syscall.Read(int(fd), *p)
		for errors.Is(r.err, syscall.EINTR) {
			r.n, r.err = syscall.Read(int(fd), *p)
		}
		if r.n <= 0 {
			c.buffers.put(p)
			return !errors.Is(r.err, syscall.EAGAIN)
		}
		c.readAhead = p
		return true
	}
	return r
}

// waitAndReadRaw waits for bytes from the socket, and reads the bytes into the receive buffer. While it waits, it
// needs no buffer.
func (c *Conn) waitAndReadRaw() error {
	if err := c.raw.conn.Read(c.raw.read); err != nil {
		return err
	}
	switch {
	case c.raw.err != nil:
		return c.raw.err
	case c.raw.n == 0:
		return io.EOF
	}
	c.unreadFrom, c.unreadTo = 0, c.raw.n
	return nil
}
