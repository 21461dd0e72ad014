package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// Early is how much sooner than its result was intended an alert may come, in ns: senders wake up a moment too soon, and the
// clocks of several loaders differ. An alert that comes sooner is of no such result: paired with it, an alert that was made
// up would stand for a missing one.
const Early = int64(1e9)

// strike is a fault while its alerts are judged.
type strike struct {
	observe.Strike
	row               *report.Struck
	detected, cleared observe.Histogram
}

// Alerts judges the alerts of faults, fills them in the faults of a report, and returns the number of missing alerts. Faults nil:
// only that number is wanted.
func Alerts(a *observe.Alerts, faults []report.Struck) (missing int) {
	for _, s := range a.Strikes {
		for len(faults) <= s.Fault {
			faults = append(faults, report.Struck{})
		}
	}
	all := make([]*strike, len(a.Strikes))
	var checks []*strike
	struck := map[int][]*strike{}
	for i, s := range a.Strikes {
		x := &strike{Strike: s, row: &faults[s.Fault]}
		all[i] = x
		for _, state := range s.States {
			struck[state] = append(struck[state], x)
		}
		if failing(a, &s) {
			checks = append(checks, x)
		}
	}
	for i := range a.States {
		state, own := &a.States[i], struck[i]
		switch {
		case state.Machine:
			for _, x := range own {
				x.judgeMachine(state, slices.Contains(x.Offline, i), a.End)
			}
		case len(own) > 0:
			judgeCheck(state, own, true)
		case len(checks) > 0 && state.Fails: // its alerts must not be false
			judgeCheck(state, checks, false)
		}
	}
	if a.Strangers > 0 && len(checks) > 0 {
		checks[0].row.Extra += a.Strangers
		checks[0].row.Example = cmp.Or(checks[0].row.Example, a.Stranger+": nobody asked for alerts of it")
	}
	for _, x := range all {
		x.row.Detected, x.row.Cleared = x.detected.Latency(), x.cleared.Latency()
		missing += x.row.Missing
	}
	return missing
}

// failing reports whether a strike lets checks fail.
func failing(a *observe.Alerts, s *observe.Strike) bool {
	return len(s.States) > 0 && !a.States[s.States[0]].Machine
}

// wrong counts a wrong alert, and keeps the first as an example.
func (x *strike) wrong(count *int, state *observe.Alerted, format string, args ...any) {
	*count++
	if x.row.Example == "" {
		x.row.Example = state.Name + ": " + fmt.Sprintf(format, args...)
	}
}

// judgeCheck judges the alerts of a check's state. Each counts for the latest of some strikes; struck tells that these struck
// the state.
func judgeCheck(state *observe.Alerted, strikes []*strike, struck bool) {
	if state.Unclear {
		return
	}
	for _, open := range []bool{true, false} {
		must, came := turnsOf(state.Must, open), turnsOf(state.Came, open)
		counted := map[*strike]bool{}
		match(must, came, func(m, c *observe.Turn) {
			if m == nil {
				x := latest(strikes, c.At)
				x.wrong(&x.row.Extra, state, "an alert that it %s, %d of them and %d had to come", verb(open), len(came), len(must))
				return
			}
			x := latest(strikes, m.At)
			own := struck && !counted[x] && x.caused(*m)
			if own {
				counted[x] = true
				x.row.Alerts++
			}
			switch {
			case c == nil:
				x.wrong(&x.row.Missing, state, "no alert that it %s", verb(open))
			case own && open:
				x.detected.Record(c.At-x.At, 1)
			case own:
				x.cleared.Record(c.At-x.Until, 1)
			}
		})
	}
}

// match pairs expected turns with received ones, in order. It calls fn with each pair, with each expected turn that was not received
// (came is nil), and with each received turn that was not expected (must is nil). A turn that was received more than Early before
// the next expected one was not expected.
func match(must, came []observe.Turn, fn func(must, came *observe.Turn)) {
	for i := range must {
		for ; len(came) > 0 && came[0].At < must[i].At-Early; came = came[1:] {
			fn(nil, &came[0])
		}
		if len(came) == 0 {
			fn(&must[i], nil)
			continue
		}
		fn(&must[i], &came[0])
		came = came[1:]
	}
	for i := range came {
		fn(nil, &came[i])
	}
}

