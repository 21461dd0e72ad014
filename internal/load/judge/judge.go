// Package judge decides about a run: it reads the observation log and the final state of the server, and returns findings and
// figures. It is pure: a run can be judged again, and a test judges logs written by hand.
//
// Checks (verdict.go) judges a run, with a file for each question (phases.go and figures.go, ledger.go, outages.go, alerts.go,
// messages.go, intent.go, roundrobin.go, settling.go; signals.go for values, which are compared here, and directives, which
// runs.go compares).
//
// Goroutines, locks: none. Start reading at Checks.
package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
)

// Kinds of findings about values.
const (
	Lost           report.Kind = "values lost"
	Refused        report.Kind = "values refused by the limit of series"
	Doubled        report.Kind = "values stored twice"
	Wrong          report.Kind = "series with wrong values"
	Unknown        report.Kind = "series or problems that nobody caused"
	Unacknowledged report.Kind = "values not acknowledged"
	NoSignals      report.Kind = "nodes that sent no values or directive runs"
	MissingProblem report.Kind = "problems missing"
	FalseProblem   report.Kind = "problems too many"
	WrongState     report.Kind = "triggers in the wrong state"
)

// findings collects findings by kind, in the order in which they came.
type findings []report.Finding

// add adds count to a kind of findings, and keeps the first text as an example.
func (f *findings) add(kind report.Kind, count int, format string, args ...any) {
	if count <= 0 {
		return
	}
	for i := range *f {
		if (*f)[i].Kind == kind {
			(*f)[i].Count += count
			return
		}
	}
	*f = append(*f, report.Finding{Kind: kind, Count: count, Example: fmt.Sprintf(format, args...)})
}

// Values compares the ledgers of members of the fleet, and the values on the server, with their plan. State nil: nobody could
// read it.
func Values(p *plan.Plan, members map[int]*observe.Ledger, state *observe.State) []report.Finding {
	var list findings
	for node := range p.Nodes {
		a, c := members[node], p.Class(node)
		if a == nil {
			a = &observe.Ledger{}
		}
		acked, sent := a.Taken, a.Signals
		if !a.Stopped {
			list.add(Unacknowledged, int(sent-acked)*len(c.Items), "node %d: %d of %d ticks", node, acked, sent)
		}
		if state == nil {
			continue
		}
		for of := range c.Items {
			if c.Items[of].Kind.IsText() {
				continue // the series store has numbers alone
			}
			list.judgeSum(p, c, node, of, acked, sent, state)
			if c.Items[of].Window > 0 && acked == sent {
				list.judgeTrigger(p, c, node, of, acked, state)
			}
		}
		if raw, ok := state.Raw[node]; ok {
			list.judgeRaw(p, c, node, acked, sent, raw, state.SeriesLimit != "")
		}
	}
	if state != nil {
		list.add(Unknown, state.Unknown, "see the server's series and problems")
	}
	return list
}

// judgeSum compares count and sum of an item's values.
func (f *findings) judgeSum(p *plan.Plan, c *plan.Class, node, of int, acked, sent uint64, state *observe.State) {
	count := uint64(state.Counts[node][of])
	name := fmt.Sprintf("node %d, %s", node, c.Items[of].Key)
	if missing := int(acked) - int(count); count == 0 && state.SeriesLimit != "" {
		f.add(Refused, missing, "%s: %s (spec.limits.series)", name, state.SeriesLimit)
	} else {
		f.add(Lost, missing, "%s: %d values, %d were acknowledged", name, count, acked)
	}
	f.add(Doubled, int(count)-int(sent), "%s: %d values, %d were sent", name, count, sent)
	if count != acked || acked != sent {
		return
	}
	sum := 0.0
	for tick := range acked {
		sum += p.Stored(c, node, of, tick)
	}
	if got := state.Sums[node][of]; math.Abs(got-sum) > 1e-9*math.Abs(sum) {
		f.add(Wrong, 1, "%s: the sum of its values is %v, not %v", name, got, sum)
	}
}

// judgeRaw compares all values of a node's items. It searches for each value, because values from before and after a
// kill may be in another order. If the server is at its limit of series, items without values are findings of judgeSum.
func (f *findings) judgeRaw(p *plan.Plan, c *plan.Class, node int, acked, sent uint64, raw [][]float64, limited bool) {
	for of := range c.Items {
		if c.Items[of].Kind.IsText() || limited && len(raw[of]) == 0 {
			continue
		}
		left := map[float64]int{}
		for _, v := range raw[of] {
			left[v]++
		}
		for tick := range sent {
			v := p.Stored(c, node, of, tick)
			if left[v]--; left[v] < 0 && tick < acked {
				f.add(Wrong, 1, "node %d, %s: value %v of tick %d is missing among %d", node, c.Items[of].Key, v, tick, len(raw[of]))
				break
			}
		}
		for v, n := range left {
			if n > 0 {
				f.add(Wrong, 1, "node %d, %s: value %v was not sent so often", node, c.Items[of].Key, v)
				break
			}
		}
	}
}

// judgeTrigger compares the problems of an item's trigger.
func (f *findings) judgeTrigger(p *plan.Plan, c *plan.Class, node, of int, ticks uint64, state *observe.State) {
	opened, open := p.Problems(c, node, of, ticks)
	got := state.Problems[observe.Trigger{Node: node, Item: of}]
	name := fmt.Sprintf("node %d, %s", node, c.Items[of].TriggerName())
	f.add(MissingProblem, opened-got.Opened, "%s: %d instead of %d", name, got.Opened, opened)
	f.add(FalseProblem, got.Opened-opened, "%s: %d instead of %d", name, got.Opened, opened)
	if open != got.Open {
		f.add(WrongState, 1, "%s: a problem is open: %t instead of %t", name, got.Open, open)
	}
}

// median returns the middle of a list, or zero for an empty list.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
