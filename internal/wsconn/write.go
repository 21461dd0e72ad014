package wsconn

import (
	"io"
	"slices"
	"time"

	"github.com/gobwas/ws"
)

// Write sends frame[Headroom:] as one binary message. The header goes into the headroom, so a message is one write without
// a copy; a client masks it in place. After an error the connection is of no use.
func (c *Conn) Write(frame []byte) error { return c.write(ws.OpBinary, frame) }

// Ping sends a ping. The peer's pong returns the payload (at most 125 bytes).
func (c *Conn) Ping(payload []byte) error { return c.writeControl(ws.OpPing, payload) }

// Pong sends an unsolicited pong: a peer that waits for one learns that this end is alive.
func (c *Conn) Pong() error { return c.writeControl(ws.OpPong, nil) }

// WriteClose sends a close frame. The connection stays open for the peer's answer.
func (c *Conn) WriteClose(code uint16, reason string) error {
	return c.writeControl(ws.OpClose, ws.NewCloseFrameBody(ws.StatusCode(code), reason[:min(len(reason), 120)]))
}

func (c *Conn) writeControl(op Op, payload []byte) error {
	return c.write(op, append(make([]byte, Headroom, Headroom+len(payload)), payload...))
}

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

// putHeader encodes a header at the front of b, which has room for the longest, and returns its size.
func putHeader(b []byte, h ws.Header) int {
	if err := ws.WriteHeaderBuffer(io.Discard, h, b); err != nil {
		panic("BUG: encode a frame's header: " + err.Error())
	}
	return ws.HeaderSize(h)
}

// AppendFrame appends one binary message of a server, in parts: several messages are one Send.
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

// Send writes frames of AppendFrame.
func (c *Conn) Send(frames []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := c.moveDeadline(); err != nil {
		return err
	}
	_, err := c.nc.Write(frames)
	return err
}

// moveDeadline keeps the write deadline between one and two timeouts ahead: the runtime's timer is set once per timeout,
// not once per frame.
func (c *Conn) moveDeadline() error {
	now := time.Now() // its monotonic reading ignores changes of the wall clock
	if c.deadline.Sub(now) > c.timeout {
		return nil
	}
	c.deadline = now.Add(2 * c.timeout)
	return c.nc.SetWriteDeadline(c.deadline)
}
