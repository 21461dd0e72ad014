package follow

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Dial is the type of a function that opens a network connection to a handler, like handler.Dial.
type Dial func(ctx context.Context, address string, secure bool, ca string) (net.Conn, error)

const (
	dialTimeout = 5 * time.Second
	// userTimeout bounds the time for which the peer's machine may leave bytes unacknowledged, or its window closed,
	// before the connection counts as broken. It is shorter than Settle, so that bytes in the kernel's buffer are sent
	// again.
	userTimeout = 10 * time.Second
	// sendBuffer bounds the bytes in the kernel's buffer of a connection.
	sendBuffer = 256 << 10
	// closeTimeout bounds the wait of a planned stop until the peer has read all lines.
	closeTimeout = time.Second
)

// connPool has the parallel TCP connections to one stream handler, which receives every check result. They
// belong to the handler's follower, the reader of the journal. Only its follower uses it, except for
// interruptWrite.
type connPool struct {
	spec         *model.Stream
	timeout      time.Duration // of a write of at most sendBuffer bytes
	dial         Dial
	conns        []pooledConn
	waitingBytes int // bytes of lines in the buffers of all conns that are not written yet
	writingConn  atomic.Pointer[net.Conn]
}

// pooledConn is one connection of a handler's connection pool, with the lines that are not written yet. All
// lines of one event use the same connection.
type pooledConn struct {
	conn       net.Conn      // nil: none is open
	peerClosed chan struct{} // closed when the peer has closed the connection
	buf        []byte        // lines that were not written yet
	lineCount  int           // in buf
	broken     bool          // the connection broke: lines since the settled position must be sent again
}

// newConnPool returns the pool of a handler's connections, all closed.
func newConnPool(spec *model.Stream, timeout time.Duration, dial Dial) *connPool {
	count := spec.Connections
	if count <= 0 {
		count = 2
	}
	return &connPool{spec: spec, timeout: timeout, dial: dial, conns: make([]pooledConn, min(count, model.MaxStreamConnections))}
}

// connOf returns the pool's connection for all lines of one event, so that the lines keep their order.
func (p *connPool) connOf(node model.NodeID, check model.CheckID) *pooledConn {
	h := (uint64(node)<<32 | uint64(check)) * 0x9e3779b97f4a7c15
	return &p.conns[(h>>33)%uint64(len(p.conns))]
}

// addLine adds the JSON line of a check result to the buffer of the connection for its event.
func (p *connPool) addLine(l *pooledConn, r *streamedResult) {
	before := len(l.buf)
	l.buf = appendLine(l.buf, r)
	l.lineCount++
	p.waitingBytes += len(l.buf) - before
}

// flushConns writes the buffered lines of the pool's connections, and returns the number of written lines. With
// broken, it writes only to reopened connections, else only to all others. After an error the connection is
// broken, or could not be opened and keeps its lines.
func (p *connPool) flushConns(ctx context.Context, broken bool) (lines uint64, err error) {
	if p.waitingBytes == 0 {
		return 0, nil
	}
	for i := range p.conns {
		l := &p.conns[i]
		if len(l.buf) == 0 || l.broken != broken {
			continue
		}
		if l.conn == nil {
			if err := p.openConn(ctx, l); err != nil {
				return lines, err
			}
		}
		if err := p.writeConn(ctx, l); err != nil {
			p.breakConn(l)
			return lines, fmt.Errorf("write results to %s: %w", p.spec.Address, err)
		}
		lines += uint64(l.lineCount)
		p.clearConn(l)
	}
	return lines, nil
}

