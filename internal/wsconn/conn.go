package wsconn

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

const (
	// Headroom is the free space at the front of a buffer for Write.
	Headroom = ws.MaxHeaderSize

	// smallBytes is the buffer of an idle connection. A frame that fits, such as a batch of eight results, is read by one
	// system call and handled in place.
	smallBytes = 1024
)

// Op is the kind of a message.
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

// CloseError is the close frame of the peer.
type CloseError struct {
	Code   uint16
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("the peer closed the connection (%d) %s", e.Code, e.Reason)
}

// Options are shared by many connections.
type Options struct {
	Timeout time.Duration // of one write; a write fails after one to two timeouts
	Buffers *Buffers

	// Fragments accepts messages in several frames, as Gorilla's library sends long ones. Muster's agents send none.
	Fragments bool
}

// Conn is one connection after its opening handshake.
type Conn struct {
	nc        net.Conn
	client    bool // masks its frames
	fragments bool

	wmu      sync.Mutex
	timeout  time.Duration
	deadline time.Time // write deadline of nc; see moveDeadline

	buffers *Buffers
	big     *[]byte // pooled, while the last message does not fit into the window
	raw     *raw    // nil: reads go into small
	ahead   *[]byte // pooled, replaces small while it holds unread bytes of raw
	from    int     // unread bytes of the window: from … to
	to      int
	header  [ws.MaxHeaderSize]byte
	small   [smallBytes]byte
}

func newConn(nc net.Conn, client bool, o Options) *Conn {
	return &Conn{nc: nc, client: client, timeout: o.Timeout, buffers: o.Buffers, fragments: o.Fragments}
}

// NetConn returns the connection below (TCP or TLS).
func (c *Conn) NetConn() net.Conn { return c.nc }

// Close closes the connection below, without a close frame.
func (c *Conn) Close() error { return c.nc.Close() }
