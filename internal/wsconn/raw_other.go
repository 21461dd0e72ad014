//go:build !unix

package wsconn

import "net"

const aheadBytes = 8 << 10

type raw struct{}

func rawOf(net.Conn, *Conn) *raw { return nil }

func (c *Conn) waitRaw() error { panic("BUG: there is no raw connection here") }