// writeConn writes the buffered lines (JSON, one per result) of one connection of the pool.
func (p *connPool) writeConn(ctx context.Context, l *pooledConn) error {
	conn := l.conn
	for rest := l.buf; len(rest) > 0; {
		if err := conn.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
			return err
		}
		p.writingConn.Store(&conn)
		err := ctx.Err() // interruptWrite may have run before writingConn was set
		if err == nil {
			var n int
			n, err = conn.Write(rest[:min(len(rest), sendBuffer)])
			rest = rest[n:]
		}
		p.writingConn.Store(nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// interruptWrite makes a blocked write to the receiver fail immediately, by a deadline in the past. Any goroutine may
// call it.
func (p *connPool) interruptWrite() {
	if conn := p.writingConn.Load(); conn != nil {
		_ = (*conn).SetWriteDeadline(time.Unix(1, 0))
	}
}

// openConn opens one of the pool's connections to the handler.
func (p *connPool) openConn(ctx context.Context, l *pooledConn) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := p.dial(ctx, p.spec.Address, p.spec.TLS, p.spec.CA)
	if err != nil {
		return err
	}
	raw := conn
	if secure, ok := conn.(*tls.Conn); ok {
		raw = secure.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		err = errors.Join(tcp.SetWriteBuffer(sendBuffer), setUserTimeout(tcp, userTimeout))
	}
	if err != nil {
		conn.Close()
		return fmt.Errorf("open a connection to %s: %w", p.spec.Address, err)
	}
	peerClosed := make(chan struct{})
	go func() { // the peer has nothing to say: this ends when it closes
		defer close(peerClosed)
		_, _ = io.Copy(io.Discard, conn)
	}()
	l.conn, l.peerClosed = conn, peerClosed
	return nil
}

// breakConn closes one connection of the pool and drops its buffered lines. The follower later reads the lines again
// from the journal.
func (p *connPool) breakConn(l *pooledConn) {
	l.conn.Close()
	l.conn, l.broken = nil, true
	p.clearConn(l)
}

// clearConn drops the buffered lines of one connection of the pool.
func (p *connPool) clearConn(l *pooledConn) {
	p.waitingBytes -= len(l.buf)
	l.lineCount = 0
	if l.buf = l.buf[:0]; cap(l.buf) > 2<<20 {
		l.buf = nil
	}
}

// findBroken marks the connections that the receiver has closed as broken, and reports whether any is broken.
// It reports whether any connection is broken.
func (p *connPool) findBroken() (broken bool) {
	for i := range p.conns {
		l := &p.conns[i]
		if l.conn != nil {
			select {
			case <-l.peerClosed:
				p.breakConn(l)
			default:
			}
		}
		broken = broken || l.broken
	}
	return broken
}

// reopen opens the broken connections of the pool again and returns how many succeeded. Connections stay broken until
// markIntact.
func (p *connPool) reopen(ctx context.Context) (n int, err error) {
	for i := range p.conns {
		l := &p.conns[i]
		if !l.broken {
			continue
		}
		n++
		p.clearConn(l)
		if l.conn == nil {
			if err := p.openConn(ctx, l); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// markIntact marks all connections of the pool as intact, after the lost lines were sent again.
func (p *connPool) markIntact() {
	for i := range p.conns {
		p.conns[i].broken = false
	}
}

// countOpen returns the number of open connections of the pool.
func (p *connPool) countOpen() (n int) {
	for i := range p.conns {
		if p.conns[i].conn != nil {
			n++
		}
	}
	return n
}

// dropLines drops the buffered lines of all connections of the pool.
func (p *connPool) dropLines() {
	for i := range p.conns {
		p.clearConn(&p.conns[i])
	}
}

// close closes all connections of the pool, and reports whether the receiver had read all lines.
func (p *connPool) close() (read bool) {
	read = true
	for i := range p.conns {
		if half, ok := p.conns[i].conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	late := time.NewTimer(closeTimeout)
	defer late.Stop()
	over := false
	for i := range p.conns {
		l := &p.conns[i]
		read = read && !l.broken && len(l.buf) == 0
		if l.conn == nil {
			continue
		}
		if !over {
			select {
			case <-l.peerClosed:
			case <-late.C:
				over = true
			}
		}
		l.conn.Close()
		l.conn = nil
	}
	return read && !over
}
