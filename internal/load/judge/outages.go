package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// missed is a time without a session of one agent.
type missed struct {
	agent int
	observe.Absence
}

// outage is a period in which some agent lacked a session.
type outage struct {
	missed
	first int64 // when the first session was lost
	lost  []missed
}

// Outages returns the outages until the end of the timetable: intervals in which agents had no session. An outage ends when the last
// agent is back and the server has acknowledged a signal of a new session. ready has the times of the server's readiness.
func Outages(loaders []observe.Ledgers, faults []observe.Fault, ready []time.Duration, end int64) (list []report.Outage) {
	var all []missed
	agents := 0
	for a := range observe.Agents(loaders) {
		for _, x := range a.Absences {
			if x.From <= end && x.To > 0 {
				x.From = max(0, x.From)
				all = append(all, missed{agents, x})
			}
		}
		agents++
	}
	slices.SortFunc(all, func(a, b missed) int { return cmp.Compare(a.From, b.From) })
	var before int64
	for len(all) > 0 {
		o := outage{missed: all[0], first: all[0].From}
		for len(all) > 0 && (all[0].From <= o.To || o.Acked == 0 || all[0].From <= o.Acked) {
			x := all[0]
			o.lost, o.To = append(o.lost, x), max(o.To, x.To)
			if x.Acked > 0 && (o.Acked == 0 || x.Acked < o.Acked) {
				o.Acked = x.Acked
			}
			all = all[1:]
		}
		list = append(list, o.row(faults, ready, before, agents))
		before = o.first
	}
	return list
}

// row returns an outage in the report. A fault of the server or of connections that struck since the outage before made it, and
// is its start.
func (o *outage) row(faults []observe.Fault, ready []time.Duration, before int64, agents int) report.Outage {
	out := report.Outage{Lost: o.mostAtOnce()}
	for _, f := range faults {
		switch at := int64(f.At * 1e9); {
		case f.Over || at < before || at > o.first:
		case f.Server:
			out.Command, o.From = true, at
		case f.Cut > 0 && o.first-at < int64(time.Second): // an agent that is back at once is lost all the same
			out.Storm, o.From, out.Lost = f.Cut == agents, at, max(out.Lost, o.agents())
		}
	}
	since := func(at int64) float64 {
		if at == 0 || at == observe.Lasts {
			return -1
		}
		return time.Duration(max(0, at-o.From)).Seconds()
	}
	out.Second, out.Acked, out.Seconds = time.Duration(o.From).Seconds(), since(o.Acked), since(o.To)
	for i := len(ready) - 1; i >= 0; i-- {
		if at := int64(ready[i]); at >= o.From && at <= max(o.To, cmp.Or(o.Acked, math.MaxInt64)) {
			out.Serving = since(at)
		}
	}
	return out
}

// agents returns the number of agents that were lost.
func (o *outage) agents() int {
	lost := map[int]bool{}
	for _, x := range o.lost {
		lost[x.agent] = true
	}
	return len(lost)
}

// mostAtOnce returns the greatest number of agents that were away at the same time.
func (o *outage) mostAtOnce() (most int) {
	var back []int64
	for _, x := range o.lost {
		at, _ := slices.BinarySearch(back, x.To)
		back = slices.Insert(back, at, x.To)
		still, _ := slices.BinarySearch(back, x.From)
		back = back[still:]
		most = max(most, len(back))
	}
	return most
}

// Faults returns the faults that struck, in the order of the scenario.
func Faults(c *observe.Checks) []report.Struck {
	members := observe.Members(c.Ledgers)
	var numbers []int
	for _, f := range c.Faults {
		if !f.Over {
			numbers = append(numbers, f.Number)
		}
	}
	slices.Sort(numbers)
	rows, zero := make([]report.Struck, len(numbers)), time.Duration(c.Score.Zero()).Seconds()
	for _, f := range c.Faults {
		i := slices.Index(numbers, f.Number)
		switch {
		case i < 0:
			continue
		case f.Over:
			rows[i].Until = f.At - zero
		default:
			rows[i] = report.Struck{What: f.What, At: f.At - zero, Places: f.Places}
		}
		if len(f.Struck) > 0 {
			rows[i].Back = sessionsBack(members, &f)
		}
	}
	return rows
}

// sessionsBack returns the seconds until all agents whose sessions a fault ended had one again, or zero if some had
// none.
func sessionsBack(members map[int]*observe.Ledger, f *observe.Fault) float64 {
	at := int64(f.At * 1e9)
	last := at
	for _, m := range f.Struck {
		a := members[m]
		if a != nil && a.Stopped {
			continue
		}
		if a == nil {
			return 0
		}
		i := slices.IndexFunc(a.Stays, func(s observe.Stay) bool { return s.From > at })
		if i < 0 {
			return 0
		}
		last = max(last, a.Stays[i].From)
	}
	return time.Duration(last - at).Seconds()
}
