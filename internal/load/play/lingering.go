package play

import "time"

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

// leave sends the frame unless it has left. If the server asked for longer pauses since, it returns true, and the frame is due
// later. Caller holds the agent's lock.
func (l *lingering) leave() (again bool) {
	a := l.agent
	if a.filling != l.frame || l.frame.first != l.first {
		return false
	}
	if due := a.due(l.frame); due > l.due {
		l.due, l.frame.due = due, due
		return true
	}
	a.leave(l.due)
	return false
}

// later sends the frame when it is due, for a result that no sender made.
func (l lingering) later() {
	time.AfterFunc(l.agent.fleet.Until(l.due), func() {
		l.agent.mu.Lock()
		defer l.agent.mu.Unlock()
		if l.leave() {
			l.later()
		}
	})
}
