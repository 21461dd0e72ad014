package play

import (
	"container/heap"
	"time"
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

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].due < d[j].due }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// Push and Pop are of heap.Interface: push and pop, which allocate nothing, call Fix alone.
func (d *dues) Push(any) {}
func (d *dues) Pop() any { return nil }

// push adds a frame.
func (d *dues) push(l lingering) {
	*d = append(*d, l)
	heap.Fix(d, len(*d)-1)
}

// pop removes and returns the earliest frame; there must be one.
func (d *dues) pop() lingering {
	h, last := *d, len(*d)-1
	first := h[0]
	h[0], h[last] = h[last], lingering{}
	if *d = h[:last]; last > 0 {
		heap.Fix(d, 0)
	}
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
