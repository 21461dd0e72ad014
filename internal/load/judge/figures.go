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
	rep.Span, rep.Results, rep.Frames, rep.Rate = p.Span, sum.Results, sum.Frames, p.Acknowledged
	rep.Curve = report.CurveOf(sum.Whole.Buckets())
	b := sum.Batches.Buckets()
	rep.Batch = report.Spread{Mean: b.Mean(), P50: b.ValueAtQuantile(50), P99: b.ValueAtQuantile(99), Max: b.Max()}
	t.sums()
	rep.Metrics = g.Shown()
	t.costs(g)
	t.loaders(parts)
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
	rep, ready, m := t.rep, &t.Start.Ready, g.Metrics
	seconds, results := g.Length.Seconds(), float64(rep.Results)
	per := func(n, of float64) float64 {
		if of == 0 {
			return 0
		}
		return n / of
	}
	if seconds > 0 && g.First.Busy > 0 && rep.Server.Cores > 0 {
		rep.Others = max(0, g.Busy.Seconds()/seconds-rep.Server.Cores-rep.Loader.Here())
	}
	if seconds > 0 && g.Sent > 0 && len(t.Loaders) == 1 { // nobody counts what the sessions of other loaders carry
		rep.Network = &report.Network{In: float64(g.Sent) / seconds, Out: float64(g.Received) / seconds}
	}
	if rep.Inside = nil; seconds > 0 && results > 0 && !g.Anew && len(g.First.Metrics) > 0 && len(g.Last.Metrics) > 0 {
		rep.Inside = &report.Inside{
			WireBytes: m["muster_session_bytes_received_total"] / results, JournalBytes: m["muster_journal_written_bytes_total"] / results,
			Allocs: m["go_memstats_mallocs_total"] / results, AllocBytes: m["go_memstats_alloc_bytes_total"] / results,
			GC: m["go_cpu_classes_gc_total_cpu_seconds_total"] / seconds, Goroutines: g.Last.Metrics["go_goroutines"],
		}
	}
	if g.Same && seconds > 0 && g.Last.Server.CPU > 0 && !rep.Asked() { // they are told in terms of Muster's journal
		commits, reads := m["muster_journal_commit_entries_count"], float64(g.Reads)
		rep.Calls = &report.Calls{
			Reads: reads / seconds, Writes: float64(g.Writes) / seconds, Syncs: m["muster_journal_syncs_total"] / seconds,
			FramesPerRead: per(m["muster_session_frames_total"], reads), ResultsPerCommit: per(m["muster_event_signals_total"], commits),
		}
		if g.Written > 0 { // else the data is on tmpfs, say
			perSecond := float64(g.Written) / seconds
			rep.Disk = &report.Disk{
				Written: g.Written, Journal: int64(m["muster_journal_written_bytes_total"]), Snapshots: int64(m["muster_snapshot_written_bytes_total"]),
				PerResult: per(float64(g.Written), results), PerSecond: perSecond, PerDay: perSecond * (24 * time.Hour).Seconds(),
				Syncs: (m["muster_journal_syncs_total"] + 2*m["muster_snapshot_saved_total"] + m["muster_dispatch_record_seconds_count"]) / seconds,
			}
		}
	}
	if !rep.Asked() {
		rep.States = uint64(g.Last.Metrics[statesMetric])
	}
	if grown := g.Last.Metrics[statesMetric] - ready.Metrics[statesMetric]; grown >= fewStates && g.Last.Server.Same(ready.Server) {
		rep.StateBytes = float64(g.Last.Server.RSS-ready.Server.RSS) / grown
	}
}

// loaders fills in the figures of each loader in the parts that count, if there are several.
func (t *timetable) loaders(parts []int) {
	rep := t.rep
	rep.Loaders = nil
	for n, l := range t.Start.Report.Loaders {
		if n >= len(t.Loaders) {
			break
		}
		sum, own := &observe.Tally{}, &usage.Gained{}
		for _, i := range parts {
			sum.Merge(t.Loaders[n].Part(i))
			if first, last, known := t.Loaders[n].Use(i); known {
				own.Add(first, last)
			}
		}
		l.Results, l.Lag = sum.Results, sum.LargestLag()
		_, l.Usage = own.Usages(sum.Results)
		rep.Loaders = append(rep.Loaders, l)
	}
}
