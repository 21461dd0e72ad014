package handler

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

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
		return receipt, &FinalError{err}
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
		return nil, fmt.Errorf("udp: the event has %d bytes, at most %d go into a datagram", len(m.Payload), maxEvent)
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
			return nil, fmt.Errorf("udp: the notification has %d bytes, at most %d go into a datagram", len(text), maxDatagram)
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
