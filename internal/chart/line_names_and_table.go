package chart

import (
	"cmp"
	"math"
	"slices"
)

// apart is how far names beside the lines keep from each other, in percent of the
// height: two lines of text in a small drawing.
const apart = 19

// separateNames moves overlapping names of lines apart vertically, so that all names are readable.
func (d *Drawing) separateNames() {
	order := make([]*Curve, len(d.Curves))
	for i := range d.Curves {
		order[i] = &d.Curves[i]
	}
	slices.SortStableFunc(order, func(a, b *Curve) int { return cmp.Compare(a.At, b.At) })
	for i, k := range order { // downwards …
		if k.At = max(k.At, apart/2); i > 0 {
			k.At = max(k.At, order[i-1].At+apart)
		}
	}
	for i := len(order) - 1; i >= 0; i-- { // … and up again from the lower edge
		limit := 100.0
		if i < len(order)-1 {
			limit = order[i+1].At - apart
		}
		order[i].At = round(min(order[i].At, limit))
	}
}

// addTable adds to the drawing a table with the values of all lines, for reading without the chart. The table
// has one row for each X of a point.
func (d *Drawing) addTable(across axisScale) {
	d.Head = []string{d.X.Name}
	var xs []float64
	for _, l := range d.Lines {
		d.Head = append(d.Head, l.Name)
		for _, p := range l.Points {
			xs = append(xs, p.X)
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	next := make([]int, len(d.Lines))
	for _, x := range xs {
		row := Row{At: round(100 * across.position(x)), Cells: []string{d.X.Text(x)}}
		for i, l := range d.Lines {
			cell := ""
			for ; next[i] < len(l.Points) && l.Points[next[i]].X <= x; next[i]++ { // of two at one place the later one
				if y := l.Points[next[i]].Y; !math.IsNaN(y) {
					cell = d.Y.Text(y)
				}
			}
			row.Cells = append(row.Cells, cell)
		}
		d.Rows = append(d.Rows, row)
	}
}
