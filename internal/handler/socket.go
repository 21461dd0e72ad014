package handler

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"sync"
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
	err = write(ctx, conn, text)
	return receipt, errors.Join(err, conn.Close())
}

// udp sends one datagram.
func (o *Out) udp(ctx context.Context, u *model.UDP, m *Message) (Receipt, error) {
	text, err := datagram(m)
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
	if err := write(ctx, conn, text); err != nil {
		return receipt, fmt.Errorf("udp: %w", err)
	}
	return receipt, nil
}

// jsonLine is the notification with the end of its line.
func jsonLine(m *Message) []byte { return append(bytes.TrimSpace(bytes.Clone(m.Payload)), '\n') }

// datagram returns the notification as JSON that fits a datagram. It cuts the output first, then the labels.
func datagram(m *Message) ([]byte, error) {
	if len(m.Payload) <= maxDatagram {
		return m.Payload, nil
	}
	if m.Note.Event != nil { // it is somebody else's shape, or none
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

// Dial opens a connection to HOST:PORT, with TLS and the CA of a PEM file where that is asked for.
func Dial(ctx context.Context, address string, secure bool, ca string) (net.Conn, error) {
	if !secure {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	config, err := pool(ca)
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{Config: config}
	return d.DialContext(ctx, "tcp", address)
}

// write writes all of it before ctx ends.
func write(ctx context.Context, conn net.Conn, text []byte) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetWriteDeadline(deadline); err != nil {
			return err
		}
	}
	_, err := conn.Write(text)
	return err
}

// streamIdle is how long a connection is kept that nothing is written to.
const streamIdle = 10 * time.Minute

// lineKey names one of the connections to an address.
type lineKey struct {
	address string
	tls     bool
	ca      string
	number  uint32
}

// line is one connection of a stream. Writers wait for earlier writers. A peer that does not read blocks them until their
// timeout; meanwhile messages wait in the outbox.
type line struct {
	key  lineKey
	busy chan struct{} // holds the turn: capacity 1
	mu   sync.Mutex
	conn net.Conn // nil: none is open
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
	l := o.line(lineKey{s.Address, s.TLS, s.CA, h.Sum32() % uint32(count)})
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	case <-ctx.Done():
		return receipt, fmt.Errorf("stream: %s does not read; earlier lines are waiting: %w", s.Address, ctx.Err())
	}
	if err := l.write(ctx, text); err != nil {
		return receipt, fmt.Errorf("stream: %w", err)
	}
	return receipt, nil
}

func (o *Out) line(key lineKey) *line {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lines[key]
	if l == nil {
		l = &line{key: key, busy: make(chan struct{}, 1)}
		o.lines[key] = l
	}
	return l
}

// write opens the connection if there is none. One that broke is opened anew at once, if
// nothing of the text was written.
func (l *line) write(ctx context.Context, text []byte) error {
	for attempt := 0; ; attempt++ {
		conn, fresh, err := l.open(ctx)
		if err != nil {
			return err
		}
		n := 0
		if deadline, ok := ctx.Deadline(); ok {
			err = conn.SetWriteDeadline(deadline)
		}
		if err == nil {
			n, err = conn.Write(text)
		}
		if err == nil {
			return conn.SetReadDeadline(time.Now().Add(streamIdle))
		}
		l.drop(conn)
		if fresh || n > 0 || attempt > 0 {
			return err
		}
	}
}

func (l *line) open(ctx context.Context) (conn net.Conn, fresh bool, err error) {
	l.mu.Lock()
	conn = l.conn
	l.mu.Unlock()
	if conn != nil {
		return conn, false, nil
	}
	if conn, err = Dial(ctx, l.key.address, l.key.tls, l.key.ca); err != nil {
		return nil, false, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(streamIdle)); err != nil {
		conn.Close()
		return nil, false, err
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	// The peer sends nothing of use. Its bytes are discarded until it closes, so that no line goes to a closed peer.
	go func() {
		buf := make([]byte, 512)
		for {
			if _, err := conn.Read(buf); err != nil {
				l.drop(conn)
				return
			}
		}
	}()
	return conn, true, nil
}

// drop closes a connection and forgets it.
func (l *line) drop(conn net.Conn) {
	l.mu.Lock()
	if l.conn == conn {
		l.conn = nil
	}
	l.mu.Unlock()
	conn.Close()
}

func (l *line) close() {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		l.drop(conn)
	}
}
