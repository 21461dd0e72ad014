package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/chart"
	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/queue"
)

// series is one line over time.
type series struct {
	name, tone string
	of         func(*report.Sample) float64
	fold       func([]float64) float64            // of the seconds that share a point
	unknown    func(*report.Sample, float64) bool // a value that makes a gap; nil: none
	dashed     bool
	filled     bool
}

// zero reports whether a value is 0: nobody measured it.
func zero(_ *report.Sample, v float64) bool { return v == 0 }

// unread reports whether the server's own metrics of a second could not be read.
func unread(s *report.Sample, _ float64) bool { return s.Heap == 0 }

// mean returns the mean.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// most returns the maximum.
func most(values []float64) float64 { return slices.Max(values) }

// least returns the minimum.
func least(values []float64) float64 { return slices.Min(values) }

// latencies returns the latencies of a second; zero without any.
func latencies(s *report.Sample) report.Latency { return *cmp.Or(s.Latency, &report.Latency{}) }

// bare returns a format without the zeros at the end of numbers.
func bare(format func(float64) string) func(float64) string {
	return func(v float64) string { return number.Bare(format(v)) }
}

// perSecond returns a format with /s at the end.
func perSecond(format func(float64) string) func(float64) string {
	return func(v float64) string { return format(v) + "/s" }
}

// charts returns the drawings that the report has data for, and the meaning of their signs.
func charts(rep *report.Report) (list []chart.Drawing, legend []sign) {
	type sample = report.Sample
	bands, marks, legend := moments(rep)
	add := func(c chart.Chart, lines ...series) {
		c.Bands, c.Marks, c.Unit = bands, marks, rep.InUnit(c.Unit)
		if overTime(rep, &c, lines) {
			list = append(list, c.Draw())
		}
	}
	millis, count, bytes := chart.Axis{Format: bare(number.Millis), Exact: number.Millis}, chart.Axis{Format: number.Short, Exact: number.Count[float64]}, chart.Axis{Format: bare(number.Bytes), Exact: number.Bytes}
	done, timed := "acknowledged", "from the intended time to the acknowledgement"
	if rep.Asked() {
		done, timed = "left", "from the issue of a request until its result had left"
	}
	offered := series{name: "offered", tone: "grey", of: func(s *sample) float64 { return float64(cmp.Or(s.Offered, s.Sent)) }, fold: mean, dashed: true}
	add(chart.Chart{ID: "throughput", Title: "Throughput", Unit: "results per second", Y: chart.Axis{Format: number.Short, Exact: perSecond(number.Count[float64])}, Wide: true},
		series{name: done, tone: "blue", of: func(s *sample) float64 { return float64(s.Acked) }, fold: mean, filled: true}, offered,
		series{name: "refused", tone: "red", of: func(s *sample) float64 { return float64(s.Refused) }, fold: mean})
	add(chart.Chart{ID: "latency", Title: "Latency", Unit: timed + ", percentiles of each second", Y: chart.Axis{Format: millis.Format, Exact: millis.Exact, Scale: chart.Log}, Wide: true},
		series{name: "slowest", tone: "heat5", of: func(s *sample) float64 { return latencies(s).Max }, fold: most, unknown: zero},
		series{name: "p99.9", tone: "heat4", of: func(s *sample) float64 { return latencies(s).P999 }, fold: most, unknown: zero},
		series{name: "p99", tone: "heat3", of: func(s *sample) float64 { return latencies(s).P99 }, fold: most, unknown: zero},
		series{name: "p90", tone: "heat2", of: func(s *sample) float64 { return latencies(s).P90 }, fold: most, unknown: zero},
		series{name: "p50", tone: "heat1", of: func(s *sample) float64 { return latencies(s).P50 }, fold: most, unknown: zero})
	for _, c := range append([]chart.Chart{percentiles(rep)}, bySteps(rep)...) {
		if c.Unit = rep.InUnit(c.Unit); len(c.Lines) > 0 {
			list = append(list, c.Draw())
		}
	}
	add(chart.Chart{ID: "connections", Title: "Connections", Unit: "agents with a session", Y: count},
		series{name: "connected", tone: "teal", of: func(s *sample) float64 { return float64(s.Connected) }, fold: least, filled: true})
	add(chart.Chart{ID: "cpu", Title: "CPU", Unit: fmt.Sprintf("cores of %d", rep.Machine.Cores), Y: chart.Axis{Format: bare(number.Three), Exact: number.Three}},
		series{name: "server", tone: "blue", of: func(s *sample) float64 { return s.ServerCPU }, fold: mean},
		series{name: "loader", tone: "orange", of: func(s *sample) float64 { return s.LoaderCPU }, fold: mean},
		series{name: "others", tone: "grey", of: func(s *sample) float64 { return s.OthersCPU }, fold: mean})
	add(chart.Chart{ID: "memory", Title: "Memory", Unit: "resident, and heap in use", Y: bytes},
		series{name: "server", tone: "blue", of: func(s *sample) float64 { return float64(s.ServerRSS) }, fold: most, unknown: zero},
		series{name: "its heap", tone: "teal", of: func(s *sample) float64 { return s.Heap }, fold: most, unknown: zero},
		series{name: "loader", tone: "orange", of: func(s *sample) float64 { return float64(s.LoaderRSS) }, fold: most, unknown: zero})
	add(chart.Chart{ID: "queues", Title: "Queues of the server", Unit: "waiting entries, of the deepest queues", Y: count}, queues(rep, "items")...)
	add(chart.Chart{ID: "queued-bytes", Title: "Queues of the server, by size", Unit: "waiting bytes, of the deepest queues", Y: bytes}, queues(rep, "bytes")...)
	add(chart.Chart{ID: "commits", Title: "Journal", Unit: "per second", Y: chart.Axis{Format: number.Short, Exact: number.Three}},
		series{name: "commits", tone: "blue", of: func(s *sample) float64 { return s.Commits }, fold: mean, unknown: unread},
		series{name: "fsyncs", tone: "orange", of: func(s *sample) float64 { return s.Syncs }, fold: mean, unknown: unread, dashed: true})
	add(chart.Chart{ID: "commit-time", Title: "A commit with its fsync", Unit: "mean of a second", Y: millis},
		series{name: "commit", tone: "purple", of: func(s *sample) float64 { return s.CommitMs }, fold: most, unknown: zero})
	add(chart.Chart{ID: "written", Title: "Written to disk", Unit: "by the server, per second", Y: chart.Axis{Format: bytes.Format, Exact: perSecond(number.Bytes)}},
		series{name: "written", tone: "teal", of: func(s *sample) float64 { return s.Written }, fold: mean, filled: true})
	add(chart.Chart{ID: "gc", Title: "Garbage collector of the server", Unit: "pauses in a second", Y: millis},
		series{name: "paused", tone: "orange", of: func(s *sample) float64 { return s.GC }, fold: most, unknown: unread})
	add(chart.Chart{ID: "locks", Title: "Waiting for locks", Unit: "of the time × processors", Y: chart.Axis{Format: number.Percent}},
		series{name: "server", tone: "blue", of: func(s *sample) float64 { return s.Locks }, fold: mean, unknown: unread},
		series{name: "loader", tone: "grey", of: func(s *sample) float64 { return s.OwnLocks }, fold: mean, unknown: unread, dashed: true})
	add(chart.Chart{ID: "goroutines", Title: "Goroutines of the server", Y: count},
		series{name: "goroutines", tone: "purple", of: func(s *sample) float64 { return s.Goroutines }, fold: most, unknown: zero})
	add(chart.Chart{ID: "lag", Title: "Generator lag", Unit: "p99 of a second", Y: millis},
		series{name: "lag", tone: "grey", of: func(s *sample) float64 { return s.Lag }, fold: most, unknown: zero})
	return list, legend
}

