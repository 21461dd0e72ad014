package report

// alone is what a report would be of one phase: its own figures, the faults that struck and the
// outages that began in it, what people and agents that waited had from it.
func (rep *Report) alone(p *Played) *Report {
	whole := *p
	whole.Kind, whole.Apart = "steady", false // here it is all there is
	one := &Report{Rate: p.Acknowledged, InTime: p.InTime, Latency: p.Latency, BeyondLinger: p.BeyondLinger, Server: p.Server, Loader: p.Loader,
		MachineShare: MachineShare(p.Server, p.Loader), Phases: []Played{whole}, Samples: Within(rep.Samples, p.From, p.To), Unsaved: Unsaved{Looked: rep.Unsaved.Looked}}
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
		p99 := Latency{P99: b.Value}
		switch b.Figure {
		case "holds-p99":
			one.Changes = append(one.Changes, Held{Holds: p99})
		case "list-p99", "apply-p99", "silence-p99", "watch-p99":
			one.Operators = append(one.Operators, Worked{What: b.Figure[:len(b.Figure)-len("-p99")], Latency: p99})
		}
	}
	return one
}

// PhaseGoals judges the objectives of single phases, each by what was measured in it.
func (rep *Report) PhaseGoals() (list []Goal) {
	for i := range rep.Phases {
		p := &rep.Phases[i]
		alone := rep.alone(p)
		for _, g := range Goals(p.Asked, p.Name) {
			list = append(list, g.Judged(alone))
		}
	}
	return list
}
