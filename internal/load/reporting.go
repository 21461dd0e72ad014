package load

import (
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
	r.Plan = report.Plan{Agents: c.Agents, Fleet: c.Fleet, Checks: c.Checks, Interval: c.Interval.Seconds(), Offered: c.Rate, PerFrame: c.PerFrame,
		Linger: ms(c.Linger), Output: c.Output, Changes: c.Changes, Duration: c.Duration.Seconds(), TLS: c.anyTLS(), Storm: c.Storm, Seed: c.Seed}
	if !c.isShort {
		r.Scenario = c.Scenario
	}
	if c.Driven != nil {
		r.Targeted, r.Plan.TLS = &report.Targeted{Name: c.Driven.Name(), Version: c.version, Driven: true}, c.Driven.Secured()
	}
	r.Stage, r.Label = c.Alone, slices.Clone(c.labels)
	return &reporting{Report: r}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
