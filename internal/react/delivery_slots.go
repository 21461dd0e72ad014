package react

import (
	"sync"

	"github.com/muster-fleet/muster/internal/store/history"
)

// deliverySlots hold the messages under way, so that none is started twice and no handler gets more than
// its limit at the same time. They are in memory only: after a crash a message is tried again with the same
// key.
type deliverySlots struct {
	limit func(history.HandlerRef) int // messages that a handler gets at the same time

	mu       sync.Mutex
	underway map[int64]bool
	busy     map[history.HandlerRef]int
	// finished stay under way until the next query of the outbox begins: a query that ran while the outcome
	// was recorded still shows them as waiting.
	finished []int64
}

// reserve gives a message a slot; false: it has one already, or its handler has no more.
func (s *deliverySlots) reserve(one *history.Delivery) bool {
	most := s.limit(one.Handler)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underway[one.ID] || s.busy[one.Handler] >= most {
		return false
	}
	s.underway[one.ID] = true
	s.busy[one.Handler]++
	return true
}

// free gives a slot back.
func (s *deliverySlots) free(one *history.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = append(s.finished, one.ID)
	if s.busy[one.Handler]--; s.busy[one.Handler] == 0 {
		delete(s.busy, one.Handler)
	}
}

const (
	// maxDue bounds one query of the outbox: several times the messages of one handler.
	maxDue = 4 * perSocket
	// minDue is the least that a query asks for.
	minDue = 8
)

// beginQuery begins a query of the outbox. It returns the handlers without a free slot, and how many rows the
// others can use; messages under way are among those rows. Each message that ends causes a query, so its cost
// must not grow with the messages that wait.
func (s *deliverySlots) beginQuery(handlers []history.HandlerRef) (full []history.HandlerRef, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.finished {
		delete(s.underway, id)
	}
	s.finished = s.finished[:0]
	for ref, n := range s.busy {
		if n >= s.limit(ref) {
			full = append(full, ref)
		}
	}
	for _, ref := range handlers {
		if most := s.limit(ref); s.busy[ref] < most {
			n += most
		}
	}
	return full, min(max(n, minDue), maxDue)
}
