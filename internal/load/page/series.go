package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/page/chart"
	"github.com/muster-fleet/muster/internal/load/report"
)

// most is how many points a line has at most: what a wide screen can show.
const most = 300

// series is one line over time.
type series struct {
	name, tone string
	of         func(*report.Sample) (float64, bool)
	fold       fold // of the samples that share a point
	dashed     bool
	filled     bool
}

// fold makes one value of several.
type fold struct {
	name string // the mean, the highest
	of   func([]float64) float64
}

func mean() fold {
	return fold{"mean", func(v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return sum / float64(len(v))
	}}
}

func worst() fold  { return fold{"highest", slices.Max[[]float64]} }
func fewest() fold { return fold{"lowest", slices.Min[[]float64]} }

// over is a chart of series over time; ok is false where none of them has a value
// other than nought.
func over(rep *report.Report, id, title, unit string, y chart.Axis, all ...series) (c chart.Chart, ok bool) {
	c = chart.Chart{ID: id, Title: title, Unit: unit, Y: y, X: chart.Axis{Name: "time", Scale: chart.Seconds, Format: clock}}
	samples := rep.Samples
	if len(samples) > clockFrom {
		c.X.Format = minutes
	}
	if len(samples) < 2 {
		return c, false
	}
	c.X.From, c.X.To = float64(samples[0].Second), float64(samples[len(samples)-1].Second)
	each := (len(samples) + most - 1) / most
	var said, folds []string
	for _, s := range all {
		line := chart.Line{Name: s.name, Tone: s.tone, Dashed: s.dashed, Filled: s.filled}
		var measured []float64
		something := false
		for part := range slices.Chunk(samples, each) {
			var values []float64
			for i := range part {
				if v, there := s.of(&part[i]); there {
					values = append(values, v)
					something = something || v != 0
					if part[i].Second >= 0 {
						measured = append(measured, v)
					}
				}
			}
			p := chart.Point{X: float64(part[len(part)/2].Second), Y: chart.Gap()}
			if len(values) > 0 {
				p.Y = s.fold.of(values)
			}
			line.Points = append(line.Points, p)
		}
		if something {
			text := ""
			text, line.Value = inWords(s.name, measured, y)
			if line.Value != "" {
				line.Of = "median"
			}
			c.Lines, said = append(c.Lines, line), append(said, text)
			if !slices.Contains(folds, s.fold.name) {
				folds = append(folds, s.fold.name)
			}
		}
	}
	c.Summary = upper(strings.Join(said, "; ")) + "."
	if each > 1 {
		c.Summary += fmt.Sprintf(" Each point is the %s of %d"+nb+"s.", strings.Join(folds, ", or the "), each)
	}
	return c, len(c.Lines) > 0
}

// inWords is the middle and the ends of a series over the measured time, and the middle alone.
func inWords(name string, values []float64, y chart.Axis) (text, middle string) {
	if len(values) == 0 {
		return name + ": not while it was measured", ""
	}
	slices.Sort(values)
	low, high := say(y, values[0]), say(y, values[len(values)-1])
	middle = say(y, values[len(values)/2])
	if low == high {
		return fmt.Sprintf("%s %s throughout", name, middle), middle
	}
	return fmt.Sprintf("%s: median %s (%s to %s)", name, middle, low, high), middle
}

func say(a chart.Axis, v float64) string {
	if a.Exact != nil {
		return a.Exact(v)
	}
	return a.Format(v)
}

func upper(s string) string {
	r := []rune(s)
	if len(r) == 0 {
		return s
	}
	return strings.ToUpper(string(r[:1])) + string(r[1:])
}

// logarithmic is the scale for latencies whose worst are far from the usual ones.
func logarithmic(c *chart.Chart) {
	low, high := math.Inf(1), 0.0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if p.Y > 0 {
				low, high = min(low, p.Y), max(high, p.Y)
			}
		}
	}
	if high < 12*low {
		return
	}
	c.Y.Scale = chart.Log
	c.Unit += ", logarithmic"
	for _, l := range c.Lines {
		for i := range l.Points {
			if l.Points[i].Y <= 0 {
				l.Points[i].Y = chart.Gap()
			}
		}
	}
}
