package judge

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// RoundRobin judges the runs of round-robin checks: each interval has one run, unless agents or the server were away,
// and no agent gets a run that another agent has.
func RoundRobin(x *observe.RoundRobin, loaders []observe.Ledgers) (*report.Turned, error) {
	var took observe.Histogram
	took.Merge(x.Took)
	t, members := &report.Turned{}, observe.Members(loaders)
	for i := range x.Rounds {
		r := &x.Rounds[i]
		judgeRound(t, x, r, loaders)
		for _, s := range r.Again {
			first, by := members[s.First], members[s.By]
			switch {
			case first == nil || by == nil:
				return nil, fmt.Errorf("a run of member %d and member %d, which no ledger has", s.First, s.By)
			case !attended(first, s.Before-observe.Slack, s.At+observe.Lull): // who lost its session, or had just got it, may have lost the run with it
				if s.By != s.First {
					took.Record(s.At-s.Since, 1)
				}
				continue
			}
			if t.Twice++; t.Twice == 1 {
				t.Second = fmt.Sprintf("%s, at %.1f s: to %s, and %.1f s later to %s", r.Name, seconds(s.Before-x.From), first.Name, seconds(s.At-s.Before), by.Name)
			}
		}
	}
	if t.Taken = uint64(took.Count()); t.Taken > 0 {
		t.Took = took.Latency()
	}
	return t, nil
}

// seconds converts ns to seconds.
func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// judgeRound judges the intervals of one round.
func judgeRound(t *report.Turned, x *observe.RoundRobin, r *observe.Round, loaders []observe.Ledgers) {
	if r.Interval <= 0 {
		return
	}
	for i := int(max(0, (x.From-r.First+r.Interval-1)/r.Interval)); ; i++ {
		from := r.First + int64(i)*r.Interval
		to := from + r.Interval
		if from >= x.End {
			return
		}
		mark := byte(0)
		if i < len(r.Marks) {
			mark = r.Marks[i]
		}
		t.Due++
		if ran := uint64(mark & observe.RunsMost); ran > 0 {
			t.Ran++
			t.Again += ran - 1
			continue
		}
		stuck, struck := r.Stuck[i]
		if mark&observe.Given != 0 && !struck { // the agent that had it lost it, as a machine that dies: the ledger tells
			stuck, struck = observe.Stuck{Since: from, Times: 1}, true
		}
		switch {
		case struck && min(to, x.End) <= stuck.Since+stuck.Times*r.Patience+observe.Lull:
			t.Passed++
		case from > x.End-observe.Lull, within(x.Away, from-r.Interval, to), !anyAttended(loaders, r.Class, from+r.Interval/4, to-r.Interval/4):
			t.Unjudged++
		default:
			if t.Missed++; t.Missed == 1 {
				t.Example = fmt.Sprintf("%s, at %.1f s", r.Name, seconds(from-x.From))
			}
		}
	}
}

// within reports whether one of some spans overlaps a time.
func within(list []observe.Stay, from, to int64) bool {
	return slices.ContainsFunc(list, func(s observe.Stay) bool { return s.From <= to && s.To >= from })
}

// attended reports whether a machine had a session from from to to without interruption.
func attended(a *observe.Ledger, from, to int64) bool {
	return slices.ContainsFunc(a.Stays, func(s observe.Stay) bool { return s.From <= from && s.To >= to })
}

// anyAttended reports whether any machine of a class had a session from from to to without interruption.
func anyAttended(loaders []observe.Ledgers, class int, from, to int64) bool {
	for i := range loaders {
		l := &loaders[i]
		for n := range l.Agents {
			a := &l.Agents[n]
			if a.Set >= 0 && l.Sets[a.Set].Class == class && attended(a, from, to) {
				return true
			}
		}
	}
	return false
}
