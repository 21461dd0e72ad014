package page

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/muster-fleet/muster/internal/load/page/chart"
	"github.com/muster-fleet/muster/internal/load/report"
)

// nines writes a percentile as short as it can be told.
func nines(p float64) string { return strconv.FormatFloat(p, 'g', 9, 64) + " %" }

// percentiles is the latency of all results by percentile: the tail has as much room as
// the rest.
func percentiles(rep *report.Report) (chart.Chart, bool) {
	c := chart.Chart{ID: "percentiles", Title: "Latency by percentile", Unit: "of all results", Wide: true,
		X: chart.Axis{Name: "percentile", Scale: chart.Nines, Format: nines}, Y: chart.Axis{Format: bare(millis), Exact: millis}}
	last := 100 * (1 - 1/float64(max(rep.Results, 10)))
	line := func(name, tone string, dots bool, points []report.Point) {
		l := chart.Line{Name: name, Tone: tone, Dots: dots}
		for _, p := range points {
			if x := min(p.Percentile, last); len(l.Points) == 0 || x > l.Points[len(l.Points)-1].X {
				if dots && p.Percentile == 100 { // of what is between it and the one before nothing is known
					l.Points = append(l.Points, chart.Point{X: x, Y: chart.Gap()})
				}
				l.Points = append(l.Points, chart.Point{X: x, Y: p.Ms})
			}
		}
		c.Lines = append(c.Lines, l)
	}
	five := func(l report.Latency) []report.Point {
		return []report.Point{{Percentile: 50, Ms: l.P50}, {Percentile: 90, Ms: l.P90}, {Percentile: 99, Ms: l.P99}, {Percentile: 99.9, Ms: l.P999}, {Percentile: 100, Ms: l.Max}}
	}
	if rep.Latency.Max == 0 {
		return c, false
	}
	if len(rep.Curve) > 1 {
		line("from intended time", "blue", false, rep.Curve)
	} else {
		line("from intended time", "blue", true, five(rep.Latency))
	}
	if rep.BeyondLinger.Max > 0 {
		line("beyond linger", "teal", true, five(rep.BeyondLinger))
	}
	if t := rep.Notifications; t != nil && len(t.Curve) > 1 {
		line("messages", "purple", false, t.Curve)
	}
	if s := rep.Streamed; s != nil && len(s.Curve) > 1 {
		line("stream lines", "orange", false, s.Curve)
	}
	if rep.Lag.Max > 0 {
		line("generator lag", "grey", true, five(rep.Lag))
		c.Lines[len(c.Lines)-1].Dashed = true
	}
	l, b := rep.Latency, rep.BeyondLinger
	c.Summary = fmt.Sprintf("From the intended time: half within %s, 99 of 100 within %s, all within %s.", millis(l.P50), millis(l.P99), millis(l.Max))
	if b.Max > 0 {
		c.Summary += fmt.Sprintf(" Beyond the linger, in which results wait for company: half within %s, 99 of 100 within %s, all within %s.", millis(b.P50), millis(b.P99), millis(b.Max))
	}
	if slices.ContainsFunc(c.Lines, func(l chart.Line) bool { return l.Dots }) {
		c.Summary += " A point by itself at the right edge is the slowest of all."
	}
	logarithmic(&c)
	return c, true
}

// steps are the phases of a search for saturation, each as it went last.
func steps(rep *report.Report) (list []report.Played) {
	for _, p := range rep.Phases {
		if p.Kind == "step" && p.Offered > 0 {
			if p.Again && len(list) > 0 {
				list = list[:len(list)-1]
			}
			list = append(list, p)
		}
	}
	return list
}

func offeredAxis() chart.Axis {
	return chart.Axis{Name: "offered", Format: short, Exact: perSecond}
}

// saturation is what was acknowledged of what was offered, step by step.
func saturation(rep *report.Report) (chart.Chart, bool) {
	all := steps(rep)
	c := chart.Chart{ID: "saturation", Title: "Until saturation", Unit: "results per second, by what was offered", X: offeredAxis(), Y: chart.Axis{Format: short, Exact: perSecond}}
	ideal, got := chart.Line{Name: "offered", Tone: "grey", Dashed: true}, chart.Line{Name: "acknowledged", Tone: "blue", Dots: true}
	for _, p := range all {
		ideal.Points = append(ideal.Points, chart.Point{X: p.Offered, Y: p.Offered})
		got.Points = append(got.Points, chart.Point{X: p.Offered, Y: p.Acknowledged})
		if len(p.Missed) == 0 {
			c.Summary = fmt.Sprintf("The last step that missed nothing offered %s and acknowledged %s.", perSecond(p.Offered), perSecond(p.Acknowledged))
		}
	}
	c.Lines = []chart.Line{ideal, got}
	return c, len(all) > 1
}

// saturationLatency is what it cost in time.
func saturationLatency(rep *report.Report) (chart.Chart, bool) {
	all := steps(rep)
	c := chart.Chart{ID: "saturation-latency", Title: "Latency until saturation", Unit: "beyond the linger, by what was offered", X: offeredAxis(), Y: chart.Axis{Format: bare(millis), Exact: millis}}
	p50, p99 := chart.Line{Name: "p50", Tone: "heat1", Dots: true}, chart.Line{Name: "p99", Tone: "heat3", Dots: true}
	for _, p := range all {
		p50.Points = append(p50.Points, chart.Point{X: p.Offered, Y: p.BeyondLinger.P50})
		p99.Points = append(p99.Points, chart.Point{X: p.Offered, Y: p.BeyondLinger.P99})
	}
	if c.Lines = []chart.Line{p99, p50}; len(all) > 1 {
		last := all[len(all)-1]
		c.Summary = fmt.Sprintf("p99 %s at the first step (%s), %s at the last (%s).", millis(all[0].BeyondLinger.P99), perSecond(all[0].Offered),
			millis(last.BeyondLinger.P99), perSecond(last.Offered))
	}
	logarithmic(&c)
	return c, len(all) > 1
}
