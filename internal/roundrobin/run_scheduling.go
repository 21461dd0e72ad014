package roundrobin

import (
	stdheap "container/heap"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// runKey identifies a recurring run by its round-robin check and proxy node. The result is about the proxy node.
type runKey struct {
	check     model.CheckID
	proxyNode model.NodeID // zero: a check without proxy nodes
}

// recurringRun is the schedule of a round-robin check for one proxy node, with its present run. The members
// (nodes that share the check) take turns. Durations are times of the engine's clock.
type recurringRun struct {
	runKey
	robin            *rotation
	next             time.Duration // begin of its next interval
	wake             time.Duration // time at which the engine looks at the turn again
	runOpen          bool          // the run of this interval is not over
	assignee         model.NodeID  // the member that has to run the check now; zero: none
	lastSilentMember model.NodeID  // the last member that got the open run and sent no result; zero: none
	assignedAt       time.Duration // time of the last assignment
	missed           bool          // the last interval had no member
	heapIndex        int           // index in the heap

	// The fields of a turn by cron.
	cron          string        // with its zone, as used for next; empty: by interval
	dueTime       time.Time     // next as wall-clock time
	formerDueTime time.Time     // the former due time, as wall-clock time
	openRunDue    time.Duration // due time of the open run
	missReported  bool          // the open run was reported as missed
}

// startInterval begins the next interval of a recurring run, with a due time. It reports the previous interval as
// missed if no member node was connected. An interval that ends without an assignee was missed.
func (e *Engine) startInterval(t *recurringRun, now time.Duration) (m MissedRun, missed bool) {
	r := t.robin
	began := t.next - r.definition.Interval
	if t.cron != "" {
		began = t.openRunDue
	}
	missed = t.runOpen && t.assignee == 0 && !t.missReported && began >= e.graceEnd()
	t.missed = missed || t.missed && t.runOpen // unchanged while unknown
	if missed {
		m = MissedRun{t.proxyNode, r.definition, r.noMemberText()}
	}
	if t.assignee == 0 { // else the run is late and continues with another member
		t.lastSilentMember = 0
	}
	e.withdrawRun(t)
	if t.cron == "" {
		t.next = when.NextAtPhase(now, r.definition.Interval, t.next%r.definition.Interval)
	} else {
		t.openRunDue, t.formerDueTime, t.missReported = t.next, t.dueTime, false
		e.scheduleNext(t, now)
	}
	if _, held := r.except.Active(e.wallTime(now)); held {
		t.runOpen, t.missed, t.wake = false, false, t.next
	} else {
		t.runOpen = true
		e.assignRun(t, now)
	}
	return m, missed && t.proxyNode != 0
}

// assignRun assigns a run of a check to the next node in rotation. It sets the time limit for the result. Without a
// result by then another member gets the turn; a single member keeps it.
func (e *Engine) assignRun(t *recurringRun, now time.Duration) {
	r, was := t.robin, t.assignee
	if t.cron != "" && was == 0 && now > t.openRunDue {
		if _, held := r.except.Active(e.wallTime(now)); held { // an excepted time began while it waited
			t.runOpen, t.missed, t.wake = false, false, t.next
			return
		}
	}
	to := e.chooseMember(t, now)
	switch {
	case to != 0:
		e.withdrawRun(t)
		t.assignee, t.lastSilentMember, t.assignedAt, t.missed = to, to, now, false
		if e.assigned[to] == nil {
			e.assigned[to] = map[*recurringRun]struct{}{}
		}
		e.assigned[to][t] = struct{}{}
		t.wake = min(t.next, now+r.timeout())
	case was != 0 && t.cron != "": // the next due time may be far
		t.wake = min(t.next, now+r.timeout())
	case was != 0:
		t.wake = t.next
	default:
		t.wake = min(t.next, now+r.searchInterval())
	}
}

// graceEnd returns the end of the grace period after the server's start, in which agents may reconnect. In this
// grace period, missing members are not reported.
func (e *Engine) graceEnd() time.Duration { return time.Duration(e.startedAt.UnixNano()) + e.o.Grace }

// chooseMember returns the next connected node in the rotation of a check. After a timeout it tries each other member
// first.
func (e *Engine) chooseMember(t *recurringRun, now time.Duration) model.NodeID {
	r := t.robin
	if now < r.noMemberUntil {
		return 0
	}
	from := r.lastMember
	if t.lastSilentMember != 0 {
		from = t.lastSilentMember
	}
	given := wire.RoundRobinRun{Definition: r.definition.ID, Node: t.proxyNode}
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
				if t.lastSilentMember == 0 {
					r.lastMember = node
				}
				return node
			}
		}
	}
	if t.assignee == 0 {
		r.noMemberUntil = now + r.searchInterval()
	}
	return 0
}

// withdrawRun takes an unfinished run away from the node that had to do the run.
func (e *Engine) withdrawRun(t *recurringRun) {
	if t.assignee == 0 {
		return
	}
	delete(e.assigned[t.assignee], t)
	if len(e.assigned[t.assignee]) == 0 {
		delete(e.assigned, t.assignee)
	}
	t.assignee = 0
}

// noMemberText returns the output of the failing result for a run that no connected node did. It says that no
// member node is connected.
func (r *rotation) noMemberText() string {
	return fmt.Sprintf("no member of %s's targets is connected", r.definition.Name)
}

// runHeap is a heap of recurring runs, with the earliest next action of the engine first. The first run comes
// first.
type runHeap []*recurringRun

// Len returns the number of recurring runs (heap.Interface).
func (h runHeap) Len() int { return len(h) }

// Less compares two recurring runs by the time of the next decision (heap.Interface).
func (h runHeap) Less(i, j int) bool { return h[i].wake < h[j].wake }

