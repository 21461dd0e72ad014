package judge

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

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
