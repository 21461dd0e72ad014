package wsconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

const (
	// Headroom is what a buffer given to Write leaves free at its front.
	Headroom = ws.MaxHeaderSize

	// small is the buffer of an idle connection. A frame that fits is read by one
	// system call and handled where it lies: a batch of eight results does.
	small = 1024
)

// Op is a message's kind.
type Op = ws.OpCode

// Kinds of messages that Read returns. A close ends Read with a *CloseError.
const (
	Binary = ws.OpBinary
	Ping   = ws.OpPing
	Pong   = ws.OpPong
)

// ErrTooLarge: a frame longer than the reader allows.
var ErrTooLarge = errors.New("frame is too large")

// ErrProtocol: the peer breaks RFC 6455, or uses a part of it that we do not speak.
var ErrProtocol = errors.New("not the WebSocket of this protocol")

// CloseError is the peer's close frame.
type CloseError struct {
	Code   uint16
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("closed by the peer (%d) %s", e.Code, e.Reason)
}

// Conn is one connection after the opening handshake.
type Conn struct {
	nc     net.Conn
	client bool // masks what it writes

	wmu      sync.Mutex
	timeout  time.Duration // of one write
	deadline time.Time     // write deadline set on nc; moved rarely, see moveDeadline

	fragments bool
	buffers   *Buffers
	big       *[]byte // pooled, while the last message is too long for the small buffer
	raw       *raw    // nil: what comes is read into buf
	ahead     *[]byte // pooled, in place of buf while it holds what raw has read
	from      int     // unread bytes of the window
	to        int
	header    [ws.MaxHeaderSize]byte
	buf       [small]byte
}

// Options are shared by many connections.
type Options struct {
	Timeout time.Duration // of one write; from one to two of it pass before a write fails
	Buffers *Buffers

	// Fragments lets the peer send a message in parts, as Gorilla's library does with long
	// ones. Our own protocol has none.
	Fragments bool
}

func newConn(nc net.Conn, client bool, o Options) *Conn {
	return &Conn{nc: nc, client: client, timeout: o.Timeout, buffers: o.Buffers, fragments: o.Fragments}
}

// NetConn is the connection below (TCP or TLS).
func (c *Conn) NetConn() net.Conn { return c.nc }

// Close closes the connection below, without a close frame.
func (c *Conn) Close() error { return c.nc.Close() }

// Part ends the connection after what was written last: see the function Part.
func (c *Conn) Part(within time.Duration) { Part(c.nc, within) }

// Read waits for the next message of at most limit bytes. The payload is valid until
// the next Read. Pings are answered before they are returned. No buffer but the
// small one is held while it waits.
func (c *Conn) Read(limit int) (Op, []byte, error) {
	c.release()
	h, payload, err := c.frame(limit, false)
	if err != nil {
		return 0, nil, err
	}
	if !h.Fin {
		payload, err = c.join(payload, limit)
		return h.OpCode, payload, err
	}
	if h.OpCode.IsControl() {
		if err := c.answer(h.OpCode, payload); err != nil {
			return 0, nil, err
		}
	}
	return h.OpCode, payload, nil
}

// frame reads one frame; goes on: within a message in parts.
func (c *Conn) frame(limit int, goesOn bool) (h ws.Header, payload []byte, err error) {
	h, err = ws.ReadHeaderBuffer((*buffered)(c), c.header[:])
	if errors.Is(err, ws.ErrHeaderLengthMSB) || errors.Is(err, ws.ErrHeaderLengthUnexpected) {
		return h, nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err != nil {
		return h, nil, err
	}
	if what := c.forbidden(&h, goesOn); what != "" {
		return h, nil, fmt.Errorf("%w: %s", ErrProtocol, what)
	}
	if !h.OpCode.IsControl() && h.Length > int64(limit) {
		return h, nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, h.Length, limit)
	}
	if payload, err = c.payload(int(h.Length)); err != nil {
		return h, nil, err
	}
	if h.Masked {
		ws.Cipher(payload, h.Mask, 0)
	}
	return h, payload, nil
}

// maxParts bounds those of one message: who sends empty ones does not go on for ever.
const maxParts = 4096

