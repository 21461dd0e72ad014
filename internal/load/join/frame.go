package join

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// A frame is four bytes of length, a byte that says of which kind it is, and JSON.
const (
	headSize  = 5
	mostHello = 64 << 10 // from somebody who has not said the secret
	mostFrame = 32 << 20
)

// silence is after how long one that says nothing is lost; aliveEvery is how often each
// says that it lives.
const (
	silence    = 10 * time.Second
	aliveEvery = time.Second
)

// conn is one end of a connection. It is read by one goroutine and written by any.
type conn struct {
	net.Conn
	mu sync.Mutex // writing
}

// send writes one frame; an error ends the connection, and its reader hears of it.
func (c *conn) send(kind byte, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a message to another loader: %w", err)
	}
	if len(text) > mostFrame {
		return model.Errorf(model.TooLarge, "a message of %d bytes to another loader, at most %d are allowed", len(text), mostFrame)
	}
	frame := make([]byte, 0, headSize+len(text))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
	frame = append(append(frame, kind), text...)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetWriteDeadline(time.Now().Add(silence))
	if _, err := c.Conn.Write(frame); err != nil {
		_ = c.Close()
		return err
	}
	return nil
}

// receive reads one frame of at most so many bytes.
func (c *conn) receive(most int) (kind byte, body []byte, err error) {
	_ = c.SetReadDeadline(time.Now().Add(silence))
	return readFrame(c.Conn, most)
}

func readFrame(r io.Reader, most int) (kind byte, body []byte, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(most) {
		return 0, nil, model.Errorf(model.TooLarge, "a frame of %d bytes, at most %d are allowed", n, most)
	}
	body, err = io.ReadAll(io.LimitReader(r, n)) // what is announced and does not come takes no memory
	if err == nil && int64(len(body)) < n {
		err = io.ErrUnexpectedEOF
	}
	return head[4], body, err
}
