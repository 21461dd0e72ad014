//go:build !unix

package wsconn

import "net"

// rawReader is unused on systems other than Unix, where connections read through net.Conn.
type rawReader struct{}

// newRawReader returns nil on systems other than Unix, where connections read through net.Conn.
func newRawReader(net.Conn, *Conn) *rawReader { return nil }

// waitAndReadRaw is never called on systems other than Unix, where newRawReader returns nil.
func (c *Conn) waitAndReadRaw() error { panic("BUG: there is no raw connection here") }
