package muster

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// arrivals bounds what one machine costs before it has a session: how many of its
// connections are on their way in, and how often it comes (each time writes the journal
// twice). A fleet that comes at once is not slowed: every machine comes for itself.
type arrivals struct {
	mu     sync.Mutex
	coming map[uuid.UUID]int
	often  map[model.NodeID]*core.Bucket
	swept  int64
}

const (
	comingAtOnce = 4      // an agent has one; those that its network lost may hang on for a while
	arrivesAgain = 1. / 3 // per second
	arrivesBurst = 60 * time.Second
)

// enter counts a connection of a proven node until leave. The zero id is anybody.
func (a *arrivals) enter(node uuid.UUID) (leave func(), ok bool) {
	if node == uuid.Nil {
		return func() {}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.coming[node] >= comingAtOnce {
		return nil, false
	}
	if a.coming == nil {
		a.coming = map[uuid.UUID]int{}
	}
	a.coming[node]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.coming[node]--; a.coming[node] == 0 {
			delete(a.coming, node)
		}
	}, true
}

// again counts a Hello of the node; more than zero: it comes too often, and should wait
// so long. now is of a clock that nobody sets.
func (a *arrivals) again(node model.NodeID, now int64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.often == nil {
		a.often, a.swept = map[model.NodeID]*core.Bucket{}, now
	}
	if now-a.swept > int64(arrivesBurst) { // those who have not come for so long are full again
		a.swept = now
		for node, b := range a.often {
			if now-b.IdleSince() > int64(arrivesBurst) {
				delete(a.often, node)
			}
		}
	}
	b := a.often[node]
	if b == nil {
		b = new(core.Bucket)
		a.often[node] = b
	}
	wait := b.Spend(1, arrivesAgain, arrivesBurst, now)
	if wait > 0 {
		b.Refund(1) // what is refused is not paid for
	}
	return wait
}
