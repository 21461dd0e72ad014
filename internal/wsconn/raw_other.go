//go:build !unix

package wsconn

import "net"

type rawReader struct{}

func newRawReader(net.Conn, *Conn) *rawReader { return nil }

func (c *Conn) waitAndReadRaw() error { panic("BUG: there is no raw connection here") }
