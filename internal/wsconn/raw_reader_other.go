//go:build !unix

package wsconn

import "net"

// rawReader is unused on this system: connections read by net.Conn.
type rawReader struct{}

// newRawReader returns nil, so that connections read by net.Conn on this system.
func newRawReader(net.Conn, *Conn) *rawReader { return nil }

// waitAndReadRaw is never called on this system.
func (c *Conn) waitAndReadRaw() error { panic("BUG: there is no raw connection here") }
