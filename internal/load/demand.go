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
	results     float64 // in the whole run
	output      float64 // bytes of one result's output, mean
	signals     int64   // of recorded streams
}

// demand is what a configuration with its defaults asks.
func (c Config) demand() demand {
	d := demandOf(c.Scenario)
	if c.isShort { // nodes that come by before the run is measured
		d.agents, d.states = c.Fleet, c.Fleet*c.Checks
		d.results += float64(d.states)
	}
	if c.Stage != nil {
		d.connections, d.withTLS = 0, 0
	}
	return d
}

// of is what one loader's part asks of it.
func (d demand) of(p Part) demand {
	of := max(1, p.Of)
	each := func(n int) int { return (n + of - 1) / of }
	d.agents, d.connections, d.withTLS, d.states = each(d.agents), each(d.connections), each(d.withTLS), each(d.states)
	return d
}

func demandOf(sc *scenario.Scenario) demand {
	d := demand{agents: sc.Nodes(""), connections: sc.Sessions(), states: sc.States()}
	own, written := sc.Rate(), 0.0
	for i := range sc.Agents {
		class := &sc.Agents[i]
		if class.TLS {
			d.withTLS += (class.Count + max(1, class.Share) - 1) / max(1, class.Share)
		}
		if r := class.Recorded; r != nil && r.Head() != nil {
			h := r.Head()
			written += float64(h.Bytes) / h.Length.Seconds() * float64(class.Count) / float64(h.Nodes)
			d.signals += int64(h.Signals)
			continue
		}
		for _, check := range sc.Held(class) {
			states := float64(sc.PerInterval(class, check.Check))
			written += float64(check.Output.Length()) * states / max(1e-3, time.Duration(check.Interval).Seconds())
		}
	}
	if own > 0 {
		d.output = written / own
	}
	for i := range sc.Phases {
		p := &sc.Phases[i]
		if p.Drain > 0 {
			continue
		}
		for _, rate := range p.Rates() {
			d.results += own * rate * time.Duration(p.Length()).Seconds()
		}
	}
	return d
}
