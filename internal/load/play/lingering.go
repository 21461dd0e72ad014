package play

import (
	"sync"

	"github.com/muster-fleet/muster/internal/load/plan"
)

// lingering is a frame that waits for more results until due.
type lingering struct {
	agent *agent
	frame *frame
	first uint64 // frames are used again: the number says whether it is still this one
	due   int64
}

// dues is a heap of waiting frames, the earliest first.
type dues []lingering

// push adds a frame.
func (d *dues) push(l lingering) {
	h := append(*d, l)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].due <= l.due {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = l
	*d = h
}

// pop removes and returns the earliest frame; there must be one.
func (d *dues) pop() lingering {
	h := *d
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = lingering{}
	h = h[:len(h)-1]
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].due < h[down].due {
			down++
		}
		if h[down].due >= last.due {
			break
		}
		h[i], i = h[down], down
	}
	if len(h) > 0 {
		h[i] = last
	}
	*d = h
	return first
}

// inbox holds frames that a round-robin run began, until their sender takes them over. Its lock is taken under the
// agents'.
type inbox struct {
	wake chan struct{}

	mu   sync.Mutex
	came []lingering
	over bool // the sender has gone: what is made leaves at once
}

// newInbox returns an empty inbox.
func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put adds a frame; it returns false if the sender has ended and would not send it.
func (x *inbox) put(l lingering) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	if x.came = append(x.came, l); len(x.came) == 1 {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// takeIn moves the frames of the inbox into the sender's heap.
func (s *sender) takeIn() {
	if s.inbox == nil {
		return
	}
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	for _, l := range s.inbox.came {
		s.linger.push(l)
	}
	clear(s.inbox.came)
	s.inbox.came = s.inbox.came[:0]
}

// woken returns the channel that wakes the sender, or nil without an inbox.
func (s *sender) woken() <-chan struct{} {
	if s.inbox == nil {
		return nil
	}
	return s.inbox.wake
}

// closes returns the time until which an idle sender waits for round-robin runs; never means that it is done and
// accepts no more.
func (s *sender) closes(now int64) int64 {
	if s.inbox == nil {
		return plan.Never
	}
	if end := s.fleet.Present().End(); now < end {
		return end
	}
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if len(s.inbox.came) > 0 {
		return now
	}
	s.inbox.over = true
	return plan.Never
}
