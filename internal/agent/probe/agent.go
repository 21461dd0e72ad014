package probe

import (
	"context"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Self has the agent's own gauges and counters since its start.
type Self struct {
	Waiting    uint64 // signals that no server has acknowledged
	SpoolBytes int64  // counted for them
	SpoolMost  int64  // limit of SpoolBytes
	Blocked    error  // why the spool's disk takes nothing; nil: it does

	Evicted uint64 // signals that the spool gave up
	Refused uint64 // by the server, for good
	Lost    uint64 // results that the spool did not take

	Runs, Skipped, Late, Forks uint64
}

// clockWarn is how far the clock may be off before the agent speaks of it.
const clockWarn = 5 * time.Second

func agentProbe() Probe {
	return Probe{
		Name: "agent", Summary: "The agent itself: what waits in its spool, results that were given up or refused since the run before, its clock (a warning when it is more than 5 s off the Muster server's), and counts of runs.",
		Args: []Arg{
			{Name: "warn", Type: Free, Default: "50%", Help: "warning when less of the spool is free"},
			{Name: "crit", Type: Free, Default: "10%", Help: "critical when less is free"},
		},
		run: runAgent,
	}
}

func runAgent(_ context.Context, env *Env, a args, r *report) {
	if env.Self == nil {
		r.add(model.Unknown, "only a running agent knows")
		return
	}
	s := env.Self()
	warn, _ := a.free("warn")
	crit, _ := a.free("crit")
	used, most := float64(s.SpoolBytes), float64(s.SpoolMost)
	r.add(statusOf(warn, crit, most-used, most), "%s, %s of %s (half of the spool's size)", plural(int(s.Waiting), "signal waits for a server", "signals wait for a server"), bytesText(used), bytesText(most))
	if s.Blocked != nil {
		r.add(model.Critical, "the spool's disk takes nothing: %v", s.Blocked)
	}
	for _, c := range []struct {
		name string
		now  uint64
		text string
	}{
		{"gave way", s.Evicted, "%d signals gave way: the spool was full, or they were too old or damaged"},
		{"refused", s.Refused, "%d results were refused by the server: its log says why"},
		{"lost", s.Lost, "%d results were not taken by the spool"},
	} {
		if more := env.Memory.more(c.name, c.now); more > 0 {
			r.add(model.Warning, c.text, more)
		}
	}
	if env.ServerOffset != nil {
		if offset, ok := env.ServerOffset(); ok && math.Abs(offset.Seconds()) > clockWarn.Seconds() {
			r.add(model.Warning, "the clock is %s, says the Muster server", offText(offset))
		}
	}
	r.measure("spool", used, "B", warn.usedAt(most), crit.usedAt(most), 0, most)
	r.measure("waiting", float64(s.Waiting), "", nil, nil, 0, nan())
	for _, c := range []struct {
		name string
		n    uint64
	}{
		{"gave_way", s.Evicted}, {"refused", s.Refused}, {"lost", s.Lost},
		{"runs", s.Runs}, {"forks", s.Forks}, {"skipped", s.Skipped}, {"late", s.Late},
	} {
		r.measure(c.name, float64(c.n), "c", nil, nil, nan(), nan())
	}
}
