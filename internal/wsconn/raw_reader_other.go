//go:build !unix

package wsconn

import "net"

// rawReader is unused: the variant for systems other than Unix, where connections read by net.Conn.
type rawReader struct{}

// newRawReader returns nil, so that connections read by net.Conn: the variant for systems other than Unix.
func newRawReader(net.Conn, *Conn) *rawReader { return nil }

// waitAndReadRaw is never called: the variant for systems other than Unix, where newRawReader returns nil.
func (c *Conn) waitAndReadRaw() error { panic("BUG: there is no raw connection here") }