// queues returns the five deepest queues of a unit.
func queues(rep *report.Report, unit string) (lines []series) {
	deepest := map[string]float64{}
	for _, s := range rep.Samples {
		for name, depth := range s.Queues {
			if queue.Unit(name) == unit {
				deepest[name] = max(deepest[name], depth)
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(deepest), func(a, b string) int {
		return cmp.Or(cmp.Compare(deepest[b], deepest[a]), strings.Compare(a, b))
	})
	for i, tone := range []string{"blue", "orange", "teal", "purple", "grey"} {
		if i < len(names) {
			lines = append(lines, series{name: names[i], tone: tone, fold: most, of: func(s *report.Sample) float64 { return s.Queues[names[i]] },
				unknown: func(s *report.Sample, _ float64) bool { _, ok := s.Queues[names[i]]; return !ok }})
		}
	}
	return lines
}

// mostPoints is the number of points of a line on a wide screen.
const mostPoints = 300

// overTime adds the lines that have a value other than 0, and reports whether any has.
func overTime(rep *report.Report, c *chart.Chart, all []series) bool {
	c.X = chart.Axis{Name: "time", Scale: chart.Seconds, Format: report.At}
	samples := rep.Samples
	if len(samples) < 2 {
		return false
	}
	c.X.From, c.X.To = float64(samples[0].Second), float64(samples[len(samples)-1].Second)
	each := (len(samples) + mostPoints - 1) / mostPoints
	var medians []string
	for _, s := range all {
		line := chart.Line{Name: s.name, Tone: s.tone, Dashed: s.dashed, Filled: s.filled}
		var measured []float64
		found := false
		for part := range slices.Chunk(samples, each) {
			var values []float64
			for i := range part {
				v := s.of(&part[i])
				if s.unknown != nil && s.unknown(&part[i], v) {
					continue
				}
				values = append(values, v)
				found = found || v != 0
				if part[i].Second >= 0 {
					measured = append(measured, v)
				}
			}
			p := chart.Point{X: float64(part[len(part)/2].Second), Y: chart.Gap()}
			if len(values) > 0 {
				p.Y = s.fold(values)
			}
			line.Points = append(line.Points, p)
		}
		if !found {
			continue
		}
		if slices.Sort(measured); len(measured) > 0 {
			median := measured[len(measured)/2]
			line.Value, line.Of = c.Y.Format(median), "median"
			medians = append(medians, fmt.Sprintf("%s %s (%s to %s)", s.name, c.Y.Text(median), c.Y.Text(measured[0]), c.Y.Text(measured[len(measured)-1])))
		}
		c.Lines = append(c.Lines, line)
	}
	c.Summary = "Median: " + strings.Join(medians, "; ") + "."
	if each > 1 {
		c.Summary += fmt.Sprintf(" Each point is %d seconds.", each)
	}
	logarithmic(c)
	return len(c.Lines) > 0
}

// logarithmic keeps a logarithmic scale where the highest value is far from the lowest.
func logarithmic(c *chart.Chart) {
	low, high := math.Inf(1), 0.0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if p.Y > 0 {
				low, high = min(low, p.Y), max(high, p.Y)
			}
		}
	}
	if c.Y.Scale == chart.Log && high < 12*low {
		c.Y.Scale = chart.Linear
	}
	if c.Y.Scale == chart.Log {
		c.Unit += ", logarithmic"
		for _, l := range c.Lines {
			for i := range l.Points {
				if l.Points[i].Y <= 0 {
					l.Points[i].Y = chart.Gap()
				}
			}
		}
	}
}