// caused reports whether a strike made a state turn: it fails while the strike lasts, or is well once the strike is over.
func (x *strike) caused(t observe.Turn) bool {
	if t.Open {
		return t.At >= x.At && (x.Until == 0 || t.At <= x.Until)
	}
	return x.Until > 0 && t.At >= x.Until
}

// verb returns fails or recovers.
func verb(open bool) string {
	if open {
		return "fails"
	}
	return "is well again"
}

// turnsOf returns the openings or the closings of a problem.
func turnsOf(all []observe.Turn, open bool) (list []observe.Turn) {
	for _, t := range all {
		if t.Open == open {
			list = append(list, t)
		}
	}
	return list
}

// judgeMachine judges the alerts of a stopped machine: one for its silence, if this lasted longer than its timeout, and
// one for its return. If the machine was away already, the first alert may have come before.
func (x *strike) judgeMachine(state *observe.Alerted, offline bool, end int64) {
	till := cmp.Or(x.Until, end)
	var opened, closed []observe.Turn
	before := false
	for _, t := range state.Came {
		switch {
		case t.At < x.At:
			before = t.Open
		case t.Open && t.At <= till+observe.Slack:
			if opened = append(opened, t); len(opened) == 1 {
				closed = nil // was of the one before
			}
		case !t.Open && (before || len(opened) > 0):
			closed = append(closed, t)
		}
	}
	if len(opened) == 0 && !before {
		if till-x.At > x.Timeout+observe.Slack && !x.Unsure {
			x.row.Alerts++
			x.wrong(&x.row.Missing, state, "silent for %d s, and nobody was notified", (till-x.At)/1e9)
		}
		return
	}
	x.row.Alerts++
	if len(opened) > 0 && !offline {
		x.detected.Record(opened[0].At-x.At, 1)
	}
	for range len(opened) - 1 {
		x.wrong(&x.row.Extra, state, "notified %d times that it is silent", len(opened))
	}
	if x.Until > 0 {
		x.row.Alerts++
		if len(closed) == 0 {
			x.wrong(&x.row.Missing, state, "no alert that it is back")
		} else {
			x.cleared.Record(closed[0].At-x.Until, 1)
		}
	}
}

// latest returns the last of the strikes that began before a time; the first, if none did.
func latest(strikes []*strike, at int64) *strike {
	found := strikes[0]
	for _, x := range strikes {
		if x.At <= at && x.At >= found.At {
			found = x
		}
	}
	return found
}

// Silence judges the keepalive problems that opened later than from: a problem is false if its machine had a session
// then. The loader is to blame if it sent the machine's keepalives too late.
func Silence(loaders []observe.Ledgers, problems []observe.Problem, from int64) *report.Silent {
	s := &report.Silent{}
	machines := map[string]*observe.Ledger{}
	for a := range observe.Agents(loaders) {
		machines[observe.OwnName(a.Name)] = a
		s.Machines++
	}
	seen := map[string]bool{}
	for _, p := range problems {
		a := machines[observe.OwnName(p.Node)]
		if a == nil || p.At <= from || seen[p.ID] || !hadSession(a, p.At) {
			continue
		}
		seen[p.ID] = true
		if slices.ContainsFunc(a.Quiet, func(q observe.Stay) bool { return p.At > q.From && p.At <= q.To+observe.Slack }) {
			s.Quiet++
			continue
		}
		s.Extra++
		s.Example = p.Node + " at " + p.Opened.UTC().Format(time.TimeOnly) + " UTC"
	}
	return s
}

// hadSession reports whether a machine had a session at a time, and for longer than observe.Slack, because a server may report
// a silence a moment after it has ended.
func hadSession(a *observe.Ledger, at int64) bool {
	return slices.ContainsFunc(a.Stays, func(s observe.Stay) bool { return at > s.From+observe.Slack && at <= s.To })
}
