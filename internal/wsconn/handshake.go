package wsconn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/gobwas/ws"
)

// Accept answers the opening handshake of a client that asks for path and for the
// subprotocol, and refuses all others with an HTTP error. The caller sets the
// deadline of the handshake on nc.
func Accept(nc net.Conn, path, subprotocol string, o Options) (*Conn, error) {
	agreed := false
	up := ws.Upgrader{
		ReadBufferSize: 4096, WriteBufferSize: 512,
		OnRequest: func(uri []byte) error {
			if string(uri) != path {
				return ws.RejectConnectionError(ws.RejectionStatus(http.StatusNotFound), ws.RejectionReason("not found"))
			}
			return nil
		},
		Protocol: func(p []byte) bool {
			agreed = agreed || string(p) == subprotocol
			return string(p) == subprotocol
		},
		OnBeforeUpgrade: func() (ws.HandshakeHeader, error) {
			if !agreed {
				return nil, ws.RejectConnectionError(ws.RejectionStatus(http.StatusBadRequest),
					ws.RejectionReason("this path speaks the WebSocket subprotocol "+subprotocol))
			}
			return nil, nil
		},
	}
	if _, err := up.Upgrade(&Handshake{Conn: nc}); err != nil {
		if errors.Is(err, ErrHandshakeSize) {
			_, _ = io.WriteString(nc, "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
		return nil, fmt.Errorf("accept WebSocket: %w", err)
	}
	return newConn(nc, false, o), nil
}

// Upgraded makes a server's connection of one whose opening handshake was answered with a
// ws.Upgrader. Where nc is a syscall.Conn it is read by that, several messages at once.
func Upgraded(nc net.Conn, o Options) *Conn {
	c := newConn(nc, false, o)
	c.raw = rawOf(nc, c)
	return c
}

// Connect makes the opening handshake as a client. The caller sets the deadline of
// the handshake on nc; timeout is for each write afterwards.
func Connect(nc net.Conn, host, path, subprotocol string, o Options) (*Conn, error) {
	d := ws.Dialer{ReadBufferSize: 4096, WriteBufferSize: 512, Protocols: []string{subprotocol}}
	br, hs, err := d.Upgrade(nc, &url.URL{Scheme: "ws", Host: host, Path: path})
	if err != nil {
		return nil, fmt.Errorf("open WebSocket: %w", err)
	}
	if hs.Protocol != subprotocol {
		return nil, fmt.Errorf("open WebSocket: %w: server does not speak %s", ErrProtocol, subprotocol)
	}
	return Adopt(nc, br, o)
}

// Adopt makes a client's connection of one whose opening handshake was made with a
// ws.Dialer. br is what the dialer returned: frames that came with the answer, or nil.
func Adopt(nc net.Conn, br *bufio.Reader, o Options) (*Conn, error) {
	c := newConn(nc, true, o)
	if br != nil { // frames that came with the answer
		n := br.Buffered()
		if n > len(c.buf) {
			return nil, fmt.Errorf("open WebSocket: %w: %d bytes before the first message", ErrProtocol, n)
		}
		c.to, _ = br.Read(c.buf[:n])
		ws.PutReader(br)
	}
	return c, nil
}