// percentiles returns the latency of all results by percentile: the tail has as much room as the rest.
func percentiles(rep *report.Report) chart.Chart {
	c := chart.Chart{ID: "percentiles", Title: "Latency by percentile", Unit: "of all results", Wide: true,
		X: chart.Axis{Name: "percentile", Scale: chart.Nines, Format: func(p float64) string { return strconv.FormatFloat(p, 'g', 9, 64) + " %" }},
		Y: chart.Axis{Format: bare(number.Millis), Exact: number.Millis, Scale: chart.Log}}
	if rep.Latency.Max == 0 {
		return c
	}
	last := 100 * (1 - 1/float64(max(rep.Results, 10)))
	var said []string
	line := func(name, tone string, dashed bool, curve []report.Point, l report.Latency) {
		if l.Max == 0 {
			return
		}
		out := chart.Line{Name: name, Tone: tone, Dashed: dashed, Dots: len(curve) < 2}
		if out.Dots {
			curve = []report.Point{{Percentile: 50, Ms: l.P50}, {Percentile: 90, Ms: l.P90}, {Percentile: 99, Ms: l.P99}, {Percentile: 99.9, Ms: l.P999}, {Percentile: 100, Ms: l.Max}}
		}
		for _, p := range curve { // 0: not known
			if x := min(p.Percentile, last); p.Ms > 0 && (len(out.Points) == 0 || x > out.Points[len(out.Points)-1].X) {
				if out.Dots && p.Percentile == 100 { // nothing is known between it and the one before
					out.Points = append(out.Points, chart.Point{X: x, Y: chart.Gap()})
				}
				out.Points = append(out.Points, chart.Point{X: x, Y: p.Ms})
			}
		}
		c.Lines = append(c.Lines, out)
		said = append(said, fmt.Sprintf("%s: half within %s, 99 of 100 within %s, all within %s", name, number.Millis(l.P50), number.Millis(l.P99), number.Millis(l.Max)))
	}
	line("from intended time", "blue", false, rep.Curve, rep.Latency)
	if rep.InUnit("result") == "result" { // else there is none
		line("beyond linger", "teal", false, nil, rep.BeyondLinger)
	}
	if t := rep.Notifications; t != nil {
		line("messages", "purple", false, t.Curve, t.Latency)
	}
	if s := rep.Streamed; s != nil {
		line("stream lines", "orange", false, s.Curve, s.Latency)
	}
	line("generator lag", "grey", true, nil, rep.Lag)
	c.Summary = strings.Join(said, "; ") + "."
	logarithmic(&c)
	return c
}

