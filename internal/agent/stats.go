package agent

import (
	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/wire"
)

// self is the agent about itself, for its probe "agent".
func (a *Agent) self() probe.Self {
	plan, spool := a.scheduler.Stats(), a.spool.Stats()
	return probe.Self{
		Waiting: spool.Held, SpoolBytes: spool.Bytes, SpoolMost: spool.Most, Blocked: spool.Blocked,
		Evicted: spool.Evicted, Refused: spool.Refused, Lost: a.lost.Load(),
		Runs: plan.Started, Skipped: plan.Skipped, Late: plan.Late, Forks: a.runner.Forks(),
	}
}

// stats is the same for the server.
func (a *Agent) stats() wire.Stats {
	self := a.self()
	x := wire.Stats{
		UptimeMs: a.cfg.Machine.BootMs() - a.began, Spooled: self.Waiting, SpoolBytes: uint64(self.SpoolBytes),
		Runs: self.Runs, Forks: self.Forks, Skipped: self.Skipped, Late: self.Late,
		Evicted: self.Evicted, Refused: self.Refused, Lost: self.Lost, ResidentBytes: residentBytes(),
	}
	for _, held := range a.spool.Streams() {
		x.OldestMs = max(x.OldestMs, held.OldestAgeMs)
	}
	return x
}
