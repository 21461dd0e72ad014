package loadcmd

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/load/live"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// progressOf shows a scenario's run while it lasts: its first phase is the ramp, and the measurement
// begins when the next one is warm.
func progressOf(w io.Writer, sc *scenario.Scenario) *live.View {
	ramp, drain := time.Duration(sc.Phases[0].Ramp), time.Duration(sc.Phases[len(sc.Phases)-1].Drain)
	before := ramp + time.Duration(sc.Phases[1].Warmup)
	return live.New(w, os.Getenv, before, sc.Duration()-before-drain)
}

// sayTo writes sentences, each a line.
func sayTo(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}
