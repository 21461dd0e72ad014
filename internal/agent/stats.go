package agent

import (
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/agent/spool"
)

// Stats is the agent about itself: counters since its start and gauges now.
type Stats struct {
	Schedule schedule.Stats
	Spool    spool.Stats
	Forks    uint64 // commands started
	Lost     uint64 // results that the spool did not take
	Server   string // connected to; empty: to none
}

// Stats reports; before Run has read the state folder it is empty.
func (a *Agent) Stats() Stats {
	select {
	case <-a.ready:
	default:
		return Stats{}
	}
	s := Stats{Schedule: a.scheduler.Stats(), Spool: a.spool.Stats(), Forks: a.runner.Forks(), Lost: a.lost.Load()}
	if server := a.server.Load(); server != nil {
		s.Server = *server
	}
	return s
}
