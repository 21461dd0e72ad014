// Package chart draws lines over an axis as inline SVG. A drawing needs no script and no request.
//
// A drawing has no fixed size: its lines are in a square that stretches with the page, its texts stand at percentages of
// the square and keep their size. One drawing fits a wide screen, a phone and paper. Its colours are names (tones) that
// the style sheet of the page defines, for light and dark. Each drawing has a table of the same data.
//
// Start reading at drawing.go: Chart.Draw turns data (Chart) into positions (Drawing); the template "chart" (Template) turns
// positions into HTML.
package chart

import "math"

// Chart is one diagram with its lines, axes, bands, marks and texts.
type Chart struct {
	ID      string // of the element; unique on its page
	Title   string
	Unit    string // of the vertical axis, beside the title
	Summary string // the result, in a sentence
	Wide    bool   // takes the whole width of the page
	X, Y    Axis
	Lines   []Line
	Bands   []Band
	Marks   []Mark
}

// Axis describes the horizontal or vertical axis of a chart. It has a name, scale, range and number format.
type Axis struct {
	Name     string // heads the column of the table
	Scale    Scale
	Format   func(float64) string // of labels
	Exact    func(float64) string // of the table and the line names; nil: as Format
	From, To float64              // the least range
}

// Scale selects how an axis maps values to distances, such as linear or logarithmic.
type Scale int

// The scales.
const (
	Linear  Scale = iota
	Log           // by powers of ten
	Seconds       // linear, divided as a clock
	Nines         // of percentiles: 90, 99, 99.9 are equally far apart
)

// Line is one line of a chart, a series of points in the order of X. Points are in the order of X; a Y that is not a
// number is a gap.
type Line struct {
	Name   string
	Value  string // of the whole line, beside its name; may be empty
	Of     string // the kind of Value, such as median
	Tone   string // of its colour: a class of the style sheet
	Points []Point
	Dashed bool // a plan or a limit, not a measurement
	Filled bool // down to the axis
	Dots   bool // each point has a dot
}

// Point is one point of a line in a chart. X is its place on the horizontal axis, and Y its value.
type Point struct{ X, Y float64 }

// Band is a named part of the horizontal axis, shown as a coloured background behind the lines.
type Band struct {
	Name     string
	Tone     string
	From, To float64
}

// Mark is a point in time on the horizontal axis, shown by a short text above the chart.
type Mark struct {
	Sign, Name string
	Tone       string
	At         float64
}

// Gap returns NaN, the value of a missing point in a line of a chart.
func Gap() float64 { return math.NaN() }

// isMissing reports whether the value of a point is NaN or infinite.
func isMissing(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// valueRanges returns the ranges of values of all lines, horizontally and vertically.
func (c *Chart) valueRanges() (x, y span) {
	x, y = newSpan(c.X), newSpan(c.Y)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if !isMissing(p.Y) {
				x.add(p.X)
				y.add(p.Y)
			}
		}
	}
	return x, y
}

// span is the range of values, from smallest to largest, that an axis must show.
type span struct{ from, to float64 }

// newSpan returns the range of values that an axis must contain. The values of the lines widen the range later.
func newSpan(a Axis) span {
	if a.From != a.To {
		return span{a.From, a.To}
	}
	if a.Scale == Linear {
		return span{0, 0} // zero is always in sight
	}
	return span{math.Inf(1), math.Inf(-1)}
}

// add widens the range of an axis so that the range contains a given value.
func (s *span) add(v float64) { s.from, s.to = min(s.from, v), max(s.to, v) }

// Text formats a value exactly, in the unit of the axis, for the table and the line names.
func (a Axis) Text(v float64) string {
	if a.Exact != nil {
		return a.Exact(v)
	}
	return a.Format(v)
}
