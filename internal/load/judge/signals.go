package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Signals are the plans of the values and directives of a run; nil: it has none.
type Signals struct {
	Values     *plan.Plan
	Directives *plan.Directives
}

// SignalsOf computes the plans of a scenario.
func SignalsOf(sc *scenario.Scenario) Signals { return Signals{plan.New(sc), plan.NewDirectives(sc)} }

// Findings compares the ledgers of all loaders and the state of the server with the plans. State and runs nil: nobody could
// read them.
func (s Signals) Findings(loaders []observe.Ledgers, state *observe.State, runs *observe.Runs) (list []report.Finding) {
	members := observe.Members(loaders)
	if len(members) == 0 {
		return nil // the loader was killed: which signals were acknowledged is unknown
	}
	if s.Values != nil {
		list = append(list, Values(s.Values, members, state)...)
	}
	if s.Directives != nil {
		list = append(list, Directives(s.Directives, members, runs)...)
	}
	return list
}

// unsent returns the nodes that made no value and no run of a directive in two of their intervals or more, though no fault may
// have struck them.
func (t *timetable) unsent() []report.Finding {
	var list findings
	played := 0.0 // ns at the scenario's own rate
	for _, p := range t.Score {
		if p.Measured {
			played += p.Rate * float64(p.To-p.From)
		}
	}
	for a := range observe.Agents(t.Ledgers) {
		class := t.sc.ClassOf(a.Member)
		if class == nil || a.Signals > 0 || a.Stopped || t.sc.MayHalt(class) {
			continue
		}
		if every := class.SignalInterval(); every > 0 && played >= 2*float64(every) {
			list.add(NoSignals, 1, "%s", a.Name)
		}
	}
	return list
}

// signals fills in the findings and figures of values and directives.
func (t *timetable) signals() {
	plans, rep := SignalsOf(t.sc), t.rep
	if plans.Values == nil && plans.Directives == nil {
		return
	}
	s := &report.Signals{Unit: report.SoleUnit(t.sc), Startup: t.Start.Startup, Heap: t.Heap, Findings: plans.Findings(t.Ledgers, t.State, t.Runs)}
	s.Findings = append(s.Findings, t.unsent()...)
	var compared []string
	if p := plans.Values; p != nil {
		s.Items += p.Items()
		if t.State != nil {
			compared = append(compared, fmt.Sprintf("count and sum of %s series, every value of 16 nodes at most, the problems of all triggers", number.Count(p.Items())))
		}
	}
	if p := plans.Directives; p != nil {
		s.Items += p.Runs()
		if t.Runs != nil {
			compared = append(compared, "statuses of all components by node, nodes of all directives; of 16 nodes at most each status, each entry of history, all signatures and the inventory")
		}
	}
	s.Compared = strings.Join(compared, "; ")
	rep.Signals = s
	if b := rep.Balance; s.Unit != "" && b != nil {
		b.Sent, b.Acknowledged = 0, 0
		for n := range t.Loaders {
			for i := range t.Loaders[n].Parts {
				b.Sent, b.Acknowledged = b.Sent+t.Loaders[n].Part(i).Results, b.Acknowledged+t.Loaders[n].Part(i).Acked
			}
		}
		if s.Compared != "" {
			b.Compared = s.Items
		}
	}
	if s.Unit != "" {
		return
	}
	_, sum, _ := t.sum(t.counting)
	length := time.Duration(0)
	for _, i := range t.counting {
		length += time.Duration(t.Score[i].To - t.Score[i].From)
	}
	for _, unit := range slices.Sorted(maps.Keys(sum.Signals)) {
		of := sum.Signals[unit]
		s.Flows = append(s.Flows, report.Flow{Unit: unit, Rate: float64(of.Current) / max(length.Seconds(), 1e-9), Latency: of.Whole.Latency()})
	}
}
