package judge

import (
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
)

// ofPhase returns the report of the results of one phase of a run.
func ofPhase(rep *report.Report, p *report.Played) *report.Report {
	return &report.Report{Machine: rep.Machine, Span: p.Span, Traffic: report.Traffic{Rate: p.Acknowledged}}
}

// figuresOf returns the figures of one phase: its own, those of the faults and outages that began in it, and the waits of people
// and agents in it.
func figuresOf(rep *report.Report, p *report.Played) map[string]float64 {
	one, whole := ofPhase(rep, p), *p
	whole.Kind, whole.Apart = "steady", false // here it is all there is
	one.Phases, one.Samples = []report.Played{whole}, report.Within(rep.Samples, p.From, p.To)
	began := func(at float64) bool { return at >= p.From && at < p.To }
	one.Faults = slices.DeleteFunc(slices.Clone(rep.Faults), func(f report.Struck) bool { return !began(f.At) })
	one.Outages = slices.DeleteFunc(slices.Clone(rep.Outages), func(o report.Outage) bool { return !began(o.Second) })
	all := one.Figures()
	for _, b := range p.Beside {
		if _, ok := all[b.Figure]; !ok && b.Class == "" && b.Value > 0 {
			all[b.Figure] = b.Value
		}
	}
	return all
}

// phaseGoals judges the objectives of single phases, each by the figures of its phase.
func phaseGoals(rep *report.Report) (list []report.Goal) {
	for i := range rep.Phases {
		p := &rep.Phases[i]
		list = append(list, report.Judged(report.Goals(p.Asked, p.Name), figuresOf(rep, p))...)
	}
	return list
}
