package judge

import (
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// ofPhase returns the report of the results of one phase.
func ofPhase(p *report.Played) *report.Report {
	return &report.Report{Traffic: report.Traffic{Rate: p.Acknowledged, InTime: p.InTime, Latency: p.Latency, BeyondLinger: p.BeyondLinger}, Cost: report.Cost{Server: p.Server, Loader: p.Loader, MachineShare: report.MachineShare(p.Server, p.Loader)}}
}

// alone returns the report of one phase: its own figures, the faults and outages that began in it, and the waits of people and
// agents in it.
func alone(rep *report.Report, p *report.Played) *report.Report {
	whole := *p
	whole.Kind, whole.Apart = "steady", false // here it is all there is
	one := ofPhase(p)
	one.Phases, one.Samples = []report.Played{whole}, report.Within(rep.Samples, p.From, p.To)
	for _, f := range rep.Faults {
		if f.At >= p.From && f.At < p.To {
			one.Faults = append(one.Faults, f)
		}
	}
	for _, o := range rep.Outages {
		if o.Second >= p.From && o.Second < p.To {
			one.Outages = append(one.Outages, o)
		}
	}
	for _, b := range p.Beside {
		p99 := report.Latency{P99: b.Value}
		switch b.Figure {
		case report.HistoryBehind, report.HeldShare, report.BeyondLinger: // the phase and its seconds have them
		case "holds-p99":
			one.Changes = append(one.Changes, report.Held{Holds: p99})
		case tellFigure:
			one.Notifications = &report.Notifications{Latency: p99}
		default:
			one.Operators = append(one.Operators, report.Worked{What: strings.TrimSuffix(b.Figure, "-p99"), Latency: p99})
		}
	}
	return one
}

// phaseGoals judges the objectives of single phases, each by the figures of its phase.
func phaseGoals(rep *report.Report) (list []report.Goal) {
	for i := range rep.Phases {
		p := &rep.Phases[i]
		list = append(list, Judged(report.Goals(p.Asked, p.Name), alone(rep, p))...)
	}
	return list
}
