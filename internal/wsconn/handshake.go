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

// MaxHandshakeBytes bounds request line and headers of an opening handshake: its sender has not authenticated. Agents of
// Sensu list their subscriptions there.
const MaxHandshakeBytes = 64 << 10

// ErrHandshakeSize means that an opening handshake is longer than MaxHandshakeBytes.
var ErrHandshakeSize = errors.New("the opening handshake is larger than 64 KiB")

// Handshake is a connection during the WebSocket handshake, with a limit on the bytes read. Its Read fails after
// MaxHandshakeBytes. Frames behind it are read from Conn itself.
type Handshake struct {
	net.Conn
	read int
}

// Read reads handshake bytes, and fails after MaxHandshakeBytes in total. Then it fails.
func (h *Handshake) Read(p []byte) (int, error) {
	left := MaxHandshakeBytes - h.read
	if left <= 0 {
		return 0, ErrHandshakeSize
	}
	n, err := h.Conn.Read(p[:min(len(p), left)])
	h.read += n
	return n, err
}

// Accept answers a client's WebSocket handshake, and requires the given path and subprotocol. It refuses other
// handshakes with an HTTP error. The caller sets the deadline of the handshake on nc.
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
					ws.RejectionReason("want the WebSocket subprotocol "+subprotocol))
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

// NewServerConn returns the server's side of a WebSocket connection. ws.Upgrader has performed the handshake.
// If nc is a syscall.Conn, one system call reads several messages.
func NewServerConn(nc net.Conn, o Options) *Conn {
	c := newConn(nc, false, o)
	c.raw = newRawReader(nc, c)
	return c
}

// Connect performs the WebSocket handshake as a client. The caller sets the deadline of the handshake on nc.
func Connect(nc net.Conn, host, path, subprotocol string, o Options) (*Conn, error) {
	d := ws.Dialer{ReadBufferSize: 4096, WriteBufferSize: 512, Protocols: []string{subprotocol}}
	br, hs, err := d.Upgrade(nc, &url.URL{Scheme: "ws", Host: host, Path: path})
	if err != nil {
		return nil, fmt.Errorf("open WebSocket: %w", err)
	}
	if hs.Protocol != subprotocol {
		return nil, fmt.Errorf("open WebSocket: %w: the server did not accept the subprotocol %s", ErrProtocol, subprotocol)
	}
	return NewClientConn(nc, br, o)
}

// NewClientConn returns the client's side of a WebSocket connection. ws.Dialer has performed the handshake. br
// is the reader that the dialer returned, with frames that came with the answer; or nil.
func NewClientConn(nc net.Conn, br *bufio.Reader, o Options) (*Conn, error) {
	c := newConn(nc, true, o)
	if br != nil {
		n := br.Buffered()
		if n > len(c.idleBuffer) {
			return nil, fmt.Errorf("open WebSocket: %w: the server sent %d bytes together with its handshake, more than the buffer holds", ErrProtocol, n)
		}
		c.unreadTo, _ = br.Read(c.idleBuffer[:n])
		ws.PutReader(br)
	}
	return c, nil
}
