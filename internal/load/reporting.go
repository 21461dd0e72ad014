package load

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/version"
)

// reporting is a report while its run is played, with what only the run needs of it.
type reporting struct {
	*report.Report
	ready  usage.SoFar // when the first round held its checks
	intent error       // of the API, where it was to be changed
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

// connected notes what sessions cost, once all agents of the first round hold their
// checks and before any result.
func (rep *reporting) connected(r *run, idle usage.SoFar) {
	debug.FreeOSMemory() // what agents take, and not what connecting left behind
	ready := r.usage()
	ready.Metrics = r.metrics()
	rep.ready = ready
	own := float64(len(r.agents))
	rep.AgentBytes = float64(ready.Loader.RSS-r.cfg.Bare) / own
	rep.Goroutines = float64(runtime.NumGoroutine()) / own
	if r.cfg.Others != nil {
		rep.Loaders = []report.Loader{{Name: hostname(), Here: true, Agents: len(r.agents), AgentBytes: rep.AgentBytes}}
	}
	for i, a := range r.arrived {
		n := Part{Number: r.joined[i].Number, Of: r.cfg.Part.Of}.share(len(r.cfg.Members))
		rep.Loaders = append(rep.Loaders, report.Loader{Name: r.joined[i].Name, Here: r.joined[i].Here, Agents: n, AgentBytes: a.Bytes, Clock: ms(r.joined[i].Clock)})
		own += float64(n)
		rep.AgentBytes += (a.Bytes - rep.AgentBytes) * float64(n) / own
		rep.Goroutines += (a.Goroutines - rep.Goroutines) * float64(n) / own
	}
	if ready.Server.Same(idle.Server) {
		rep.ConnectCPU = (ready.Server.CPU - idle.Server.CPU).Seconds()
		// A server that had much to give back shrinks while few agents come: that says nothing of them.
		rep.SessionBytes = max(0, float64(ready.Server.RSS-idle.Server.RSS)/float64(len(r.agents)))
	}
}

// hostname is how this machine calls itself.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}
