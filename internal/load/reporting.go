package load

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/version"
)

// reporting is the report of a run that is still played.
type reporting struct {
	*report.Report
	ready  usage.SoFar // when the first round held its checks
	intent error       // of the API, where it was to be changed
}

// newReport begins the report of a run.
func newReport(c Config) *reporting {
	r := &report.Report{Schema: report.Schema, Began: time.Now().UTC(), Command: os.Args, Machine: usage.Machine()}
	v := version.Get()
	r.Version, r.Commit, r.Dirty = v.Version, v.Commit, v.Dirty
	r.Plan, r.Scenario = c.plan(), c.Scenario
	r.Label = slices.Clone(c.labels)
	r.AllowLag(c.MaxLag, usualLag(c.Scenario))
	return &reporting{Report: r}
}

// ms converts a duration to milliseconds.
func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// connected records time and memory of the sessions, once all agents of all loaders hold their checks and before the
// first result.
func (rep *reporting) connected(ctx context.Context, r *run, idle usage.SoFar) (err error) {
	debug.FreeOSMemory() // agents, without the garbage of connecting
	own := float64(r.own())
	rep.AgentBytes = float64(r.usage().Loader.RSS-r.cfg.Bare) / own
	rep.Goroutines = float64(runtime.NumGoroutine()) / own
	if r.joined, err = r.cfg.Joint.Ready(ctx, Arrived{rep.ConnectSeconds, rep.ReadySeconds, rep.AgentBytes, rep.Goroutines}); err != nil {
		return err
	}
	if len(r.joined) > 0 {
		rep.Loaders = []report.Loader{{Name: Hostname(), Here: true, Agents: r.own(), AgentBytes: rep.AgentBytes}}
	}
	for _, j := range r.joined {
		n := play.Part{Number: j.Number, Of: r.cfg.Part.Of}.Share(len(r.cfg.Members))
		rep.Loaders = append(rep.Loaders, report.Loader{Name: j.Name, Here: j.Here, Agents: n, AgentBytes: j.Bytes, Clock: ms(j.Clock)})
		own += float64(n)
		rep.AgentBytes += (j.Bytes - rep.AgentBytes) * float64(n) / own
		rep.Goroutines += (j.Goroutines - rep.Goroutines) * float64(n) / own
		rep.ConnectSeconds, rep.ReadySeconds = max(rep.ConnectSeconds, j.Connect), max(rep.ReadySeconds, j.Ready)
	}
	ready := r.usage()
	ready.Metrics = r.metrics()
	rep.ready = ready
	if ready.Server.Same(idle.Server) {
		rep.ConnectCPU = (ready.Server.CPU - idle.Server.CPU).Seconds()
		// A server that had much to give back shrinks while few agents come: that says nothing of them.
		rep.SessionBytes = max(0, float64(ready.Server.RSS-idle.Server.RSS)/float64(r.own()))
	}
	return nil
}

// Hostname returns the name of this machine.
func Hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "a machine without a name"
	}
	return name
}
