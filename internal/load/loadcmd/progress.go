package loadcmd

import (
	"io"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/live"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// progress shows a run of the short form while it lasts.
func progress(w io.Writer, c load.Config) func(load.Sample) {
	return live.New(w, os.Getenv, c.Warmup, c.Duration).Show
}

// progressOf shows a scenario's: its first phase is the ramp.
func progressOf(w io.Writer, sc *scenario.Scenario) func(load.Sample) {
	ramp, drain := time.Duration(sc.Phases[0].Ramp), time.Duration(sc.Phases[len(sc.Phases)-1].Drain)
	v := live.New(w, os.Getenv, ramp, sc.Duration()-ramp-drain)
	if sc.Target == "sensu" {
		v.Done = "left"
	}
	return v.Show
}
