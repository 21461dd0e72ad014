// Package chart draws lines over an axis as inline SVG, without any script.
//
// A drawing has no fixed size: its lines live in a square that stretches with the
// page, its words stand at percentages of it and keep their size, so that one drawing
// is read on a wide screen, on a phone and on paper. Its colours are names (tones)
// that the page's style sheet explains, for light and dark. Under each drawing lies a
// table of the same data.
//
// Start reading at draw.go: Chart.Draw turns data (Chart) into positions (Drawing), and
// chart.html turns those into HTML. Nothing here knows about load tests.
package chart

import "math"

// Chart is what is to be drawn.
type Chart struct {
	ID      string // of the element; unique on its page
	Title   string
	Unit    string // of the vertical axis, beside the title
	Summary string // what it shows, in a sentence
	Wide    bool   // takes the whole width of the page
	X, Y    Axis
	Lines   []Line
	Bands   []Band
	Marks   []Mark
}

// Axis is how one direction is divided and labelled.
type Axis struct {
	Name     string // heads the column of the table
	Scale    Scale
	Format   func(float64) string // of labels
	Exact    func(float64) string // of the table and the names of lines; none: as Format
	From, To float64              // shown at least
}

// Scale is how values become distances.
type Scale int

// The scales.
const (
	Linear  Scale = iota
	Log           // by powers of ten
	Seconds       // linear, divided as a clock is
	Nines         // of percentiles: 90, 99, 99.9 are equally far apart
)

// Line is one series. Points are in the order of X; a Y that is not a number is a gap.
type Line struct {
	Name   string
	Value  string // of the whole line, beside its name; empty: none
	Of     string // what that is: median
	Tone   string // of its colour; a class of the style sheet
	Points []Point
	Dashed bool // what was meant, not what came
	Filled bool // down to the axis
	Dots   bool // few points, each of its own worth
}

// Point is one value.
type Point struct{ X, Y float64 }

// Band is a stretch of the horizontal axis with a name.
type Band struct {
	Name     string
	Tone     string
	From, To float64
}

// Mark is one moment, with a short sign at the upper edge.
type Mark struct {
	Sign, Name string
	Tone       string
	At         float64
}

// Gap is the value of a point that is not there.
func Gap() float64 { return math.NaN() }

// reach is the range that all lines cover in both directions.
func (c *Chart) reach() (x, y span) {
	x, y = newSpan(c.X), newSpan(c.Y)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if math.IsNaN(p.Y) || math.IsInf(p.Y, 0) {
				continue
			}
			x.add(p.X)
			y.add(p.Y)
		}
	}
	return x, y
}

type span struct{ from, to float64 }

func newSpan(a Axis) span {
	if a.From != a.To {
		return span{a.From, a.To}
	}
	if a.Scale == Linear {
		return span{0, 0} // what is measured is compared with nothing at all
	}
	return span{math.Inf(1), math.Inf(-1)}
}

func (s *span) add(v float64) { s.from, s.to = min(s.from, v), max(s.to, v) }

// Text formats a value of the axis exactly.
func (a Axis) Text(v float64) string {
	if a.Exact != nil {
		return a.Exact(v)
	}
	return a.Format(v)
}
