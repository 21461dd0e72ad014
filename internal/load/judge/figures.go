package judge

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// figures fills in the figures of the parts that count.
func (t *timetable) figures(parts []int) {
	rep := t.rep
	p, sum, g := t.sum(parts)
	rep.Results, rep.Frames, rep.SpoolFull, rep.InTime, rep.Rate = sum.Results, sum.Frames, p.SpoolFull, p.InTime, p.Acknowledged
	rep.Latency, rep.BeyondLinger, rep.Lag, rep.Server, rep.Loader = p.Latency, p.BeyondLinger, p.Lag, p.Server, p.Loader
	rep.Curve = report.CurveOf(sum.Whole.Buckets())
	b := sum.Batches.Buckets()
	rep.Batch = report.Spread{Mean: b.Mean(), P50: b.ValueAtQuantile(50), P99: b.ValueAtQuantile(99), Max: b.Max()}
	t.sums()
	if len(t.Loaders) == 1 { // nobody counts what the sessions of other loaders carry
		rep.Network = network(g)
	}
	rep.Metrics = g.Shown()
	t.costs(g)
	t.loaders(parts, g)
}

// sums fills in the counts of all loaders from the start to the end of the run.
func (t *timetable) sums() {
	rep := t.rep
	rep.Refusals, rep.Failures, rep.Losses = map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	for n := range t.Loaders {
		c := &t.Loaders[n].Counts
		rep.Resent += c.Resent
		rep.Repeated += c.Repeated
		rep.WrongSent += c.Wrong
		rep.WrongTaken += c.WrongTaken
		rep.Slowed += int(c.Slowed)
		for _, of := range [...]struct{ sum, own map[string]uint64 }{{rep.Refusals, c.Refusals}, {rep.Failures, c.Failures}, {rep.Losses, c.Losses}} {
			for why, n := range of.own {
				of.sum[why] += n
			}
		}
		if c.Late > 0 {
			rep.Label = append(rep.Label, fmt.Sprintf("loader %d (%s) heard %.1f s late that the timetable ends: what it sent meanwhile is compared, and not measured",
				n+1, t.Start.Report.Loaders[n].Name, c.Late.Seconds()))
		}
	}
}

const statesMetric = "muster_event_states"

// fewStates is the least number of states from which the server's memory per state is computed: with fewer states,
// buffers and garbage weigh more.
const fewStates = 200_000

// costs fills in the costs of the run.
func (t *timetable) costs(g *usage.Gained) {
	rep, ready := t.rep, &t.Start.Ready
	rep.MachineShare = report.MachineShare(rep.Server, rep.Loader)
	if g.Length > 0 && g.First.Busy > 0 && rep.Server.Cores > 0 {
		rep.Others = max(0, g.Busy.Seconds()/g.Length.Seconds()-rep.Server.Cores-rep.Loader.Here())
	}
	rep.Inside = inside(g, rep.Results)
	if g.Same && g.Length > 0 && g.Last.Server.CPU > 0 && !rep.Asked() { // they are told in terms of Muster's journal
		rep.Calls, rep.Disk = calls(g), disk(g, rep.Results)
	}
	if !rep.Asked() {
		rep.States = uint64(g.Last.Metrics[statesMetric])
	}
	if grown := g.Last.Metrics[statesMetric] - ready.Metrics[statesMetric]; grown >= fewStates && g.Last.Server.Same(ready.Server) {
		rep.StateBytes = float64(g.Last.Server.RSS-ready.Server.RSS) / grown
	}
}

// calls returns the server's calls of the system per second.
func calls(g *usage.Gained) *report.Calls {
	m, span := g.Metrics, g.Length
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

// disk returns the bytes that the server wrote to storage, or nil if there were none, such as on tmpfs.
func disk(g *usage.Gained, results uint64) *report.Disk {
	if g.Written <= 0 {
		return nil
	}
	seconds, m := g.Length.Seconds(), g.Metrics
	d := &report.Disk{
		Written: g.Written,
		Journal: int64(m["muster_journal_written_bytes_total"]), Snapshots: int64(m["muster_snapshot_written_bytes_total"]),
	}
	if results > 0 {
		d.PerResult = float64(d.Written) / float64(results)
	}
	d.PerSecond = float64(d.Written) / seconds
	d.PerDay = d.PerSecond * (24 * time.Hour).Seconds()
	d.Syncs = (m["muster_journal_syncs_total"] + 2*m["muster_snapshot_saved_total"] + m["muster_dispatch_record_seconds_count"]) / seconds
	return d
}

// network returns the bytes between server and agents, or nil without any.
func network(g *usage.Gained) *report.Network {
	if g.Length <= 0 || g.Sent == 0 {
		return nil
	}
	return &report.Network{In: float64(g.Sent) / g.Length.Seconds(), Out: float64(g.Received) / g.Length.Seconds()}
}

// inside returns figures from the changes of the server's metrics.
func inside(g *usage.Gained, results uint64) *report.Inside {
	if g.Length <= 0 || results == 0 || g.Anew || len(g.First.Metrics) == 0 || len(g.Last.Metrics) == 0 {
		return nil
	}
	seconds := g.Length.Seconds()
	each := func(name string) float64 { return g.Metrics[name] / float64(results) }
	return &report.Inside{
		WireBytes: each("muster_session_bytes_received_total"), JournalBytes: each("muster_journal_written_bytes_total"),
		Allocs: each("go_memstats_mallocs_total"), AllocBytes: each("go_memstats_alloc_bytes_total"),
		LockWait: g.Metrics[usage.WaitMetric] / seconds, GC: g.Metrics["go_cpu_classes_gc_total_cpu_seconds_total"] / seconds,
		Goroutines: g.Last.Metrics["go_goroutines"],
	}
}

// loaders fills in the figures of each loader in the parts that count, if there are several.
func (t *timetable) loaders(parts []int, g *usage.Gained) {
	rep := t.rep
	rep.Loaders = nil
	for n, l := range t.Start.Report.Loaders {
		if n >= len(t.Loaders) {
			break
		}
		sum, cost := &observe.Tally{}, usage.Cost{Span: g.Length.Seconds()}
		for _, i := range parts {
			sum.Merge(t.Loaders[n].Part(i))
			if first, last, known := t.Loaders[n].Use(i); known {
				cost.CPU += (last.Loader.CPU - first.Loader.CPU).Seconds()
				cost.RSS = last.Loader.RSS
			}
		}
		l.Results, l.Lag, l.Usage = sum.Results, sum.LargestLag(), cost.Of(sum.Results)
		rep.Loaders = append(rep.Loaders, l)
	}
}
