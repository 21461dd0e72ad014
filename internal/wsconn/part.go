package wsconn

import (
	"io"
	"net"
	"time"
)

// partBytes is how much of what a peer still sends is read for its sake.
const partBytes = 8 << 20

// Part closes nc so that the peer can read what was written last. A close while bytes
// of the peer are unread makes the kernel reset the connection, and the peer throws away
// the sentence that says why. So: write no more, read on for a while without looking,
// then close. Nobody else may read meanwhile.
func Part(nc net.Conn, within time.Duration) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(within))
	below := closeWrite(nc) // what comes need not be decrypted
	_, _ = io.CopyN(io.Discard, below, partBytes)
}

// closeWrite ends our half of nc and of what lies below it, which it returns.
func closeWrite(nc net.Conn) (below net.Conn) {
	for below = nc; ; {
		if w, ok := below.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite() // of TLS: the alert that says so
		}
		t, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			return below
		}
		below = t.NetConn()
	}
}

// CloseWrite ends our half of the connection, for the same reason as Part, where somebody
// reads it: the reader goes on until the peer closes too, at most for so long.
func (c *Conn) CloseWrite(within time.Duration) {
	_ = c.nc.SetReadDeadline(time.Now().Add(within))
	closeWrite(c.nc)
}
