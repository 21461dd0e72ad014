package load

import "sync"

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
