package wsconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"

	"github.com/gobwas/ws"
)

const (
	// maxFrames bounds the frames of one message: a peer may not send empty frames without end.
	maxFrames = 4096
	// maxUnprovenBytes bounds the memory for a message before its bytes arrive: announcing a long one costs nothing.
	maxUnprovenBytes = 64 << 10
)

// Read waits for the next message of at most `limit` bytes, and returns the message's kind and content. The
// payload is valid until the next Read or Wait. Pings are answered before they are returned. While it waits,
// only the small buffer is held.
func (c *Conn) Read(limit int) (Op, []byte, error) {
	c.releaseBuffers()
	h, payload, err := c.readFrame(limit, false)
	switch {
	case err != nil:
		return 0, nil, err
	case !h.Fin:
		payload, err = c.readContinuationFrames(payload, limit)
	case h.OpCode.IsControl():
		err = c.handleControl(h.OpCode, payload)
	}
	return h.OpCode, payload, err
}

// readFrame reads one frame and returns its header and payload. continued is true if earlier frames of the same
// message were read.
func (c *Conn) readFrame(limit int, continued bool) (h ws.Header, payload []byte, err error) {
	h, err = ws.ReadHeaderBuffer((*connReader)(c), c.header[:])
	if errors.Is(err, ws.ErrHeaderLengthMSB) || errors.Is(err, ws.ErrHeaderLengthUnexpected) {
		return h, nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err != nil {
		return h, nil, err
	}
	if violation := c.findFrameViolation(&h, continued); violation != "" {
		return h, nil, fmt.Errorf("%w: %s", ErrProtocol, violation)
	}
	if !h.OpCode.IsControl() && h.Length > int64(limit) {
		return h, nil, fmt.Errorf("%w: the message has %d bytes, at most %d are allowed", ErrTooLarge, h.Length, limit)
	}
	if payload, err = c.readPayload(int(h.Length)); err != nil {
		return h, nil, err
	}
	if h.Masked {
		ws.Cipher(payload, h.Mask, 0)
	}
	return h, payload, nil
}

// readContinuationFrames reads the remaining frames of a fragmented message, and joins the payloads. Control
// frames may come between them.
func (c *Conn) readContinuationFrames(first []byte, limit int) ([]byte, error) {
	message := append(make([]byte, 0, min(2*len(first), limit)), first...)
	for range maxFrames {
		c.releaseBuffers()
		h, payload, err := c.readFrame(limit-len(message), true)
		if err == nil && h.OpCode.IsControl() {
			if err = c.handleControl(h.OpCode, payload); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if message = append(message, payload...); h.Fin {
			return message, nil
		}
	}
	return nil, fmt.Errorf("%w: the message has more than %d frames", ErrTooLarge, maxFrames)
}

// handleControl answers a received ping with a pong, and a close frame with a close frame.
func (c *Conn) handleControl(op Op, payload []byte) error {
	switch op {
	case ws.OpClose:
		code, reason := ws.ParseCloseFrameData(payload)
		_ = c.WriteClose(uint16(max(code, ws.StatusNormalClosure)), "")
		return &CloseError{Code: uint16(code), Reason: reason}
	case ws.OpPing:
		return c.writeControl(ws.OpPong, payload)
	}
	return nil
}

// findFrameViolation describes how a frame breaks the WebSocket standard (RFC 6455). For a valid frame it returns "".
func (c *Conn) findFrameViolation(h *ws.Header, continued bool) string {
	switch {
	case h.Rsv != 0:
		return "a reserved bit is set, and no extension was agreed"
	case h.OpCode.IsReserved():
		return fmt.Sprintf("frames of kind %d are not defined", h.OpCode)
	case h.Masked == c.client:
		return "clients must mask their frames, servers must not"
	case h.OpCode.IsControl() && !h.Fin:
		return "a control frame in fragments"
	case !c.fragments && (!h.Fin || h.OpCode == ws.OpContinuation):
		return "a message in fragments: one message is one frame here"
	case !h.OpCode.IsControl() && (h.OpCode == ws.OpContinuation) != continued:
		return "a continuation frame without a first frame, or a message within another"
	case h.OpCode != ws.OpBinary && h.OpCode != ws.OpContinuation && !h.OpCode.IsControl():
		return "a text message: messages are binary here"
	case h.OpCode.IsControl() && h.Length > ws.MaxControlFramePayloadSize:
		return "a control frame longer than 125 bytes"
	}
	return ""
}

// readPayload returns the next n bytes of a message. They come from the buffer of received bytes if they fit,
// otherwise from a pooled buffer.
func (c *Conn) readPayload(n int) ([]byte, error) {
	have, window := c.unreadTo-c.unreadFrom, c.receiveBuffer()
	if n <= have {
		p := window[c.unreadFrom : c.unreadFrom+n]
		c.unreadFrom += n
		return p, nil
	}
	if n <= len(window) {
		copy(window, window[c.unreadFrom:c.unreadTo])
		c.unreadFrom, c.unreadTo = 0, have
		got, err := io.ReadAtLeast(c.nc, window[have:], n-have)
		if err != nil {
			return nil, err
		}
		c.unreadFrom, c.unreadTo = n, have+got
		return window[:n], nil
	}
	c.longPayload = c.buffers.get(min(n, maxUnprovenBytes))
	copy(*c.longPayload, window[c.unreadFrom:c.unreadTo])
	c.unreadFrom, c.unreadTo = 0, 0
	for {
		p := (*c.longPayload)[:min(n, cap(*c.longPayload))]
		if _, err := io.ReadFull(c.nc, p[have:]); err != nil {
			return nil, err
		}
		if have = len(p); have == n {
			return p, nil
		}
		more := c.buffers.get(min(n, 2*have))
		copy(*more, p)
		c.buffers.put(c.longPayload)
		c.longPayload = more
	}
}

// Wait waits until the connection has bytes to read. An idle connection waits here with a small goroutine stack
// and without a large buffer. The payload of the last Read is no longer valid.
func (c *Conn) Wait() error {
	c.releaseBuffers()
	if c.unreadFrom < c.unreadTo {
		return nil
	}
	if c.raw != nil {
		return c.waitAndReadRaw()
	}
	n, err := c.nc.Read(c.idleBuffer[:])
	if n == 0 {
		return err
	}
	c.unreadFrom, c.unreadTo = 0, n
	return nil
}

// releaseBuffers returns buffers to their pool after their bytes have been read.
func (c *Conn) releaseBuffers() {
	if c.longPayload != nil {
		c.buffers.put(c.longPayload)
		c.longPayload = nil
	}
	if c.readAhead != nil && c.unreadFrom == c.unreadTo {
		c.buffers.put(c.readAhead)
		c.readAhead = nil
	}
}

// receiveBuffer returns the connection's whole receive buffer, with read and unread bytes.
func (c *Conn) receiveBuffer() []byte {
	if c.readAhead != nil {
		return *c.readAhead
	}
	return c.idleBuffer[:]
}

// HasFrame reports whether the connection has received a complete frame. Then Read does not block.
func (c *Conn) HasFrame() bool {
	b := c.receiveBuffer()[c.unreadFrom:c.unreadTo]
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

// connReader reads the received bytes of a connection, as an io.Reader.
type connReader Conn

// Read returns bytes that have arrived, or waits for new bytes. If all have been read, it waits for new bytes.
func (r *connReader) Read(p []byte) (int, error) {
	c := (*Conn)(r)
	if c.unreadFrom == c.unreadTo {
		if err := c.Wait(); err != nil || c.unreadFrom == c.unreadTo {
			return 0, err
		}
	}
	n := copy(p, c.receiveBuffer()[c.unreadFrom:c.unreadTo])
	c.unreadFrom += n
	return n, nil
}

// Buffers has pools of message buffers, one pool for each buffer size (a power of two). The zero value is
// ready.
type Buffers struct{ pools [21]sync.Pool } // 2^0 … 2^20

// get takes a buffer of at least n bytes from the pool of its size.
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

// put returns a buffer to the pool of its size.
func (b *Buffers) put(p *[]byte) {
	if class := bits.Len(uint(cap(*p) - 1)); class < len(b.pools) && cap(*p) == 1<<class {
		b.pools[class].Put(p)
	}
}
