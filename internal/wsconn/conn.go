package wsconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

const (
	// Headroom is the free space at the front of a buffer for Write.
	Headroom = ws.MaxHeaderSize

	// idleBufferBytes is the buffer of an idle connection. A frame that fits, such as a batch of eight results, is read by one
	// system call and handled in place.
	idleBufferBytes = 1024
)

// Op is the kind (opcode) of a WebSocket frame, such as binary or ping.
type Op = ws.OpCode

// Kinds of messages that Read returns. A close frame ends Read with a *CloseError.
const (
	Binary = ws.OpBinary
	Ping   = ws.OpPing
	Pong   = ws.OpPong
)

var (
	// ErrTooLarge means that a message is longer than the reader allows.
	ErrTooLarge = errors.New("frame is too large")
	// ErrProtocol means that the peer violates RFC 6455, or uses a part of it that is not supported here.
	ErrProtocol = errors.New("invalid WebSocket frame or handshake")
)

// CloseError is the error that reads return after the peer has sent a close frame. It has a code and a reason.
type CloseError struct {
	Code   uint16
	Reason string
}

// Error returns the code and reason of the peer's close frame.
func (e *CloseError) Error() string {
	return fmt.Sprintf("the peer closed the connection (%d) %s", e.Code, e.Reason)
}

// Options holds the write timeout, buffers and settings of a connection.
type Options struct {
	Timeout time.Duration // of one write; a write fails after one to two timeouts
	Buffers *Buffers

	// Fragments accepts messages in several frames, as Gorilla's library sends long ones. Muster's agents send none.
	Fragments bool
}

// Conn is a WebSocket connection after its opening handshake.
type Conn struct {
	nc        net.Conn
	client    bool // masks its frames
	fragments bool

	writeLock sync.Mutex
	timeout   time.Duration
	deadline  time.Time // write deadline of nc; see extendWriteDeadline

	buffers     *Buffers
	longPayload *[]byte    // pooled buffer of the last message, if it was too long for the window
	raw         *rawReader // nil: reads go into small
	readAhead   *[]byte    // pooled, replaces small while it holds unread bytes of raw
	unreadFrom  int        // unread bytes of the window: from … to
	unreadTo    int
	header      [ws.MaxHeaderSize]byte
	idleBuffer  [idleBufferBytes]byte
}

// newConn wraps a network connection as a WebSocket connection, in the role of client or server.
func newConn(nc net.Conn, client bool, o Options) *Conn {
	return &Conn{nc: nc, client: client, timeout: o.Timeout, buffers: o.Buffers, fragments: o.Fragments}
}

// NetConn returns the underlying connection (TCP or TLS).
func (c *Conn) NetConn() net.Conn { return c.nc }

// Close closes the underlying connection without a close frame.
func (c *Conn) Close() error { return c.nc.Close() }

// Write sends a message as one binary WebSocket frame. The caller leaves Headroom free bytes in front for the
// frame header. The header goes into the headroom, so a message is one write without a copy; a client masks it
// in place. After an error the connection is of no use.
func (c *Conn) Write(frame []byte) error { return c.write(ws.OpBinary, frame) }

// Ping sends a ping. The peer's pong returns the payload (at most 125 bytes).
func (c *Conn) Ping(payload []byte) error { return c.writeControl(ws.OpPing, payload) }

// Pong sends an unsolicited pong frame (RFC 6455) to the peer, as a heartbeat.
func (c *Conn) Pong() error { return c.writeControl(ws.OpPong, nil) }

// WriteClose sends a close frame. The connection stays open for the peer's answer.
func (c *Conn) WriteClose(code uint16, reason string) error {
	return c.writeControl(ws.OpClose, ws.NewCloseFrameBody(ws.StatusCode(code), reason[:min(len(reason), 120)]))
}

// writeControl sends a WebSocket control frame, such as a ping.
func (c *Conn) writeControl(op Op, payload []byte) error {
	return c.write(op, append(make([]byte, Headroom, Headroom+len(payload)), payload...))
}

// write puts the frame header before the payload, and sends the frame. A client masks the payload.
func (c *Conn) write(op Op, frame []byte) error {
	payload := frame[Headroom:]
	h := ws.Header{Fin: true, OpCode: op, Length: int64(len(payload))}
	if c.client {
		h.Masked, h.Mask = true, ws.NewMask()
		ws.Cipher(payload, h.Mask, 0)
	}
	size := putHeader(frame[:Headroom], h)
	copy(frame[Headroom-size:], frame[:size])
	return c.Send(frame[Headroom-size:])
}

// putHeader encodes the header of a WebSocket frame at the start of buffer b. It returns the header's size.
func putHeader(b []byte, h ws.Header) int {
	if err := ws.WriteHeaderBuffer(io.Discard, h, b); err != nil {
		panic("BUG: encode a frame's header: " + err.Error())
	}
	return ws.HeaderSize(h)
}

// AppendFrame encodes a binary message of a server as a frame, and appends the frame to dst. Send sends the
// frame.
func AppendFrame(dst []byte, parts ...[]byte) []byte {
	h := ws.Header{Fin: true, OpCode: ws.OpBinary}
	for _, p := range parts {
		h.Length += int64(len(p))
	}
	dst = slices.Grow(dst, ws.MaxHeaderSize+int(h.Length))
	dst = dst[:len(dst)+putHeader(dst[len(dst):len(dst)+ws.MaxHeaderSize], h)]
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}

// Send writes one or more frames that AppendFrame has encoded, in one system call.
func (c *Conn) Send(frames []byte) error {
	c.writeLock.Lock()
	defer c.writeLock.Unlock()
	if err := c.extendWriteDeadline(); err != nil {
		return err
	}
	_, err := c.nc.Write(frames)
	return err
}

// extendWriteDeadline extends the deadline for writes to the connection. To save system calls, it does so at
// most once per timeout.
func (c *Conn) extendWriteDeadline() error {
	now := time.Now() // its monotonic reading ignores changes of the wall clock
	if c.deadline.Sub(now) > c.timeout {
		return nil
	}
	c.deadline = now.Add(2 * c.timeout)
	return c.nc.SetWriteDeadline(c.deadline)
}

// maxDiscard bounds the bytes of a peer that CloseGracefully reads and drops.
const maxDiscard = 8 << 20

// CloseGracefully closes a connection, but first lets the peer read the last message. A close while bytes of the peer
// are unread makes the kernel reset the connection, and the peer loses the message with the reason. So it ends the
// server's half, drops incoming bytes for at most within, then closes. Nobody else may read meanwhile.
func CloseGracefully(nc net.Conn, within time.Duration) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(within))
	below := closeWrite(nc) // incoming bytes need no decryption
	_, _ = io.CopyN(io.Discard, below, maxDiscard)
}

// closeWrite closes the sending direction of a connection and of underlying connections, such as TCP under TLS.
// TCP, for example, is below TLS; it returns the lowest connection.
func closeWrite(nc net.Conn) (below net.Conn) {
	for below = nc; ; {
		if w, ok := below.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite() // TLS sends its alert
		}
		t, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			return below
		}
		below = t.NetConn()
	}
}

// CloseGracefully closes the TCP or TLS connection, but first lets the peer read the last message.
func (c *Conn) CloseGracefully(within time.Duration) { CloseGracefully(c.nc, within) }

// CloseWrite closes the sending direction of the connection. It limits the time in which another goroutine may
// still read.
func (c *Conn) CloseWrite(within time.Duration) {
	_ = c.nc.SetReadDeadline(time.Now().Add(within))
	closeWrite(c.nc)
}
