package muster

import (
	"net"
	"runtime"
)

// gate lets only so many TLS handshakes compute at a time. One that waits for its peer
// holds no place: slow peers block nobody.
type gate chan struct{}

func newGate(places int) gate { return make(gate, max(1, places)) }

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }

// gates are those of a listener. Agents come by the thousand at once: all processors but
// one are theirs, so that open sessions, pages and readyz get their turn. People do not
// stand in the agents' queue.
type gates struct{ agents, people gate }

func newGates() gates {
	n := runtime.GOMAXPROCS(0)
	return gates{agents: newGate(n - 1), people: newGate(n)}
}

// gatedConn computes in the gate that it was given when it had said who it is (the
// ClientHello, which costs next to nothing), until the handshake is over.
type gatedConn struct {
	net.Conn
	gate gate // nil: none
}

func (c *gatedConn) enter(g gate) {
	c.gate = g
	g.enter()
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
	if c.gate != nil {
		c.gate.leave()
		c.gate = nil
	}
}
