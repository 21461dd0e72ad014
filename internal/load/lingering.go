package load

import (
	"sync"
)

// lingering is a frame that leaves when due unless it has left before.
type lingering struct {
	agent *agent
	frame *frame
	first uint64 // frames are used again: the number says whether it is still this one
	due   int64
}

// dues is a heap of them, the earliest first: agents that were asked to slow down
// linger longer than the others.
type dues []lingering

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

// pop takes the earliest of at least one.
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

// inbox is where frames wait for their sender that began with a turn: turns come on the
// goroutines that read, and frames leave by their sender's timetable. Its lock is taken
// under the agents'.
type inbox struct {
	wake chan struct{}

	mu   sync.Mutex
	came []lingering
	over bool // the sender has gone: what is made leaves at once
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put hands over a frame; false: nobody would send it.
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

// takeIn takes over what came.
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

// woken is nil where nobody wakes the sender.
func (s *sender) woken() <-chan struct{} {
	if s.inbox == nil {
		return nil
	}
	return s.inbox.wake
}

// closes is until when a sender with nothing to do waits for turns; never: it is done, and
// takes no more.
func (s *sender) closes(now int64) int64 {
	if s.inbox == nil {
		return never
	}
	if end := s.run.present().end(); now < end {
		return end
	}
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if len(s.inbox.came) > 0 {
		return now
	}
	s.inbox.over = true
	return never
}
