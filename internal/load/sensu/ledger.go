package sensu

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// Entry records what an agent answered to one check.
type Entry struct {
	Requests uint32 // came
	Dropped  uint32 // of them, not answered: not newer than the one before, as agents do, or the agent was at rest
	Missed   uint32 // did not come: between two that came lay more than one interval
	Sent     uint32 // events given to a connection …
	Written  uint32 // … and taken by it whole
	Issued   int64  // of the last request that was answered, s since 1970
	Executed int64  // of the last event written, s since 1970
	Status   uint32 // of the last event written
	Row      uint32 // events written in a row that had that status: the backend counts them as occurrences
}

// take records a request, and reports whether to answer it. An agent runs a check at most once for each second of
// issue.
func (e *Entry) take(r *sensuwire.ReceivedRequest, rest bool) bool {
	e.Requests++
	if rest || r.Issued <= e.Issued {
		e.Dropped++
		return false
	}
	if e.Issued > 0 && r.Interval > 0 {
		if n := (r.Issued - e.Issued + int64(r.Interval)/2) / int64(r.Interval); n > 1 {
			e.Missed += uint32(n - 1)
		}
	}
	e.Issued = r.Issued
	return true
}

// wrote records a sent event.
func (e *Entry) wrote(executed int64, status uint32) {
	if e.Written > 0 && e.Status == status {
		e.Row++
	} else {
		e.Row = 1
	}
	e.Written++
	e.Executed, e.Status = executed, status
}

// asked is an entry with the time of its last request, by the agent's clock.
type asked struct {
	Entry
	at time.Time
}

// overdue returns how many requests of a check should have come since a time; each may be late by half its interval and
// a second.
func overdue(interval, since time.Duration) uint64 {
	late := since - max(interval/2, time.Second)
	if interval <= 0 || late < interval {
		return 0
	}
	return uint64(late / interval)
}

// addTo adds the entry to the totals of a run.
func (e *Entry) addTo(t *report.Totals) {
	t.Requests += uint64(e.Requests)
	t.Dropped += uint64(e.Dropped)
	t.Missed += uint64(e.Missed)
	t.Sent += uint64(e.Sent)
	t.Written += uint64(e.Written)
}
