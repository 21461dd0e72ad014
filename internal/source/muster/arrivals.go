package muster

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// arrivals bounds the cost of one machine before it has a session: its connections that are opening one, and its rate of
// Hellos, each of which writes two journal entries. A fleet that reconnects at once is not slowed, because each machine
// has limits of its own.
type arrivals struct {
	mu      sync.Mutex
	opening map[uuid.UUID]int
	hellos  map[model.NodeID]*core.Bucket
	swept   int64 // time of the last sweep, ns
}

const (
	maxOpening = 4      // connections: an agent has one; those that its network lost may linger
	helloRate  = 1. / 3 // per second
	helloBurst = 60 * time.Second
)

// enter counts a connection of a proven node until leave. The zero id is not limited.
func (a *arrivals) enter(node uuid.UUID) (leave func(), ok bool) {
	if node == uuid.Nil {
		return func() {}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opening[node] >= maxOpening {
		return nil, false
	}
	if a.opening == nil {
		a.opening = map[uuid.UUID]int{}
	}
	a.opening[node]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.opening[node]--; a.opening[node] == 0 {
			delete(a.opening, node)
		}
	}, true
}

// hello counts a Hello of the node at now (monotonic ns). A positive wait means that it comes too often.
func (a *arrivals) hello(node model.NodeID, now int64) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hellos == nil {
		a.hellos, a.swept = map[model.NodeID]*core.Bucket{}, now
	}
	if now-a.swept > int64(helloBurst) { // a bucket that idled for so long is full, like a new one
		a.swept = now
		for node, b := range a.hellos {
			if now-b.IdleSince() > int64(helloBurst) {
				delete(a.hellos, node)
			}
		}
	}
	b := a.hellos[node]
	if b == nil {
		b = new(core.Bucket)
		a.hellos[node] = b
	}
	wait = b.Spend(1, helloRate, helloBurst, now)
	if wait > 0 {
		b.Refund(1) // a refused Hello costs nothing
	}
	return wait
}
