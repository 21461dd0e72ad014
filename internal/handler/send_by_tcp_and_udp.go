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

// maxDatagram is the largest UDP datagram for a notification, in bytes; networks lose larger datagrams more often.
const maxDatagram = 8 << 10

// maxEvent is the largest UDP datagram that is possible, in bytes.
const maxEvent = 65507

// sendByTCP opens a TCP connection, writes the message as one line and closes the connection.
func (o *Sender) sendByTCP(ctx context.Context, t *model.TCP, m *Message) (Receipt, error) {
	text := jsonLine(m)
	receipt := Receipt{Sent: fmt.Sprintf("tcp %s\n%s", t.Address, text)}
	conn, err := Dial(ctx, o.opts.Dialer, t.Address, t.TLS, t.CA)
	if err != nil {
		return receipt, fmt.Errorf("connect by TCP: %w", err)
	}
	_, err = writeInTime(ctx, conn, text)
	return receipt, errors.Join(err, conn.Close())
}

// sendByUDP sends a message as one UDP datagram.
func (o *Sender) sendByUDP(ctx context.Context, u *model.UDP, m *Message) (Receipt, error) {
	text, err := encodeDatagram(m)
	receipt := Receipt{Sent: fmt.Sprintf("udp %s\n%s\n", u.Address, text)}
	if err != nil {
		return receipt, FinalError(err)
	}
	conn, err := o.opts.Dialer.DialContext(ctx, "udp", u.Address)
	if err != nil {
		return receipt, fmt.Errorf("send by UDP: %w", err)
	}
	defer conn.Close()
	if _, err := writeInTime(ctx, conn, text); err != nil {
		return receipt, fmt.Errorf("send by UDP: %w", err)
	}
	return receipt, nil
}

// jsonLine encodes a notification as one line of JSON.
func jsonLine(m *Message) []byte { return append(bytes.TrimSpace(bytes.Clone(m.Payload)), '\n') }

// encodeDatagram encodes a notification as JSON that fits in a datagram, with a shortened output if needed. It first
// cuts the output, then removes the labels.
func encodeDatagram(m *Message) ([]byte, error) {
	if len(m.Payload) <= maxDatagram {
		return m.Payload, nil
	}
	if m.Note.Event != nil { // Sensu's shape or a mutator's output cannot be shortened
		if len(m.Payload) <= maxEvent {
			return m.Payload, nil
		}
		return nil, fmt.Errorf("the event has %d bytes, the limit of a datagram is %d", len(m.Payload), maxEvent)
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
			return nil, fmt.Errorf("the notification has %d bytes, the limit of a datagram is %d", len(text), maxDatagram)
		}
	}
}

// Dial opens a connection to HOST:PORT by a dialer, with TLS if secure is true. ca is a PEM file with trusted CAs; empty: the CAs of
// the system.
func Dial(ctx context.Context, dialer *net.Dialer, address string, secure bool, ca string) (net.Conn, error) {
	if !secure {
		return dialer.DialContext(ctx, "tcp", address)
	}
	config, err := trustConfig(ca)
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: dialer, Config: config}
	return d.DialContext(ctx, "tcp", address)
}

// writeInTime writes a text to a connection before ctx's deadline, and returns the number of written bytes.
func writeInTime(ctx context.Context, conn net.Conn, text []byte) (int, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
	}
	return conn.Write(text)
}

// streamIdle is the time without writes after which the connection of a stream is closed.
const streamIdle = 10 * time.Minute

// streamKey identifies one permanent connection of a stream handler by address, TLS settings and number.
type streamKey struct {
	address string
	tls     bool
	ca      string
	number  uint32
}

// streamConn is one permanent connection of a stream handler, opened again after a failure. A writer waits for
// the writers before it. A peer that does not read blocks writers until their time-out; meanwhile messages wait
// in the outbox.
type streamConn struct {
	dialer *net.Dialer
	key    streamKey
	busy   chan struct{}            // capacity 1: full while a writer uses the connection
	conn   atomic.Pointer[net.Conn] // nil: no connection is open
}

// writeToStream writes a message as one JSON line to a permanent connection of a stream handler. All messages
// about a problem use the same connection, which keeps their order.
func (o *Sender) writeToStream(ctx context.Context, s *model.Stream, m *Message) (Receipt, error) {
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
		return receipt, fmt.Errorf("receiver %s does not read its stream; earlier lines are waiting: %w", s.Address, ctx.Err())
	}
	if err := c.write(ctx, text); err != nil {
		return receipt, fmt.Errorf("write to the stream: %w", err)
	}
	return receipt, nil
}

// streamConn returns the permanent connection for a key (address, TLS settings and number). For a new key it
// creates a connection that is not open yet.
func (o *Sender) streamConn(key streamKey) *streamConn {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.streams[key]
	if c == nil {
		c = &streamConn{dialer: o.opts.Dialer, key: key, busy: make(chan struct{}, 1)}
		o.streams[key] = c
	}
	return c
}

// write writes a text to the connection, after opening a closed connection. If a broken connection took no byte of the
// text, write opens a new one and repeats. The caller has the connection (busy).
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

// open returns the network connection of a stream handler, and first opens a closed connection again.
func (c *streamConn) open(ctx context.Context) (conn *net.Conn, fresh bool, err error) {
	if conn := c.conn.Load(); conn != nil {
		return conn, false, nil
	}
	opened, err := Dial(ctx, c.dialer, c.key.address, c.key.tls, c.key.ca)
	if err != nil {
		return nil, false, err
	}
	if err := opened.SetReadDeadline(time.Now().Add(streamIdle)); err != nil {
		opened.Close()
		return nil, false, err
	}
	c.conn.Store(&opened)
	go func() { // reads until the peer closes the connection, so that no line is written into a closed one
		_, _ = io.Copy(io.Discard, opened)
		c.closeConn(&opened)
	}()
	return &opened, true, nil
}

// closeConn closes a network connection of the stream, which the stream opens again at the next write. A nil
// connection is ignored.
func (c *streamConn) closeConn(conn *net.Conn) {
	if conn != nil {
		c.conn.CompareAndSwap(conn, nil)
		(*conn).Close()
	}
}
