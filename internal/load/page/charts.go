package page

import (
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/load/page/chart"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/queue"
)

// charts are all charts that the report has data for, and what their signs mean.
func charts(rep *report.Report) ([]chart.Drawing, []note) {
	bands, marks, legend := moments(rep)
	var list []chart.Drawing
	add := func(c chart.Chart, ok bool) {
		if ok {
			list = append(list, c.Draw())
		}
	}
	timed := func(wide bool, c chart.Chart, ok bool) {
		c.Wide, c.Bands, c.Marks = wide, bands, marks
		add(c, ok)
	}
	c, ok := throughput(rep)
	timed(true, c, ok)
	if c, ok = latencies(rep); ok {
		timed(true, c, ok)
	}
	add(percentiles(rep))
	add(saturation(rep))
	add(saturationLatency(rep))
	for _, f := range []func(*report.Report) (chart.Chart, bool){connections, cpu, memory, queuesOfItems, queuesOfBytes, commits, commitTime, written, pauses, locks, goroutines, lag} {
		c, ok := f(rep)
		timed(false, c, ok)
	}
	if len(list) == 0 {
		legend = nil
	}
	return list, legend
}

func perSecond(v float64) string { return count(v) + "/s" }

func throughput(rep *report.Report) (chart.Chart, bool) {
	whole := func(of func(*report.Sample) uint64) func(*report.Sample) (float64, bool) {
		return func(s *report.Sample) (float64, bool) { return float64(of(s)), true }
	}
	offered := series{name: "offered", tone: "grey", of: whole(func(s *report.Sample) uint64 { return s.Offered }), fold: mean(), dashed: true}
	sent := series{name: "sent", tone: "grey", of: whole(func(s *report.Sample) uint64 { return s.Sent }), fold: mean(), dashed: true}
	if slices.ContainsFunc(rep.Samples, func(s report.Sample) bool { return s.Offered > 0 }) {
		sent = offered
	}
	return over(rep, "throughput", "Throughput", "results per second", chart.Axis{Format: short, Exact: perSecond},
		series{name: done(rep), tone: "blue", of: whole(func(s *report.Sample) uint64 { return s.Acked }), fold: mean(), filled: true},
		sent,
		series{name: "refused", tone: "red", of: whole(func(s *report.Sample) uint64 { return s.Refused }), fold: mean()})
}

func latencies(rep *report.Report) (chart.Chart, bool) {
	of := func(f func(*report.Latency) float64) func(*report.Sample) (float64, bool) {
		return func(s *report.Sample) (float64, bool) {
			if s.Latency == nil || s.Latency.Max == 0 {
				return 0, false
			}
			return f(s.Latency), true
		}
	}
	c, ok := over(rep, "latency", "Latency", timed(rep)+", by percentiles of each second", chart.Axis{Format: bare(millis), Exact: millis},
		series{name: "slowest", tone: "heat5", of: of(func(l *report.Latency) float64 { return l.Max }), fold: worst()},
		series{name: "p99.9", tone: "heat4", of: of(func(l *report.Latency) float64 { return l.P999 }), fold: worst()},
		series{name: "p99", tone: "heat3", of: of(func(l *report.Latency) float64 { return l.P99 }), fold: worst()},
		series{name: "p90", tone: "heat2", of: of(func(l *report.Latency) float64 { return l.P90 }), fold: worst()},
		series{name: "p50", tone: "heat1", of: of(func(l *report.Latency) float64 { return l.P50 }), fold: worst()})
	logarithmic(&c)
	return c, ok
}

func connections(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "connections", "Connections", "agents with a session", chart.Axis{Format: short, Exact: count},
		series{name: "connected", tone: "teal", of: func(s *report.Sample) (float64, bool) { return float64(s.Connected), true }, fold: fewest(), filled: true})
}

// some is a value that is not there where it is nought.
func some(f func(*report.Sample) float64) func(*report.Sample) (float64, bool) {
	return func(s *report.Sample) (float64, bool) { v := f(s); return v, v != 0 }
}

// told is a value that may be nought, of a second in which the server told about itself.
func told(f func(*report.Sample) float64) func(*report.Sample) (float64, bool) {
	return func(s *report.Sample) (float64, bool) { return f(s), s.Heap > 0 }
}

// plain is a value that may be nought.
func plain(f func(*report.Sample) float64) func(*report.Sample) (float64, bool) {
	return func(s *report.Sample) (float64, bool) { return f(s), true }
}

func cpu(rep *report.Report) (chart.Chart, bool) {
	unit := "cores"
	if rep.Machine.Cores > 0 {
		unit = fmt.Sprintf("cores of %d", rep.Machine.Cores)
	}
	return over(rep, "cpu", "CPU", unit, chart.Axis{Format: bare(figures), Exact: hundredths},
		series{name: "server", tone: "blue", of: plain(func(s *report.Sample) float64 { return s.ServerCPU }), fold: mean()},
		series{name: "loader", tone: "orange", of: plain(func(s *report.Sample) float64 { return s.LoaderCPU }), fold: mean()},
		series{name: "others", tone: "grey", of: plain(func(s *report.Sample) float64 { return s.OthersCPU }), fold: mean()})
}

