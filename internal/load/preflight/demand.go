package preflight

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Run is what is asked of a run before it begins.
type Run struct {
	Scenario  *scenario.Scenario
	Servers   string // host:port of each address that agents connect to, with commas between them; empty: nobody knows
	Sources   int    // loopback addresses to connect from
	Loaders   int    // that share it
	Here      int    // of them, on this machine
	OwnServer bool   // it starts the server itself
	Data      string // the server's folder, where it is on this machine
}

// here is how many loaders this machine holds.
func (r *Run) here() int { return max(1, r.Here) }

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

// demand is what it asks.
func (r *Run) demand() demand {
	return demandOf(r.Scenario)
}

// of is what one loader's part asks of it.
func (d demand) of(loaders int) demand {
	of := max(1, loaders)
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
			d.withTLS += class.Count
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

// Disk of a server under test, in bytes: its journal is cut as snapshots are saved, and
// never larger than its budget.
const (
	diskBase      = 512 << 20 // what is held back, databases, log
	diskResult    = 40        // beside its output
	journalBudget = 4 << 30
)

// memory is what the simulated agents need; those that are away have a ledger.
func (d demand) memory() int64 {
	return int64(d.connections-d.withTLS)*scenario.PlainAgent + int64(d.withTLS)*scenario.TLSAgent +
		int64(d.agents)*scenario.AgentLedger + int64(d.states)*scenario.StateLedger + d.signals*scenario.TapedSignal
}

// serverMemory is what the server needs for them.
func (d demand) serverMemory() int64 {
	return int64(d.connections-d.withTLS)*scenario.PlainSession + int64(d.withTLS)*scenario.TLSSession + int64(d.states)*scenario.ServerState
}

// disk returns the bytes that the server writes at most: journal within its budget, states and snapshots.
func (d demand) disk() int64 {
	written := min(journalBudget, d.results*(diskResult+d.output))
	return diskBase + int64(written) + 2*int64(d.states)*int64(diskResult+d.output)
}
