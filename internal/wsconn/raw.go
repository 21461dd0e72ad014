//go:build unix

package wsconn

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// aheadBytes is the most that one read takes: several messages at once.
const aheadBytes = 8 << 10

// rawReader reads a readable connection past net.Conn into a pooled buffer, which it takes only then: an idle connection
// holds none.
type rawReader struct {
	conn syscall.RawConn
	read func(fd uintptr) bool // made once, for all reads
	n    int
	err  error
}

// rawOf returns a raw of an unencrypted connection; nil: nc is none.
func rawOf(nc net.Conn, c *Conn) *rawReader {
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
