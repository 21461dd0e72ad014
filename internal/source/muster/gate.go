package muster

import "net"

// gate lets only as many TLS handshakes compute at a time as there are processors,
// so that in a storm of connections the sessions that are open still get their turn.
// A handshake that waits for its peer holds no place: slow peers block nobody.
type gate chan struct{}

func newGate(places int) gate { return make(gate, max(1, places)) }

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }

// gatedConn gives its place back while it waits for bytes. After open it is the
// plain connection.
type gatedConn struct {
	net.Conn
	gate gate // nil once open
}

func (c *gatedConn) Read(p []byte) (int, error) {
	if c.gate == nil {
		return c.Conn.Read(p)
	}
	c.gate.leave()
	n, err := c.Conn.Read(p)
	c.gate.enter()
	return n, err
}

func (c *gatedConn) open() {
	c.gate.leave()
	c.gate = nil
}
