package turns

import (
	stdheap "container/heap"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

type turnKey struct {
	check model.CheckID
	about model.NodeID // zero: a check without proxy nodes
}

// turn is one check's turn, about one proxy node or none. Times are the engine's clock.
type turn struct {
	turnKey
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

// startInterval starts the interval that contains now. An interval that ends without an assignee was missed.
func (e *Engine) startInterval(t *turn, now time.Duration) (m Missed, missed bool) {
	r := t.robin
	began := t.next - r.chunk.Interval
	if t.cron != "" {
		began = t.due
	}
	missed = t.open && t.assignee == 0 && !t.reported && began >= e.graceEnd()
	t.missed = missed || t.missed && t.open // unchanged while unknown
	if missed {
		m = Missed{t.about, r.chunk, r.noMemberText()}
	}
	if t.assignee == 0 { // else the run is late and continues with another member
		t.last = 0
	}
	e.withdrawTurn(t)
	if t.cron == "" {
		t.next = when.OnGrid(now, r.chunk.Interval, t.next%r.chunk.Interval)
	} else {
		t.due, t.ran, t.reported = t.next, t.tick, false
		e.scheduleNext(t, now)
	}
	if _, held := r.except.Active(e.wall(now)); held {
		t.open, t.missed, t.wake = false, false, t.next
	} else {
		t.open = true
		e.giveTurn(t, now)
	}
	return m, missed && t.about != 0
}

// giveTurn hands a turn to the next member and sets the time to look again; without a result by then
// another member gets it. A single member keeps it.
func (e *Engine) giveTurn(t *turn, now time.Duration) {
	r, was := t.robin, t.assignee
	if t.cron != "" && was == 0 && now > t.due {
		if _, held := r.except.Active(e.wall(now)); held { // an excepted time began while it waited
			t.open, t.missed, t.wake = false, false, t.next
			return
		}
	}
	to := e.chooseMember(t, now)
	switch {
	case to != 0:
		e.withdrawTurn(t)
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

// chooseMember returns the next connected member for a turn: first the check's next, so that all members are used evenly;
// then the turn's own next, so that it tries every member before it returns to a hanging one.
func (e *Engine) chooseMember(t *turn, now time.Duration) model.NodeID {
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

// withdrawTurn takes a turn from its assignee.
func (e *Engine) withdrawTurn(t *turn) {
	if t.assignee == 0 {
		return
	}
	delete(e.assigned[t.assignee], t)
	if len(e.assigned[t.assignee]) == 0 {
		delete(e.assigned, t.assignee)
	}
	t.assignee = 0
}

func (r *rotation) noMemberText() string {
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

// Turns by cron. Due times are wall-clock times in the check's zone. Each due time has one run; the
// engine looks for a member until the next due time.

const (
	// overdueAfter is the time without a connected member after which a due time is reported as missed.
	overdueAfter = time.Minute
	// catchUp is the age up to which a starting server makes up for a due time.
	catchUp = time.Hour
	// clockStep is the shift of the wall clock that counts as a change by hand.
	clockStep = time.Second
	// never is the due time of an expression without one, such as 30 February.
	never = 365 * 24 * time.Hour
)

// cronOf returns the cron expression of a check with its zone; empty: the check has an interval.
func cronOf(c *model.CheckChunk) string {
	if c.Cron == "" {
		return ""
	}
	return c.Cron + " " + c.TimeZone
}

func (e *Engine) locationOf(c *model.CheckChunk) *time.Location {
	if c.Cron == "" {
		return nil
	}
	location, err := when.ParseCron(c.Cron, c.TimeZone)
	if err != nil {
		e.o.Log.Error("BUG: times that were accepted cannot be read", "check", c.Name, "err", err)
		return time.UTC
	}
	return location
}

// wall converts a time of the engine's clock to wall-clock time.
func (e *Engine) wall(now time.Duration) time.Time { return time.Unix(0, int64(now+e.skew)) }

// scheduleNext sets the next due time of a turn, after now and after its last one: a clock set back repeats no run.
func (e *Engine) scheduleNext(t *turn, now time.Duration) {
	from := e.wall(now)
	if t.ran.After(from) && t.ran.Sub(from) <= catchUp {
		from = t.ran
	}
	r := t.robin
	if !r.from.Equal(from) { // all turns of a check share the answer
		tick, err := when.NextCron(r.chunk.Cron, r.location, from)
		if err != nil {
			tick = from.Add(never)
		}
		r.from, r.tick = from, tick
	}
	t.tick, t.next = r.tick, time.Duration(r.tick.UnixNano())-e.skew
}

// followWallClock detects a clock set by hand: due times that were skipped are due now, once.
func (e *Engine) followWallClock(now time.Duration) {
	skew := time.Duration(e.o.Wall().UnixNano()) - now
	if (skew - e.skew).Abs() < clockStep {
		return
	}
	e.skew = skew
	wall := e.wall(now)
	for _, t := range e.turns {
		if t.cron == "" {
			continue
		}
		if t.tick.After(wall) {
			e.scheduleNext(t, now)
		} else {
			t.next = now
		}
		if !t.open || t.wake > t.next {
			t.wake = t.next
		}
		e.heap.fix(t)
	}
}

// reportOverdue reports a due time as missed, once, when no member was connected for too long.
func (e *Engine) reportOverdue(t *turn, now time.Duration) (m Missed, ok bool) {
	if t.cron == "" || !t.open || t.assignee != 0 || t.reported || now < max(t.due+overdueAfter, e.graceEnd()) {
		return m, false
	}
	t.reported, t.missed = true, true
	return Missed{t.about, t.robin.chunk, t.robin.noMemberText()}, t.about != 0
}

// resumeDueTimes restores due times after a start: one without a later result is run again once its timeout is over.
func (e *Engine) resumeDueTimes(r *rotation, now time.Duration) {
	if e.o.Last == nil {
		return
	}
	wall := e.wall(now)
	var tick time.Time
	for at := wall.Add(-catchUp); ; {
		next, err := when.NextCron(r.chunk.Cron, r.location, at)
		if err != nil || next.After(wall) {
			break
		}
		at, tick = next, next
	}
	if tick.IsZero() {
		return
	}
	for _, s := range r.subjects {
		t := e.turns[turnKey{r.chunk.Unit, s.ID}]
		if last, ok := e.lastRun(r, s.ID); t == nil || !ok || !last.Before(tick) {
			continue
		}
		t.open, t.due = true, time.Duration(tick.UnixNano())-e.skew
		t.assignedAt = t.due
		t.wake = min(t.next, max(now, t.due+r.timeout()))
		e.heap.fix(t)
	}
}

// lastRun returns the time of the last result about a proxy node, or of any member.
func (e *Engine) lastRun(r *rotation, about model.NodeID) (at time.Time, ok bool) {
	if about != 0 {
		return e.o.Last(about, r.chunk.Unit)
	}
	r.members.Iterate(func(id uint32) bool {
		if one, has := e.o.Last(model.NodeID(id), r.chunk.Unit); has {
			if ok = true; one.After(at) {
				at = one
			}
		}
		return true
	})
	return at, ok
}
