package muster

import (
	"runtime"
)

// gate lets only so many TLS handshakes compute at a time. One that waits for its peer
// holds no place (guest.Read): slow peers block nobody.
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
