package chart

import (
	"cmp"
	_ "embed" // the templates
	"math"
	"slices"
	"strconv"
	"strings"
)

//go:embed chart.html
var source string

// Template returns the HTML template named "chart", which shows a Drawing as a figure. The page that takes it brings
// style and, for values under the pointer, script.
func Template() string { return source }

// Drawing is a chart with all positions computed, ready for the HTML template. Positions are percentages from
// the left and from the top.
type Drawing struct {
	Chart
	Across, Up []Label
	Curves     []Curve
	Stretches  []DrawnBand
	Moments    []DrawnMark
	Head       []string
	Rows       []Row
}

// Label is the text at one division line of an axis, with its position.
type Label struct {
	At   float64
	Text string
	Odd  bool // left out on a narrow screen
	Edge string
}

// Curve is a chart line as SVG paths, with coordinates from 0 to 1,000.
type Curve struct {
	Line
	Path, Area string
	Spots      string  // the dots of its points
	At         float64 // of its name, which stands beside its end
}

// DrawnBand is a background band of the chart, with its computed position on the horizontal axis. Room names
// the least width that has space for its name: any, wide or none.
type DrawnBand struct {
	Band
	Start, Width float64
	Room         string
}

// DrawnMark is a marked time in a drawing, with its position on the horizontal axis in percent.
type DrawnMark struct {
	Mark
	At float64
}

// Row is one row of the table below a chart. At is its place on the horizontal axis.
type Row struct {
	At    float64
	Cells []string
}

// Draw computes the positions of all parts of the chart.
func (c Chart) Draw() Drawing {
	d := Drawing{Chart: c}
	xs, ys := c.valueRanges()
	across, up := newAxisScale(c.X, xs, 6, false), newAxisScale(c.Y, ys, 4, true)
	d.addAxisLabels(across, up)
	for _, l := range c.Lines {
		d.Curves = append(d.Curves, l.toCurve(across, up))
	}
	for _, b := range c.Bands {
		from, to := 100*across.position(b.From), 100*across.position(b.To)
		if to > from {
			d.Stretches = append(d.Stretches, DrawnBand{b, round(from), round(to - from), bandNameClass(b.Name, to-from, c.Wide)})
		}
	}
	d.placeMarks(across, xs)
	d.separateNames()
	d.addTable(across)
	return d
}

// signRoom is the width of one letter of a sign on a narrow screen, in percent of the drawing.
const signRoom = 2.5

// placeMarks computes the positions of the marks on the horizontal axis. Signs without room beside the sign
// before them stand together.
func (d *Drawing) placeMarks(across axisScale, x span) {
	marks := slices.SortedStableFunc(slices.Values(d.Marks), func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	last := -1 // with a sign
	for _, m := range marks {
		if m.At < x.from || m.At > x.to {
			continue
		}
		at := round(100 * across.position(m.At))
		if last >= 0 && at-d.Moments[last].At < signRoom*float64(len(d.Moments[last].Sign)+len(m.Sign)+1)/2 {
			d.Moments[last].Sign += " " + m.Sign
			m.Sign = ""
		} else {
			last = len(d.Moments)
		}
		d.Moments = append(d.Moments, DrawnMark{m, at})
	}
}

// addAxisLabels adds the labels of both axes to the drawing.
func (d *Drawing) addAxisLabels(across, up axisScale) {
	for i, t := range across.ticks {
		l := Label{At: round(100 * across.position(t.at)), Text: d.X.Format(t.at), Odd: i%2 == 1}
		if l.At > 97 {
			l.Edge = "last"
		}
		d.Across = append(d.Across, l)
	}
	for _, t := range up.ticks {
		l := Label{At: round(100 - 100*up.position(t.at))}
		switch {
		case t.label && t.at == 0:
			l.Text = "0"
		case t.label:
			l.Text = d.Y.Format(t.at)
		}
		d.Up = append(d.Up, l)
	}
}

// bandNameClass returns the CSS class that hides a band's name on screens too narrow for the name. The class is
// "wide" if the name fits on a wide screen, and "any" if it fits on a phone too.
func bandNameClass(name string, percent float64, chart bool) string {
	need := 7*float64(len([]rune(name))) + 6 // pixels
	switch {
	case name == "" || !chart:
		return "none"
	case percent*2.6 > need:
		return "any"
	case percent*8 > need:
		return "wide"
	}
	return "none"
}

// toCurve returns the SVG paths through all points of a line. The paths are interrupted at gaps. The name of the line
// is at the height of its end.
func (l Line) toCurve(across, up axisScale) Curve {
	p := Curve{Line: l, At: 50}
	var line, area, dots strings.Builder
	open := false
	var first, last string
	shut := func() {
		if open && l.Filled {
			area.WriteString("L" + last + " 1000L" + first + " 1000Z")
		}
		open = false
	}
	for _, v := range l.Points {
		if isMissing(v.Y) {
			shut()
			continue
		}
		x, y := number(1000*across.position(v.X)), number(1000-1000*up.position(v.Y))
		command := "L"
		if !open {
			command, first = "M", x
		}
		line.WriteString(command + x + " " + y)
		area.WriteString(command + x + " " + y)
		dots.WriteString("M" + x + " " + y + "h0")
		open, last, p.At = true, x, 100-100*up.position(v.Y)
	}
	shut()
	p.Path = line.String()
	if l.Filled {
		p.Area = area.String()
	}
	if l.Dots || strings.Count(p.Path, "M") == len(l.Points) {
		p.Spots = dots.String()
	}
	return p
}

// round rounds a value to two decimals.
func round(v float64) float64 { return math.Round(v*100) / 100 }

// number formats a coordinate with at most one decimal.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