// join reads what follows the first part of a message. Control frames may stand in between.
func (c *Conn) join(first []byte, limit int) ([]byte, error) {
	whole := append(make([]byte, 0, min(2*len(first), limit)), first...)
	for range maxParts {
		c.release()
		h, payload, err := c.frame(limit-len(whole), true)
		if err != nil {
			return nil, err
		}
		if h.OpCode.IsControl() {
			if err := c.answer(h.OpCode, payload); err != nil {
				return nil, err
			}
			continue
		}
		if whole = append(whole, payload...); h.Fin {
			return whole, nil
		}
	}
	return nil, fmt.Errorf("%w: a message in more than %d parts", ErrTooLarge, maxParts)
}

// answer does what a control frame asks for; a *CloseError is the end.
func (c *Conn) answer(op Op, payload []byte) error {
	switch op {
	case ws.OpClose:
		code, reason := ws.ParseCloseFrameData(payload)
		_ = c.WriteClose(uint16(max(code, ws.StatusNormalClosure)), "")
		return &CloseError{Code: uint16(code), Reason: reason}
	case ws.OpPing:
		return c.control(ws.OpPong, payload)
	}
	return nil
}

// forbidden says what of a frame's header the protocol does not have.
func (c *Conn) forbidden(h *ws.Header, goesOn bool) string {
	switch {
	case h.Rsv != 0:
		return "a reserved bit is set: no extension was agreed"
	case h.OpCode.IsReserved():
		return fmt.Sprintf("frames of kind %d do not exist", h.OpCode)
	case h.Masked == c.client:
		return "what clients send is masked, what servers send is not"
	case h.OpCode.IsControl() && !h.Fin:
		return "a control frame in fragments"
	case !c.fragments && (!h.Fin || h.OpCode == ws.OpContinuation):
		return "a message in fragments: one message is one frame"
	case !h.OpCode.IsControl() && (h.OpCode == ws.OpContinuation) != goesOn:
		return "a part of a message that did not begin, or another message within one"
	case h.OpCode != ws.OpBinary && h.OpCode != ws.OpContinuation && !h.OpCode.IsControl():
		return "a text message: messages are binary"
	case h.OpCode.IsControl() && h.Length > ws.MaxControlFramePayloadSize:
		return "a control frame longer than 125 bytes"
	}
	return ""
}

// eager is how much room is made for a message before any of it has come: who only says
// that it is long costs no memory.
const eager = 64 << 10

// payload returns the next n bytes: in the small buffer when they fit behind what is
// there already, else in a pooled one.
func (c *Conn) payload(n int) ([]byte, error) {
	have, window := c.to-c.from, c.window()
	if n <= have {
		p := window[c.from : c.from+n]
		c.from += n
		return p, nil
	}
	if n <= len(window) {
		copy(window, window[c.from:c.to])
		c.from, c.to = 0, have
		got, err := io.ReadAtLeast(c.nc, window[have:], n-have)
		if err != nil {
			return nil, err
		}
		c.from, c.to = n, have+got
		return window[:n], nil
	}
	c.big = c.buffers.get(min(n, eager))
	copy(*c.big, window[c.from:c.to])
	c.from, c.to = 0, 0
	for {
		p := (*c.big)[:min(n, cap(*c.big))]
		if _, err := io.ReadFull(c.nc, p[have:]); err != nil {
			return nil, err
		}
		if have = len(p); have == n {
			return p, nil
		}
		more := c.buffers.get(min(n, 2*have))
		copy(*more, p)
		c.buffers.put(c.big)
		c.big = more
	}
}

// Wait waits until something has come that Read may read, and takes next to no stack for
// it: what waits for long waits here. What Read returned before is valid no more.
func (c *Conn) Wait() error {
	c.release()
	if c.from < c.to {
		return nil
	}
	if c.raw != nil {
		return c.waitRaw()
	}
	n, err := c.nc.Read(c.buf[:])
	if n == 0 {
		return err
	}
	c.from, c.to = 0, n
	return nil
}

func (c *Conn) release() {
	if c.big != nil {
		c.buffers.put(c.big)
		c.big = nil
	}
	if c.ahead != nil && c.from == c.to {
		c.buffers.put(c.ahead)
		c.ahead = nil
	}
}

// window is where bytes lie that came and were not read yet.
func (c *Conn) window() []byte {
	if c.ahead != nil {
		return *c.ahead
	}
	return c.buf[:]
}

