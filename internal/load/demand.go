package load

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// demand is what a run asks of the machine.
type demand struct {
	agents      int     // simulated, also those that have no session now
	connections int     // at the same time …
	withTLS     int     // … and of those, with TLS
	states      int     // event states on the server
	rate        float64 // results per second, at the most
	results     float64 // in the whole run
	output      float64 // bytes of one result's output, mean
}

func (c Config) demand() demand {
	if c.Scenario != nil {
		return demandOf(c.Scenario)
	}
	d := demand{agents: c.Fleet, connections: c.Agents, states: c.Fleet * c.Checks, rate: c.Rate, output: float64(c.Output)}
	if c.TLS != nil {
		d.withTLS = c.Agents
	}
	d.results = c.Rate*(c.Warmup+c.Duration).Seconds() + float64(d.states)
	return d
}

func demandOf(sc *scenario.Scenario) (d demand) {
	written := 0.0
	for _, class := range sc.Agents {
		share := max(1, class.Share)
		n := (class.Count + share - 1) / share
		d.agents += class.Count
		d.connections += n
		if class.TLS {
			d.withTLS += n
		}
		for _, check := range class.Checks {
			states := class.Count * max(1, check.Count)
			d.states += states
			each := float64(check.Output.Bytes)
			if each == 0 {
				each = 100
			}
			if every := time.Duration(check.Interval).Seconds(); every > 0 {
				d.rate += float64(states) / every
				written += each * float64(states) / every
			}
		}
	}
	if d.rate > 0 {
		d.output = written / d.rate
	}
	own, most := d.rate, 1.0
	for _, p := range sc.Phases {
		rate := p.Rate
		if rate == 0 {
			rate = 1
		}
		length := time.Duration(p.Ramp + p.Steady + p.Soak).Seconds()
		if step := time.Duration(p.Step).Seconds(); step > 0 {
			by, to := p.By, p.To
			if by == 0 {
				by = 0.1
			}
			if to == 0 {
				to = 10
			}
			for at := rate; at <= to+1e-9; at += by {
				d.results += own * at * step
			}
			rate = to
		}
		d.results += own * rate * length
		if p.Step == 0 { // how far the steps get is what is to be found out
			most = max(most, rate)
		}
	}
	d.rate = own * most
	return d
}
