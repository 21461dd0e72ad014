package handler

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// maxDatagram bounds an UDP payload, in bytes: larger ones are lost more often.
const maxDatagram = 8 << 10

// maxEvent is the largest payload of a datagram, in bytes.
const maxEvent = 65507

// tcp opens a connection, writes one line and closes it.
func (o *Out) tcp(ctx context.Context, t *model.TCP, m *Message) (Receipt, error) {
	text := jsonLine(m)
	receipt := Receipt{Sent: fmt.Sprintf("tcp %s\n%s", t.Address, text)}
	conn, err := Dial(ctx, t.Address, t.TLS, t.CA)
	if err != nil {
		return receipt, fmt.Errorf("tcp: %w", err)
	}
	_, err = writeInTime(ctx, conn, text)
	return receipt, errors.Join(err, conn.Close())
}

// udp sends one datagram.
func (o *Out) udp(ctx context.Context, u *model.UDP, m *Message) (Receipt, error) {
	text, err := encodeDatagram(m)
	receipt := Receipt{Sent: fmt.Sprintf("udp %s\n%s\n", u.Address, text)}
	if err != nil {
		return receipt, FinalError(err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", u.Address)
	if err != nil {
		return receipt, fmt.Errorf("udp: %w", err)
	}
	defer conn.Close()
	if _, err := writeInTime(ctx, conn, text); err != nil {
		return receipt, fmt.Errorf("udp: %w", err)
	}
	return receipt, nil
}

// jsonLine returns the notification as one line of JSON.
func jsonLine(m *Message) []byte { return append(bytes.TrimSpace(bytes.Clone(m.Payload)), '\n') }

// encodeDatagram returns the notification as JSON that fits a datagram. It cuts the output first, then the labels.
func encodeDatagram(m *Message) ([]byte, error) {
	if len(m.Payload) <= maxDatagram {
		return m.Payload, nil
	}
	if m.Note.Event != nil { // Sensu's shape or a mutator's output cannot be shortened
		if len(m.Payload) <= maxEvent {
			return m.Payload, nil
		}
		return nil, fmt.Errorf("udp: the event has %d bytes, the limit of a datagram is %d", len(m.Payload), maxEvent)
	}
	n := *m.Note
	for size := maxDatagram / 2; ; size /= 2 {
		n.Output = body.Cut(n.Output, size)
		if size < 64 {
			n.Labels, n.Note, n.Problems = nil, "", nil
		}
		text, err := n.Encode()
		if err != nil || len(text) <= maxDatagram {
			return text, err
		}
		if size == 0 {
			return nil, fmt.Errorf("udp: the notification has %d bytes, the limit of a datagram is %d", len(text), maxDatagram)
		}
	}
}

// Dial opens a connection to HOST:PORT, with TLS if secure, and trusts the CAs of a PEM file; without a file the system's.
func Dial(ctx context.Context, address string, secure bool, ca string) (net.Conn, error) {
	if !secure {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	config, err := trustConfig(ca)
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{Config: config}
	return d.DialContext(ctx, "tcp", address)
}

// writeInTime writes a text before the deadline of ctx, and returns the number of written bytes.
func writeInTime(ctx context.Context, conn net.Conn, text []byte) (int, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
	}
	return conn.Write(text)
}

// streamIdle is the time after which a connection of a stream without writes is closed.
const streamIdle = 10 * time.Minute

// streamKey identifies one of the connections of streams to an address.
type streamKey struct {
	address string
	tls     bool
	ca      string
	number  uint32
}

// streamConn is one connection of a stream. Writers wait for earlier writers. A peer that does not read blocks them until
// their time-out; meanwhile messages wait in the outbox.
type streamConn struct {
	key  streamKey
	busy chan struct{}            // capacity 1: full while a writer has the connection
	conn atomic.Pointer[net.Conn] // nil: no connection is open
}

// stream writes one line into one of the handler's connections. All lines of a problem use the same connection, which keeps
// their order.
func (o *Out) stream(ctx context.Context, s *model.Stream, m *Message) (Receipt, error) {
	text := jsonLine(m)
	receipt := Receipt{Sent: fmt.Sprintf("stream %s\n%s", s.Address, text)}
	h := fnv.New32a()
	h.Write([]byte(m.Note.Problem))
	count := max(1, min(s.Connections, model.MaxStreamConnections))
	if s.Connections == 0 {
		count = 2
	}
	c := o.streamConn(streamKey{s.Address, s.TLS, s.CA, h.Sum32() % uint32(count)})
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return receipt, fmt.Errorf("stream: %s does not read; earlier lines are waiting: %w", s.Address, ctx.Err())
	}
	if err := c.write(ctx, text); err != nil {
		return receipt, fmt.Errorf("stream: %w", err)
	}
	return receipt, nil
}

// streamConn returns the connection of a key, which may not be open yet.
func (o *Out) streamConn(key streamKey) *streamConn {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.streams[key]
	if c == nil {
		c = &streamConn{key: key, busy: make(chan struct{}, 1)}
		o.streams[key] = c
	}
	return c
}

// write writes a text, and opens the connection if none is open. It reopens a broken one at once if no byte of the text was
// written. The caller has the connection (busy).
func (c *streamConn) write(ctx context.Context, text []byte) error {
	for attempt := 0; ; attempt++ {
		conn, fresh, err := c.open(ctx)
		if err != nil {
			return err
		}
		n, err := writeInTime(ctx, *conn, text)
		if err == nil {
			return (*conn).SetReadDeadline(time.Now().Add(streamIdle))
		}
		c.closeConn(conn)
		if fresh || n > 0 || attempt > 0 {
			return err
		}
	}
}

// open returns the open connection, or a fresh one.
func (c *streamConn) open(ctx context.Context) (conn *net.Conn, fresh bool, err error) {
	if conn := c.conn.Load(); conn != nil {
		return conn, false, nil
	}
	opened, err := Dial(ctx, c.key.address, c.key.tls, c.key.ca)
	if err != nil {
		return nil, false, err
	}
	if err := opened.SetReadDeadline(time.Now().Add(streamIdle)); err != nil {
		opened.Close()
		return nil, false, err
	}
	c.conn.Store(&opened)
	go func() { // reads until the peer closes, so that no line goes to a closed peer
		_, _ = io.Copy(io.Discard, opened)
		c.closeConn(&opened)
	}()
	return &opened, true, nil
}

// closeConn closes a connection; nil: there is none to close.
func (c *streamConn) closeConn(conn *net.Conn) {
	if conn != nil {
		c.conn.CompareAndSwap(conn, nil)
		(*conn).Close()
	}
}