func memory(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "memory", "Memory", "resident, and heap in use", chart.Axis{Format: bare(size), Exact: size},
		series{name: "server", tone: "blue", of: some(func(s *report.Sample) float64 { return float64(s.ServerRSS) }), fold: worst()},
		series{name: "its heap", tone: "teal", of: some(func(s *report.Sample) float64 { return s.Heap }), fold: worst()},
		series{name: "loader", tone: "orange", of: some(func(s *report.Sample) float64 { return float64(s.LoaderRSS) }), fold: worst()})
}

func queuesOfItems(rep *report.Report) (chart.Chart, bool) {
	return queues(rep, "items", "queues", "Queues of the server", "entries that wait", chart.Axis{Format: short, Exact: count})
}

func queuesOfBytes(rep *report.Report) (chart.Chart, bool) {
	return queues(rep, "bytes", "queued-bytes", "Queues of the server, by size", "bytes that wait", chart.Axis{Format: bare(size), Exact: size})
}

// queues are the deepest ones of a unit, in the order of their depth.
func queues(rep *report.Report, unit, id, title, what string, y chart.Axis) (chart.Chart, bool) {
	deepest := map[string]float64{}
	for _, s := range rep.Samples {
		for name, depth := range s.Queues {
			if queue.Unit(name) == unit {
				deepest[name] = max(deepest[name], depth)
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(deepest), func(a, b string) int {
		if deepest[a] != deepest[b] {
			return map[bool]int{true: -1, false: 1}[deepest[a] > deepest[b]]
		}
		return map[bool]int{true: -1, false: 1}[a < b]
	})
	tones := []string{"blue", "orange", "teal", "purple", "grey"}
	var all []series
	for i, name := range names[:min(len(names), len(tones))] {
		all = append(all, series{name: name, tone: tones[i], of: func(s *report.Sample) (float64, bool) { v, ok := s.Queues[name]; return v, ok }, fold: worst()})
	}
	c, ok := over(rep, id, title, what, y, all...)
	if left := len(names) - len(all); left > 0 {
		c.Summary += fmt.Sprintf(" %d that were shallower are not drawn.", left)
	}
	return c, ok
}

func commits(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "commits", "Journal", "per second", chart.Axis{Format: short, Exact: figures},
		series{name: "commits", tone: "blue", of: told(func(s *report.Sample) float64 { return s.Commits }), fold: mean()},
		series{name: "fsyncs", tone: "orange", of: told(func(s *report.Sample) float64 { return s.Syncs }), fold: mean(), dashed: true})
}

func commitTime(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "commit-time", "A commit with its fsync", "mean of a second", chart.Axis{Format: bare(millis), Exact: millis},
		series{name: "commit", tone: "purple", of: some(func(s *report.Sample) float64 { return s.CommitMs }), fold: worst()})
}

func written(rep *report.Report) (chart.Chart, bool) {
	each := func(v float64) string { return size(v) + "/s" }
	return over(rep, "written", "Written to disk", "by the server, per second", chart.Axis{Format: bare(size), Exact: each},
		series{name: "written", tone: "teal", of: plain(func(s *report.Sample) float64 { return s.Written }), fold: mean(), filled: true})
}

func pauses(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "gc", "Garbage collector of the server", "pauses in a second", chart.Axis{Format: bare(millis), Exact: millis},
		series{name: "paused", tone: "orange", of: told(func(s *report.Sample) float64 { return s.GC }), fold: worst()})
}

func locks(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "locks", "Waiting for locks", "time of goroutines, of what passed × processors", chart.Axis{Format: percent, Exact: percent},
		series{name: "server", tone: "blue", of: told(func(s *report.Sample) float64 { return s.Locks }), fold: mean()},
		series{name: "load generator", tone: "grey", of: told(func(s *report.Sample) float64 { return s.OwnLocks }), fold: mean(), dashed: true})
}

func goroutines(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "goroutines", "Goroutines of the server", "", chart.Axis{Format: short, Exact: count},
		series{name: "goroutines", tone: "purple", of: some(func(s *report.Sample) float64 { return s.Goroutines }), fold: worst()})
}

func lag(rep *report.Report) (chart.Chart, bool) {
	return over(rep, "lag", "Generator lag", "p99 of a second: how late the load itself was", chart.Axis{Format: bare(millis), Exact: millis},
		series{name: "lag", tone: "grey", of: some(func(s *report.Sample) float64 { return s.Lag }), fold: worst()})
}