// bySteps returns the rates and the latencies of a search for saturation, each step in its last attempt; none of fewer than two
// steps.
func bySteps(rep *report.Report) []chart.Chart {
	var steps []*report.Played
	for i := range rep.Phases {
		if p := &rep.Phases[i]; p.Kind == report.KindStep && p.Offered > 0 {
			if p.Again && len(steps) > 0 {
				steps = steps[:len(steps)-1]
			}
			steps = append(steps, p)
		}
	}
	if len(steps) < 2 {
		return nil
	}
	rates := chart.Chart{ID: "saturation", Title: "Until saturation", Unit: "results per second, by offered rate", Y: chart.Axis{Format: number.Short, Exact: perSecond(number.Count[float64])},
		Lines: []chart.Line{{Name: "offered", Tone: "grey", Dashed: true}, {Name: "acknowledged", Tone: "blue", Dots: true}}}
	times := chart.Chart{ID: "saturation-latency", Title: "Latency until saturation", Unit: "beyond the linger, by offered rate", Y: chart.Axis{Format: bare(number.Millis), Exact: number.Millis, Scale: chart.Log},
		Lines: []chart.Line{{Name: "p99", Tone: "heat3", Dots: true}, {Name: "p50", Tone: "heat1", Dots: true}}}
	for _, p := range steps {
		for line, y := range map[*chart.Line]float64{&rates.Lines[0]: p.Offered, &rates.Lines[1]: p.Acknowledged, &times.Lines[0]: p.BeyondLinger.P99, &times.Lines[1]: p.BeyondLinger.P50} {
			line.Points = append(line.Points, chart.Point{X: p.Offered, Y: y})
		}
		if len(p.Missed) == 0 {
			rates.Summary = fmt.Sprintf("The last step that held offered %s/s: p99 beyond the linger %s.", number.Count(p.Offered), number.Millis(p.BeyondLinger.P99))
		}
	}
	rates.X = chart.Axis{Name: "offered", Format: number.Short, Exact: perSecond(number.Count[float64])}
	times.X, times.Summary = rates.X, rates.Summary
	logarithmic(&times)
	return []chart.Chart{rates, times}
}

// sign is a mark of the charts and its meaning.
type sign struct{ Name, Text string }

// mostMarks is the number of marks that a chart has room for.
const mostMarks = 20

// moments returns the phases, faults, outages and changes of intent as bands and marks, and the meaning of the marks.
func moments(rep *report.Report) (bands []chart.Band, marks []chart.Mark, legend []sign) {
	if len(rep.Phases) == 0 && len(rep.Samples) > 0 && rep.Samples[0].Second < 0 {
		bands = append(bands, chart.Band{Name: "warm-up", Tone: "outside", From: float64(rep.Samples[0].Second), To: 0})
	}
	for i, p := range rep.Phases {
		if i > 0 && p.From > rep.Phases[i-1].To {
			bands = append(bands, chart.Band{Name: "warm-up", Tone: "outside", From: rep.Phases[i-1].To, To: p.From})
		}
		tone := []string{"even", "odd"}[i%2]
		if p.Kind == report.KindRamp || p.Kind == report.KindDrain {
			tone = "outside"
		}
		bands = append(bands, chart.Band{Name: strings.TrimPrefix(p.Name, "step "), Tone: tone, From: p.From, To: p.To})
	}
	mark := func(tone, name, text string, at float64) {
		if len(marks) < mostMarks {
			marks = append(marks, chart.Mark{Sign: name, Name: text, Tone: tone, At: at})
			legend = append(legend, sign{name, text + ", at " + report.At(at)})
		}
	}
	for i, f := range rep.Faults {
		if f.Until > f.At {
			bands = append(bands, chart.Band{Tone: "fault", From: f.At, To: f.Until})
		}
		mark("struck", report.Letter(i), f.What, f.At)
	}
	for i, o := range rep.Outages {
		until := o.Second + o.Seconds
		if o.Seconds < 0 && len(rep.Samples) > 0 {
			until = float64(rep.Samples[len(rep.Samples)-1].Second)
		}
		bands = append(bands, chart.Band{Tone: "fault", From: o.Second, To: until})
		if len(rep.Faults) == 0 {
			mark("struck", report.Letter(i), number.Of(o.Lost, "agent")+" without a session", o.Second)
		}
	}
	for i, h := range rep.Changes {
		mark("changed", strconv.Itoa(i+1), h.What+rep.Every(i), h.At)
	}
	return bands, marks, legend
}
