package load

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// connected notes what sessions cost, once all agents of the first round hold their
// checks and before any result.
func (rep *reporting) connected(r *run, idle usage.SoFar) {
	if rep.ready.At > 0 {
		return
	}
	debug.FreeOSMemory() // what agents take, and not what connecting left behind
	ready := r.usage()
	ready.Metrics = r.metrics()
	rep.idle, rep.ready = idle, ready
	own := float64(len(r.agents))
	rep.AgentBytes = float64(ready.Loader.RSS-r.cfg.Bare) / own
	rep.Goroutines = float64(runtime.NumGoroutine()) / own
	rep.ownBytes = rep.AgentBytes
	for i, a := range r.arrived {
		n := float64(r.shareOf(i))
		own += n
		rep.AgentBytes += (a.Bytes - rep.AgentBytes) * n / own
		rep.Goroutines += (a.Goroutines - rep.Goroutines) * n / own
	}
	if ready.Server.Same(idle.Server) {
		rep.ConnectCPU = (ready.Server.CPU - idle.Server.CPU).Seconds()
		// A server that had much to give back shrinks while few agents come: that says nothing of them.
		rep.SessionBytes = max(0, float64(ready.Server.RSS-idle.Server.RSS)/float64(len(r.agents)))
	}
}

// finish turns what was counted, and what was used meanwhile, into figures.
func (rep *reporting) finish(c Config, t *tally, g *usage.Gained) {
	rep.Results, rep.Frames, rep.SpoolFull = t.results, t.frames, t.dropped
	if g.Length > 0 {
		rep.Rate, rep.InTime = float64(t.current)/rep.measured.Seconds(), t.share()
	}
	rep.Latency, rep.BeyondLinger, rep.Lag, rep.Curve = report.LatencyOf(t.whole), report.LatencyOf(t.beyond), report.LatencyOf(t.lag), report.CurveOf(t.whole)
	rep.Batch = report.Spread{Mean: t.batches.Mean(), P50: t.batches.ValueAtQuantile(50), P99: t.batches.ValueAtQuantile(99), Max: t.batches.Max()}
	rep.Metrics = g.Shown()
	if c.Others == nil { // nobody counts what the sessions of other loaders carry
		rep.Network = network(g)
	}
	rep.usage(g)
}

// usage is what the run cost.
func (rep *reporting) usage(g *usage.Gained) {
	rep.Server, rep.Loader = g.Usages(rep.Results)
	rep.MachineShare = report.MachineShare(rep.Server, rep.Loader)
	if g.Length > 0 && g.First.Busy > 0 && rep.Server.Cores > 0 {
		rep.Others = max(0, g.Busy.Seconds()/g.Length.Seconds()-rep.Server.Cores-rep.Loader.Here())
	}
	rep.Inside = rep.inside(g)
	if g.Same && g.Length > 0 && g.Last.Server.CPU > 0 {
		rep.Calls, rep.Disk = rep.calls(g), rep.disk(g)
	}
	rep.States = uint64(g.Last.Metrics[statesMetric])
	if grown := g.Last.Metrics[statesMetric] - rep.ready.Metrics[statesMetric]; grown >= fewStates && g.Last.Server.Same(rep.ready.Server) {
		rep.StateBytes = float64(g.Last.Server.RSS-rep.ready.Server.RSS) / grown
	}
}

const statesMetric = "muster_event_states"

// fewStates is from how many on the server's growth says what a state takes: below
// that, buffers and the collector's slack weigh more.
const fewStates = 200_000

func (rep *reporting) calls(g *usage.Gained) *report.Calls {
	m, span := rep.Metrics, g.Length
	per := func(n, of float64) float64 {
		if of == 0 {
			return 0
		}
		return n / of
	}
	commits, reads := m["muster_journal_commit_entries_count"], float64(g.Reads)
	return &report.Calls{
		Reads: reads / span.Seconds(), Writes: float64(g.Writes) / span.Seconds(),
		Syncs:            m["muster_journal_syncs_total"] / span.Seconds(),
		FramesPerRead:    per(m["muster_session_frames_total"], reads),
		ResultsPerCommit: per(m["muster_event_signals_total"], commits),
		FramesPerCommit:  per(m["muster_journal_commit_entries_sum"], commits),
	}
}

// disk is nil where nothing went to storage, as in memory (tmpfs).
func (rep *reporting) disk(g *usage.Gained) *report.Disk {
	if g.Written <= 0 {
		return nil
	}
	d := &report.Disk{
		Written: g.Written,
		Journal: int64(rep.Metrics["muster_journal_written_bytes_total"]), Snapshots: int64(rep.Metrics["muster_snapshot_written_bytes_total"]),
	}
	if rep.Results > 0 {
		d.PerResult = float64(d.Written) / float64(rep.Results)
	}
	seconds, m := g.Length.Seconds(), rep.Metrics
	d.PerSecond = float64(d.Written) / seconds
	d.PerDay = d.PerSecond * (24 * time.Hour).Seconds()
	d.Syncs = (m["muster_journal_syncs_total"] + 2*m["muster_snapshot_saved_total"] + m["muster_dispatch_record_seconds_count"]) / seconds
	return d
}

func network(g *usage.Gained) *report.Network {
	if g.Length <= 0 || g.Sent == 0 {
		return nil
	}
	return &report.Network{In: float64(g.Sent) / g.Length.Seconds(), Out: float64(g.Received) / g.Length.Seconds()}
}

// inside makes figures of what the server's metrics gained.
func (rep *reporting) inside(g *usage.Gained) *report.Inside {
	if g.Length <= 0 || rep.Results == 0 || g.Anew || len(g.First.Metrics) == 0 || len(g.Last.Metrics) == 0 {
		return nil
	}
	seconds := g.Length.Seconds()
	each := func(name string) float64 { return g.Metrics[name] / float64(rep.Results) }
	return &report.Inside{
		WireBytes: each("muster_session_bytes_received_total"), JournalBytes: each("muster_journal_written_bytes_total"),
		Allocs: each("go_memstats_mallocs_total"), AllocBytes: each("go_memstats_alloc_bytes_total"),
		LockWait: g.Metrics[usage.WaitMetric] / seconds, GC: g.Metrics["go_cpu_classes_gc_total_cpu_seconds_total"] / seconds,
		Goroutines: g.Last.Metrics["go_goroutines"],
	}
}

// loaders are the figures of each loader in the parts that count, where there are several;
// own is the tally of this one, and used what all used.
func (w *watch) loaders(own *tally, used *usage.Gained) []report.Loader {
	r := w.run
	if r.cfg.Others == nil {
		return nil
	}
	first := used.Alone()
	list := []report.Loader{{Name: hostname(), Here: true, Agents: len(r.agents), Results: own.results, Lag: report.LatencyOf(own.lag), AgentBytes: w.rep.ownBytes,
		Usage: first.Of(own.results)}}
	for i, j := range r.joined {
		t, u := newTally(), usage.Cost{Span: used.Length.Seconds()}
		for part := range r.measured[i].Stretches {
			if s := &r.measured[i].Stretches[part]; part < len(r.present()) && w.counts(part) {
				t.merge(s.Tally)
				u.CPU += s.CPU.Seconds()
				u.RSS = s.RSS
			}
		}
		list = append(list, report.Loader{Name: j.Name, Here: j.Here, Agents: r.shareOf(i), Results: t.results, Lag: report.LatencyOf(t.lag), AgentBytes: r.arrived[i].Bytes,
			Clock: ms(j.Clock), Usage: u.Of(t.results)})
	}
	return list
}
