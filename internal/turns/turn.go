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
	about model.NodeID // zero: of a check without proxy nodes
}

// turn is one check's, about one proxy node or none. Times are the engine's clock.
type turn struct {
	key
	robin  *robin
	next   time.Duration // when its next interval begins
	act    time.Duration // when to look at it next
	open   bool          // this interval's run is not over
	to     model.NodeID  // whom it is given to; zero: nobody
	last   model.NodeID  // whom it was given to last and gave no result yet; zero: nobody
	gave   time.Duration // when it was last given to somebody
	missed bool          // the last interval that ended found nobody
	at     int           // in the heap

	// Of cron.
	cron string        // with its zone, as next was found by; empty: by interval
	tick time.Time     // next, by the time of day
	ran  time.Time     // the due time before, likewise
	due  time.Duration // of the run that is open
	told bool          // that nobody was there for it
}

// begin begins the interval that now is in. An interval that ends without anybody to whom
// it could be given was missed.
func (e *Engine) begin(t *turn, now time.Duration) (m Missed, missed bool) {
	r := t.robin
	began := t.next - r.chunk.Interval
	if t.cron != "" {
		began = t.due
	}
	missed = t.open && t.to == 0 && !t.told && began >= e.graceEnd()
	t.missed = missed || t.missed && t.open // as before, while that is not known
	if missed {
		m = Missed{t.about, r.chunk, r.nobody()}
	}
	if t.to == 0 { // else it is late, and another is next whoever's turn it would be
		t.last = 0
	}
	e.take(t)
	if t.cron == "" {
		t.next = when.OnGrid(now, r.chunk.Interval, t.next%r.chunk.Interval)
	} else {
		t.due, t.ran, t.told = t.next, t.tick, false
		e.plan(t, now)
	}
	if _, held := r.except.Active(e.wall(now)); held {
		t.open, t.missed, t.act = false, false, t.next
	} else {
		t.open = true
		e.give(t, now)
	}
	return m, missed && t.about != 0
}

// give gives a turn to the next member, and says when to look again: when no result has come
// by then, another one gets it. Where there is no other, who has it keeps it.
func (e *Engine) give(t *turn, now time.Duration) {
	r, was := t.robin, t.to
	if t.cron != "" && was == 0 && now > t.due {
		if _, held := r.except.Active(e.wall(now)); held { // it waited too long
			t.open, t.missed, t.act = false, false, t.next
			return
		}
	}
	to := e.choose(t, now)
	switch {
	case to != 0:
		e.take(t)
		t.to, t.last, t.gave, t.missed = to, to, now, false
		if e.with[to] == nil {
			e.with[to] = map[*turn]struct{}{}
		}
		e.with[to][t] = struct{}{}
		t.act = min(t.next, now+r.patience())
	case was != 0 && t.cron != "": // the next due time may be far
		t.act = min(t.next, now+r.patience())
	case was != 0:
		t.act = t.next
	default:
		t.act = min(t.next, now+r.retry())
	}
}

// graceEnd is from when on somebody who is away is missed.
func (e *Engine) graceEnd() time.Duration { return time.Duration(e.began.UnixNano()) + e.o.Grace }

// choose leaves the turn with the next connected member that does not have it: at first
// the check's next, so that all are used evenly; then the turn's own next, so that it does
// not meet one that hangs again before it has met all.
func (e *Engine) choose(t *turn, now time.Duration) model.NodeID {
	r := t.robin
	if now < r.deserted {
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
			if node := model.NodeID(id); node != t.to && e.o.Give(node, given) {
				if t.last == 0 {
					r.last = node
				}
				return node
			}
		}
	}
	if t.to == 0 {
		r.deserted = now + r.retry()
	}
	return 0
}

// take takes a turn from whom it was given to.
func (e *Engine) take(t *turn) {
	if t.to == 0 {
		return
	}
	delete(e.with[t.to], t)
	if len(e.with[t.to]) == 0 {
		delete(e.with, t.to)
	}
	t.to = 0
}

func (r *robin) nobody() string {
	return fmt.Sprintf("no member of %s's targets is connected", r.chunk.Name)
}

// heap is of turns, by act.
type heap []*turn

func (h heap) Len() int           { return len(h) }
func (h heap) Less(i, j int) bool { return h[i].act < h[j].act }
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
