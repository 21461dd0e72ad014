package wsconn

import (
	"errors"
	"net"
)

// HandshakeBytes bounds what is read of an opening handshake, request line and headers
// together: whoever sends it has not said yet who it is. An agent of Sensu names its subscriptions there.
const HandshakeBytes = 64 << 10

// ErrHandshakeSize is what reading a Handshake ends with where there is more.
var ErrHandshakeSize = errors.New("the opening handshake is larger than 64 KiB")

// Handshake is a connection that is read for its opening handshake, and no further than a
// handshake may be long. What is read after that is read from the connection below.
type Handshake struct {
	net.Conn
	read int
}

func (h *Handshake) Read(p []byte) (int, error) {
	left := HandshakeBytes - h.read
	if left <= 0 {
		return 0, ErrHandshakeSize
	}
	n, err := h.Conn.Read(p[:min(len(p), left)])
	h.read += n
	return n, err
}