// More says that another message, or part of one, has come as a whole: Read does not wait.
func (c *Conn) More() bool {
	b := c.window()[c.from:c.to]
	if len(b) < 2 {
		return false
	}
	size, n := 2, int(b[1]&0x7f)
	switch {
	case n == 127 || n == 126 && len(b) < 4:
		return false
	case n == 126:
		size, n = 4, int(binary.BigEndian.Uint16(b[2:]))
	}
	if b[1]&0x80 != 0 {
		size += 4
	}
	return len(b) >= size+n
}

// buffered reads through the small buffer.
type buffered Conn

func (c *buffered) Read(p []byte) (int, error) {
	if c.from == c.to {
		if err := (*Conn)(c).Wait(); err != nil || c.from == c.to {
			return 0, err
		}
	}
	n := copy(p, (*Conn)(c).window()[c.from:c.to])
	c.from += n
	return n, nil
}

// Write sends one binary message: frame[Headroom:]. The room before it is scratch
// for the header, so that a frame is one write without a copy; a client masks the
// message where it lies. After an error the connection is of no more use.
func (c *Conn) Write(frame []byte) error { return c.write(ws.OpBinary, frame) }

// Ping sends a ping; the peer's pong brings the payload back (at most 125 bytes).
func (c *Conn) Ping(payload []byte) error { return c.control(ws.OpPing, payload) }

// WriteClose sends a close frame; the connection stays open for the peer's answer.
func (c *Conn) WriteClose(code uint16, reason string) error {
	body := ws.NewCloseFrameBody(ws.StatusCode(code), reason[:min(len(reason), 120)])
	return c.control(ws.OpClose, body)
}

// Pong sends a pong that nobody asked for: a peer that waits for one learns that we live.
func (c *Conn) Pong() error { return c.control(ws.OpPong, nil) }

func (c *Conn) control(op Op, payload []byte) error {
	frame := make([]byte, Headroom+len(payload))
	copy(frame[Headroom:], payload)
	return c.write(op, frame)
}

func (c *Conn) write(op Op, frame []byte) error {
	payload := frame[Headroom:]
	n := len(payload)
	size := 2
	switch {
	case n > 65535:
		size = 10
	case n > 125:
		size = 4
	}
	if c.client {
		size += 4
	}
	frame = frame[Headroom-size:]
	frame[0] = 0x80 | byte(op)
	switch {
	case n > 65535:
		frame[1] = 127
		binary.BigEndian.PutUint64(frame[2:], uint64(n))
	case n > 125:
		frame[1] = 126
		binary.BigEndian.PutUint16(frame[2:], uint16(n))
	default:
		frame[1] = byte(n)
	}
	if c.client {
		frame[1] |= 0x80
		var mask [4]byte
		binary.LittleEndian.PutUint32(mask[:], rand.Uint32())
		copy(frame[size-4:], mask[:])
		ws.Cipher(payload, mask, 0)
	}
	return c.Send(frame)
}

// Send writes frames that AppendFrame has made.
func (c *Conn) Send(frames []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := c.moveDeadline(); err != nil {
		return err
	}
	_, err := c.nc.Write(frames)
	return err
}

// AppendFrame appends one binary message of a server, given in parts: several messages are
// one Send.
func AppendFrame(dst []byte, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	dst = append(dst, 0x80|byte(ws.OpBinary))
	switch {
	case n > 65535:
		dst = binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
	case n > 125:
		dst = binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		dst = append(dst, byte(n))
	}
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}

// moveDeadline sets the write deadline between one and two timeouts ahead: a timer
// is touched once per timeout, not once per frame.
func (c *Conn) moveDeadline() error {
	now := time.Now() // with its monotonic reading: nobody's setting of the clock moves it
	if c.deadline.Sub(now) > c.timeout {
		return nil
	}
	c.deadline = now.Add(2 * c.timeout)
	return c.nc.SetWriteDeadline(c.deadline)
}

// Buffers are what messages longer than the small buffer are read into, pooled by
// power of two. The zero value is ready.
type Buffers struct{ pools [21]sync.Pool } // 2^0 … 2^20

func (b *Buffers) get(n int) *[]byte {
	class := bits.Len(uint(n - 1))
	if class >= len(b.pools) {
		p := make([]byte, n)
		return &p
	}
	if p, ok := b.pools[class].Get().(*[]byte); ok {
		return p
	}
	p := make([]byte, 1<<class)
	return &p
}

func (b *Buffers) put(p *[]byte) {
	if class := bits.Len(uint(cap(*p) - 1)); class < len(b.pools) && cap(*p) == 1<<class {
		b.pools[class].Put(p)
	}
}
