package wsconn

import (
	"io"
	"net"
	"time"
)

// maxDiscard bounds the bytes of a peer that CloseGracefully reads and drops.
const maxDiscard = 8 << 20

// CloseGracefully closes nc so that the peer can read what was written last. A close while bytes of the peer are unread
// makes the kernel reset the connection, and the peer loses the message with the reason. So it ends the server's half,
// drops incoming bytes for at most within, then closes. Nobody else may read meanwhile.
func CloseGracefully(nc net.Conn, within time.Duration) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(within))
	below := closeWrite(nc) // incoming bytes need no decryption
	_, _ = io.CopyN(io.Discard, below, maxDiscard)
}

// closeWrite ends this half of nc and of the connections below it, and returns the lowest.
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

// CloseGracefully is the function of this name on the connection below.
func (c *Conn) CloseGracefully(within time.Duration) { CloseGracefully(c.nc, within) }

// CloseWrite ends this half of the connection where another goroutine reads: it reads on until the peer closes too, for
// at most within.
func (c *Conn) CloseWrite(within time.Duration) {
	_ = c.nc.SetReadDeadline(time.Now().Add(within))
	closeWrite(c.nc)
}
