//go:build !unix

package wsconn

import "net"

// rawReader is an unused placeholder on non-Unix systems, because connections read through net.Conn.
type rawReader struct{}

// newRawReader returns nil on non-Unix systems, so connections read through net.Conn.
func newRawReader(net.Conn, *Conn) *rawReader { return nil }

// waitAndReadRaw panics, because connections on non-Unix systems have no rawReader.
func (c *Conn) waitAndReadRaw() error { panic("BUG: there is no raw connection here") }
