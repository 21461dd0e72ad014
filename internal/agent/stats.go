package agent

import "github.com/muster-fleet/muster/internal/agent/probe"

// self is the agent about itself, for its probe "agent".
func (a *Agent) self() probe.Self {
	plan, spool := a.scheduler.Stats(), a.spool.Stats()
	return probe.Self{
		Waiting: spool.Held, SpoolBytes: spool.Bytes, SpoolMost: spool.Most, Blocked: spool.Blocked,
		GaveWay: spool.GaveWay, Refused: spool.Refused, Lost: a.lost.Load(),
		Runs: plan.Started, Skipped: plan.Skipped, Late: plan.Late, Forks: a.runner.Forks(),
	}
}