// Swap exchanges two recurring runs (heap.Interface).
func (h runHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push appends a recurring run (heap.Interface).
func (h *runHeap) Push(t any) {
	t.(*recurringRun).heapIndex = len(*h)
	*h = append(*h, t.(*recurringRun))
}

// Pop removes and returns the last recurring run (heap.Interface).
func (h *runHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}

// fix restores the order of the heap after the time of a run has changed.
func (h *runHeap) fix(t *recurringRun) { stdheap.Fix(h, t.heapIndex) }

// add adds a recurring run to the heap.
func (h *runHeap) add(t *recurringRun) { stdheap.Push(h, t) }

// remove removes a recurring run from the heap.
func (h *runHeap) remove(t *recurringRun) { stdheap.Remove(h, t.heapIndex) }

// Turns by cron. Due times are wall-clock times in the check's zone. Each due time has one run; the
// engine looks for a member until the next due time.

const (
	// overdueAfter is the time without a connected member after which a due time is reported as missed.
	overdueAfter = time.Minute
	// maxCatchUpAge is the age up to which a starting server makes up for a due time.
	maxCatchUpAge = time.Hour
	// minClockStep is the shift of the wall clock that counts as a change by hand.
	minClockStep = time.Second
	// neverDue is the due time of an expression without one, such as 30 February.
	neverDue = 365 * 24 * time.Hour
)

// cronOf returns a check's cron expression with its time zone, or "" for a check with an interval.
func cronOf(c *model.CheckDefinition) string {
	if c.Cron == "" {
		return ""
	}
	return c.Cron + " " + c.TimeZone
}

// locationOf returns the time zone of a check's cron expression, or nil if the check has an interval.
func (e *Engine) locationOf(c *model.CheckDefinition) *time.Location {
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

// wallTime converts the engine's time to wall-clock time.
func (e *Engine) wallTime(now time.Duration) time.Time { return time.Unix(0, int64(now+e.skew)) }

// scheduleNext sets the next due time of a recurring run. It is always after now and after the last due time, so that
// a clock set back repeats no run.
func (e *Engine) scheduleNext(t *recurringRun, now time.Duration) {
	from := e.wallTime(now)
	if t.formerDueTime.After(from) && t.formerDueTime.Sub(from) <= maxCatchUpAge {
		from = t.formerDueTime
	}
	r := t.robin
	if !r.dueTimeAfter.Equal(from) { // all turns of a check share the computed due time
		tick, err := when.NextCron(r.definition.Cron, r.location, from)
		if err != nil {
			tick = from.Add(neverDue)
		}
		r.dueTimeAfter, r.nextDueTime = from, tick
	}
	t.dueTime, t.next = r.nextDueTime, time.Duration(r.nextDueTime.UnixNano())-e.skew
}

// adjustToClockChange corrects the due times after somebody has set the wall clock. A skipped due time becomes due
// once.
func (e *Engine) adjustToClockChange(now time.Duration) {
	skew := time.Duration(e.o.Wall().UnixNano()) - now
	if (skew - e.skew).Abs() < minClockStep {
		return
	}
	e.skew = skew
	wall := e.wallTime(now)
	for _, t := range e.turns {
		if t.cron == "" {
			continue
		}
		if t.dueTime.After(wall) {
			e.scheduleNext(t, now)
		} else {
			t.next = now
		}
		if !t.runOpen || t.wake > t.next {
			t.wake = t.next
		}
		e.heap.fix(t)
	}
}

// reportOverdue reports a run once as missed when no connected node could do the run. A run is overdue if no member
// node was connected for too long after its due time.
func (e *Engine) reportOverdue(t *recurringRun, now time.Duration) (m MissedRun, ok bool) {
	if t.cron == "" || !t.runOpen || t.assignee != 0 || t.missReported || now < max(t.openRunDue+overdueAfter, e.graceEnd()) {
		return m, false
	}
	t.missReported, t.missed = true, true
	return MissedRun{t.proxyNode, t.robin.definition, t.robin.noMemberText()}, t.proxyNode != 0
}

// resumeMissedRuns repeats runs that were due before the server's start but have no result. It waits until the
// timeout of the check has passed.
func (e *Engine) resumeMissedRuns(r *rotation, now time.Duration) {
	if e.o.Last == nil {
		return
	}
	wall := e.wallTime(now)
	var tick time.Time
	for at := wall.Add(-maxCatchUpAge); ; {
		next, err := when.NextCron(r.definition.Cron, r.location, at)
		if err != nil || next.After(wall) {
			break
		}
		at, tick = next, next
	}
	if tick.IsZero() {
		return
	}
	for _, s := range r.subjects {
		t := e.turns[runKey{r.definition.Unit, s.ID}]
		if last, ok := e.lastRun(r, s.ID); t == nil || !ok || !last.Before(tick) {
			continue
		}
		t.runOpen, t.openRunDue = true, time.Duration(tick.UnixNano())-e.skew
		t.assignedAt = t.openRunDue
		t.wake = min(t.next, max(now, t.openRunDue+r.timeout()))
		e.heap.fix(t)
	}
}

// lastRun returns the time of the last result of a round-robin check about a proxy node. For a check without
// proxy nodes it is the last result of any member.
func (e *Engine) lastRun(r *rotation, about model.NodeID) (at time.Time, ok bool) {
	if about != 0 {
		return e.o.Last(about, r.definition.Unit)
	}
	r.members.Iterate(func(id uint32) bool {
		if one, has := e.o.Last(model.NodeID(id), r.definition.Unit); has {
			if ok = true; one.After(at) {
				at = one
			}
		}
		return true
	})
	return at, ok
}
