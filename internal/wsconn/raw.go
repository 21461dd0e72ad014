//go:build unix

package wsconn

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// aheadBytes is how much one read takes of what a peer has sent: several messages at once.
const aheadBytes = 8 << 10

// raw reads from a connection's file where something has come, into a buffer that is taken
// only then: a connection that waits holds none.
type raw struct {
	conn syscall.RawConn
	read func(fd uintptr) bool // one for all reads: it is not made anew
	n    int
	err  error
}

// rawOf finds the file of a connection that is not encrypted; nil: there is none.
func rawOf(nc net.Conn, c *Conn) *raw {
	f, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	r := &raw{conn: conn}
	r.read = func(fd uintptr) bool {
		p := c.buffers.get(aheadBytes)
		r.n, r.err = syscall.Read(int(fd), *p)
		for errors.Is(r.err, syscall.EINTR) {
			r.n, r.err = syscall.Read(int(fd), *p)
		}
		if r.n <= 0 {
			c.buffers.put(p)
			return !errors.Is(r.err, syscall.EAGAIN)
		}
		c.ahead = p
		return true
	}
	return r
}

func (c *Conn) waitRaw() error {
	if err := c.raw.conn.Read(c.raw.read); err != nil {
		return err
	}
	switch {
	case c.raw.err != nil:
		return c.raw.err
	case c.raw.n == 0:
		return io.EOF
	}
	c.from, c.to = 0, c.raw.n
	return nil
}
