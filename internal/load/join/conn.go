package join

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	mostHello   = 64 << 10 // bytes from somebody who has not said the secret
	mostMessage = 32 << 20
)

// silence is after how long one that says nothing is lost; aliveEvery is how often each
// says that it lives.
const (
	silence    = 10 * time.Second
	aliveEvery = time.Second
)

// message is one line of a connection.
type message struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body,omitempty"`
}

// conn is one end of a connection. It is read by one goroutine and written by any.
type conn struct {
	net.Conn
	limit *io.LimitedReader
	in    *json.Decoder
	mu    sync.Mutex // writing
}

// newConn returns a connection whose messages come from r.
func newConn(c net.Conn, r io.Reader) *conn {
	limit := &io.LimitedReader{R: r}
	return &conn{Conn: c, limit: limit, in: json.NewDecoder(limit)}
}

// send writes one message; an error ends the connection, and its reader hears of it.
func (c *conn) send(kind string, body any) error {
	m := message{Kind: kind}
	var text []byte
	var err error
	if body != nil {
		m.Body, err = json.Marshal(body)
	}
	if err == nil {
		text, err = json.Marshal(m)
	}
	if err != nil {
		return fmt.Errorf("encode a message to another loader: %w", err)
	}
	if len(text) > mostMessage {
		return model.Errorf(model.TooLarge, "a message of %d bytes to another loader, at most %d are allowed", len(text), mostMessage)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetWriteDeadline(time.Now().Add(silence))
	if _, err := c.Write(append(text, '\n')); err != nil {
		_ = c.Close()
		return err
	}
	return nil
}

// receive reads one message.
func (c *conn) receive() (message, error) {
	_ = c.SetReadDeadline(time.Now().Add(silence))
	return c.next()
}

func (c *conn) next() (m message, err error) {
	c.limit.N = mostMessage // what is announced and does not come takes no memory
	return m, c.in.Decode(&m)
}
