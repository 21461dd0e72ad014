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
	below := nc
	for {
		if w, ok := below.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite() // of TLS: the alert that says so
		}
		t, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		below = t.NetConn() // what comes need not be decrypted
	}
	_, _ = io.CopyN(io.Discard, below, partBytes)
}
