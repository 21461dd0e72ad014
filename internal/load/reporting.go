package load

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/version"
)

// reporting is a report while its run is played, with what only the run needs of it.
type reporting struct {
	*report.Report
	idle, ready usage.SoFar   // before the first session; when the first round held its checks
	measured    time.Duration // of what counts
	ownBytes    float64       // AgentBytes of this process
	intent      error         // of the API, where it was to be changed
	late        []string      // phases that are judged by themselves in which the generator was too late …
	notes       []string      // … and what is to be known of them
}

// newReport begins one.
func newReport(c Config) *reporting {
	r := &report.Report{Schema: report.Schema, Began: time.Now().UTC(), Command: os.Args, Machine: usage.Machine()}
	v := version.Get()
	r.Version, r.Commit, r.Dirty = v.Version, v.Commit, v.Dirty
	r.Plan, r.Scenario = c.plan(), c.Scenario
	r.Label = slices.Clone(c.labels)
	if c.MaxLag > usualLag {
		r.Label = append(r.Label, fmt.Sprintf("the generator was allowed to be %s late (p99), not %s: what is late is in the latencies, and may be its own", c.MaxLag, usualLag))
	}
	return &reporting{Report: r}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
