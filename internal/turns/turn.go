package turns

import (
	stdheap "container/heap"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

type key struct {
	check model.CheckID
	about model.NodeID // zero: a check without proxy nodes
}

// turn is one check's turn, about one proxy node or none. Times are the engine's clock.
type turn struct {
	key
	robin      *rotation
	next       time.Duration // begin of its next interval
	wake       time.Duration // next time to handle it
	open       bool          // the run of this interval is not over
	assignee   model.NodeID  // the member that has it; zero: none
	last       model.NodeID  // the last member that got it without answering; zero: none
	assignedAt time.Duration // time of the last assignment
	missed     bool          // the last interval had no member
	at         int           // index in the heap

	// Of cron.
	cron     string        // with its zone, as used for next; empty: by interval
	tick     time.Time     // next as wall-clock time
	ran      time.Time     // the former due time, likewise
	due      time.Duration // due time of the open run
	reported bool          // the open run was reported as missed
}

// startInterval starts the interval that contains now. An interval that ends without an assignee was
// missed.
func (e *Engine) startInterval(t *turn, now time.Duration) (m Missed, missed bool) {
	r := t.robin
	began := t.next - r.chunk.Interval
	if t.cron != "" {
		began = t.due
	}
	missed = t.open && t.assignee == 0 && !t.reported && began >= e.graceEnd()
	t.missed = missed || t.missed && t.open // unchanged while unknown
	if missed {
		m = Missed{t.about, r.chunk, r.noMember()}
	}
	if t.assignee == 0 { // else the run is late and continues with another member
		t.last = 0
	}
	e.withdraw(t)
	if t.cron == "" {
		t.next = when.OnGrid(now, r.chunk.Interval, t.next%r.chunk.Interval)
	} else {
		t.due, t.ran, t.reported = t.next, t.tick, false
		e.plan(t, now)
	}
	if _, held := r.except.Active(e.wall(now)); held {
		t.open, t.missed, t.wake = false, false, t.next
	} else {
		t.open = true
		e.give(t, now)
	}
	return m, missed && t.about != 0
}

// give hands a turn to the next member and sets the time to look again; without a result by then
// another member gets it. A single member keeps it.
func (e *Engine) give(t *turn, now time.Duration) {
	r, was := t.robin, t.assignee
	if t.cron != "" && was == 0 && now > t.due {
		if _, held := r.except.Active(e.wall(now)); held { // an excepted time began while it waited
			t.open, t.missed, t.wake = false, false, t.next
			return
		}
	}
	to := e.choose(t, now)
	switch {
	case to != 0:
		e.withdraw(t)
		t.assignee, t.last, t.assignedAt, t.missed = to, to, now, false
		if e.assigned[to] == nil {
			e.assigned[to] = map[*turn]struct{}{}
		}
		e.assigned[to][t] = struct{}{}
		t.wake = min(t.next, now+r.timeout())
	case was != 0 && t.cron != "": // the next due time may be far
		t.wake = min(t.next, now+r.timeout())
	case was != 0:
		t.wake = t.next
	default:
		t.wake = min(t.next, now+r.retry())
	}
}

// graceEnd returns the time from which missing members count.
func (e *Engine) graceEnd() time.Duration { return time.Duration(e.began.UnixNano()) + e.o.Grace }

// choose returns the next connected member for a turn: first the check's next, so that all members
// are used evenly; then the turn's own next, so that it tries every member before it returns to a
// hanging one.
func (e *Engine) choose(t *turn, now time.Duration) model.NodeID {
	r := t.robin
	if now < r.unavailableUntil {
		return 0
	}
	from := r.last
	if t.last != 0 {
		from = t.last
	}
	given := wire.TurnRun{Chunk: r.chunk.ID, Node: t.about}
	for _, part := range [...][2]uint64{{uint64(from) + 1, 1 << 32}, {0, uint64(from) + 1}} {
		it := r.members.Iterator()
		if part[0] >= 1<<32 {
			continue
		}
		it.AdvanceIfNeeded(uint32(part[0]))
		for it.HasNext() {
			id := it.Next()
			if uint64(id) >= part[1] {
				break
			}
			if node := model.NodeID(id); node != t.assignee && e.o.Give(node, given) {
				if t.last == 0 {
					r.last = node
				}
				return node
			}
		}
	}
	if t.assignee == 0 {
		r.unavailableUntil = now + r.retry()
	}
	return 0
}

// withdraw takes a turn from its assignee.
func (e *Engine) withdraw(t *turn) {
	if t.assignee == 0 {
		return
	}
	delete(e.assigned[t.assignee], t)
	if len(e.assigned[t.assignee]) == 0 {
		delete(e.assigned, t.assignee)
	}
	t.assignee = 0
}

func (r *rotation) noMember() string {
	return fmt.Sprintf("no member of %s's targets is connected", r.chunk.Name)
}

// heap orders turns by wake.
type heap []*turn

func (h heap) Len() int           { return len(h) }
func (h heap) Less(i, j int) bool { return h[i].wake < h[j].wake }
func (h heap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *heap) Push(t any) {
	t.(*turn).at = len(*h)
	*h = append(*h, t.(*turn))
}
func (h *heap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
func (h *heap) fix(t *turn)    { stdheap.Fix(h, t.at) }
func (h *heap) add(t *turn)    { stdheap.Push(h, t) }
func (h *heap) remove(t *turn) { stdheap.Remove(h, t.at) }
