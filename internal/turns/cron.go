package turns

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
)

// Turns by cron. A due time is by the time of day, in the check's zone, which is the server's
// clock: each has one run, for which a member is looked for until the next one.

const (
	// overdueAfter is how long after a due time nobody may be there until that is told.
	overdueAfter = time.Minute
	// owed is for how long after a due time its run is made up for by a server that starts.
	owed = time.Hour
	// clockSet is how far the time of day must move against the clock to count as set.
	clockSet = time.Second
	// never is when a due time comes that never does: 30 February.
	never = 365 * 24 * time.Hour
)

// cronOf is what a check's due times are found by; empty: it has an interval.
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

// wall is the time of day at a time of the clock.
func (e *Engine) wall(now time.Duration) time.Time { return time.Unix(0, int64(now+e.skew)) }

// plan finds the next due time: after now, and after the last one, which does not come again
// by somebody's setting the clock back a little.
func (e *Engine) plan(t *turn, now time.Duration) {
	from := e.wall(now)
	if t.ran.After(from) && t.ran.Sub(from) <= owed {
		from = t.ran
	}
	r := t.robin
	if !r.from.Equal(from) { // all turns of a check ask the same at the same time
		tick, err := when.NextCron(r.chunk.Cron, r.location, from)
		if err != nil {
			tick = from.Add(never)
		}
		r.from, r.tick = from, tick
	}
	t.tick, t.next = r.tick, time.Duration(r.tick.UnixNano())-e.skew
}

// follow notices that somebody set the clock: due times that it leapt over are due now, once.
func (e *Engine) follow(now time.Duration) {
	skew := time.Duration(e.o.Wall().UnixNano()) - now
	if (skew - e.skew).Abs() < clockSet {
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
		if !t.open || t.act > t.next {
			t.act = t.next
		}
		e.heap.fix(t)
	}
}

// overdue says, once for each due time, that nobody has been there for too long.
func (e *Engine) overdue(t *turn, now time.Duration) (m Missed, ok bool) {
	if t.cron == "" || !t.open || t.to != 0 || t.told || now < max(t.due+overdueAfter, e.graceEnd()) {
		return m, false
	}
	t.told, t.missed = true, true
	return Missed{t.about, t.robin.chunk, t.robin.nobody()}, t.about != 0
}

// resume finds what was due while no server ran, or had just been given when one stopped: where
// no run came back since, it is given when a member would have had its time.
func (e *Engine) resume(r *robin, now time.Duration) {
	if e.o.Last == nil {
		return
	}
	wall := e.wall(now)
	var tick time.Time
	for at := wall.Add(-owed); ; {
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
		t.gave = t.due
		t.act = min(t.next, max(now, t.due+r.patience()))
		e.heap.fix(t)
	}
}

// last is when the last run came back, of a proxy node, or of any member.
func (e *Engine) last(r *robin, about model.NodeID) (at time.Time, ok bool) {
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
