package turns

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
)

// Turns by cron. Due times are wall-clock times in the check's zone. Each due time has one run; the
// engine looks for a member until the next due time.

const (
	// overdueAfter is the time without a connected member after which a due time is reported as
	// missed.
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

// plan finds the next due time, after now and after the last one: setting the clock back a little
// repeats none.
func (e *Engine) plan(t *turn, now time.Duration) {
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

// follow detects a clock set by hand: due times that were skipped are due now, once.
func (e *Engine) follow(now time.Duration) {
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
			e.plan(t, now)
		} else {
			t.next = now
		}
		if !t.open || t.wake > t.next {
			t.wake = t.next
		}
		e.heap.fix(t)
	}
}

// overdue reports a due time as missed, once, when no member was connected for too long.
func (e *Engine) overdue(t *turn, now time.Duration) (m Missed, ok bool) {
	if t.cron == "" || !t.open || t.assignee != 0 || t.reported || now < max(t.due+overdueAfter, e.graceEnd()) {
		return m, false
	}
	t.reported, t.missed = true, true
	return Missed{t.about, t.robin.chunk, t.robin.noMember()}, t.about != 0
}

// resume restores due times after a start: one without a later result is run again once its timeout
// is over.
func (e *Engine) resume(r *rotation, now time.Duration) {
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
		t := e.turns[key{r.chunk.Unit, s.ID}]
		if last, ok := e.last(r, s.ID); t == nil || !ok || !last.Before(tick) {
			continue
		}
		t.open, t.due = true, time.Duration(tick.UnixNano())-e.skew
		t.assignedAt = t.due
		t.wake = min(t.next, max(now, t.due+r.timeout()))
		e.heap.fix(t)
	}
}

// last returns the time of the last result about a proxy node, or of any member.
func (e *Engine) last(r *rotation, about model.NodeID) (at time.Time, ok bool) {
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
