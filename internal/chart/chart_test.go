package chart

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"testing"
)

// formatNumber formats a number for tests in the shortest form.
func formatNumber(v float64) string { return fmt.Sprintf("%g", v) }

// TestAxesHaveRoundLabels expects round numbers as labels of linear, logarithmic, time and percentile axes.
func TestAxesHaveRoundLabels(t *testing.T) {
	for _, c := range []struct {
		scale    Scale
		from, to float64
		n        int
		widen    bool
		want     string
	}{
		{Linear, 0, 16_084, 4, true, "0 5000 10000 15000 20000"},
		{Linear, 0, 0.46, 4, true, "0 0.2 0.4 0.6"},
		{Linear, 0, 0, 4, true, "0 1"},
		{Linear, -3, 3, 4, true, "-4 -2 0 2 4"},
		{Seconds, -13, 59, 6, false, "0 15 30 45"},
		{Seconds, 0, 600, 6, false, "0 120 240 360 480 600"},
		{Log, 12, 19_000, 4, true, "10 20 50 100 200 500 1000 2000 5000 10000 20000"},
		{Log, 1, 10, 4, true, "1 2 5 10"},
		{Log, 3, 3, 4, true, "2 5"},
		{Nines, 0, 99.95, 6, false, "0 50 90 99 99.9"},
		{Nines, 0, 99.9999999, 6, false, "50 90 99 99.9 99.99 99.999 99.9999 99.99999"},
		{Linear, math.Inf(1), math.Inf(-1), 4, true, "0 0.25 0.5 0.75 1"},
	} {
		r := newAxisScale(Axis{Scale: c.scale}, span{c.from, c.to}, c.n, c.widen)
		var got []string
		last := -1.0
		for _, tick := range r.ticks {
			got = append(got, formatNumber(math.Round(tick.at*1e6)/1e6))
			if at := r.position(tick.at); at <= last || at > 1 {
				t.Errorf("scale %d, %g to %g: %g lies at %g, after %g", c.scale, c.from, c.to, tick.at, at, last)
			} else {
				last = at
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("scale %d, %g to %g: divided at %s, want %s", c.scale, c.from, c.to, text, c.want)
		}
	}
}

// TestMissingPointIsGap draws a line with a missing point, and expects a gap in the line.
func TestMissingPointIsGap(t *testing.T) {
	d := Chart{X: Axis{Name: "x", Format: formatNumber, From: 0, To: 3}, Y: Axis{Format: formatNumber}, Lines: []Line{
		{Name: "a", Filled: true, Points: []Point{{0, 1}, {1, 2}, {2, Gap()}, {3, 2}}},
		{Name: "b", Points: []Point{{1, 1}}},
	}}.Draw()
	if got, want := d.Curves[0].Path, "M0 500L333.3 0M1000 0"; got != want {
		t.Errorf("line %s, want %s", got, want)
	}
	if got, want := d.Curves[0].Area, "M0 500L333.3 0L333.3 1000L0 1000ZM1000 0L1000 1000L1000 1000Z"; got != want {
		t.Errorf("area %s, want %s", got, want)
	}
	if d.Curves[1].Spots == "" {
		t.Error("a point alone is not seen")
	}
	var rows []string
	for _, r := range d.Rows {
		rows = append(rows, strings.Join(r.Cells, ","))
	}
	if got, want := strings.Join(rows, " "), "0,1, 1,2,1 2,, 3,2,"; got != want {
		t.Errorf("table %q, want %q", got, want)
	}
}

// TestLineNamesDoNotOverlap draws lines that end at the same value, and expects their names one below the
// other.
func TestLineNamesDoNotOverlap(t *testing.T) {
	c := Chart{X: Axis{Format: formatNumber}, Y: Axis{Format: formatNumber, From: 0, To: 100}}
	for i, end := range []float64{0, 1, 2, 100, 99} {
		c.Lines = append(c.Lines, Line{Name: formatNumber(float64(i)), Points: []Point{{0, 0}, {1, end}}})
	}
	d := c.Draw()
	for i, a := range d.Curves {
		if a.At < 0 || a.At > 100 {
			t.Errorf("%s stands at %g", a.Name, a.At)
		}
		for _, b := range d.Curves[:i] {
			if math.Abs(a.At-b.At) < apart-0.1 {
				t.Errorf("%s at %g covers %s at %g", a.Name, a.At, b.Name, b.At)
			}
		}
	}
	if !(d.Curves[3].At < d.Curves[4].At && d.Curves[2].At < d.Curves[1].At) {
		t.Errorf("order %v", d.Curves)
	}
}

// TestTemplateShowsDrawing executes the HTML template with a chart, and expects its title and data in the
// result. The title must be escaped.
func TestTemplateShowsDrawing(t *testing.T) {
	set := template.Must(template.New("").Parse(Template()))
	var b strings.Builder
	d := Chart{ID: "one", Title: "Title <b>", Summary: "what it shows", X: Axis{Name: "time", Format: formatNumber}, Y: Axis{Format: formatNumber},
		Lines: []Line{{Name: "a", Tone: "blue", Points: []Point{{0, 1}, {1, 2}}}}, Bands: []Band{{Name: "p", From: 0, To: 1}}, Marks: []Mark{{Sign: "A", Tone: "struck", At: 0.5}}, Wide: true}.Draw()
	if err := set.ExecuteTemplate(&b, "chart", d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`id="one"`, `role="img" aria-label="Title &lt;b&gt;. what it shows"`, `class="sign struck"`, "<details>", `data-at="100"`, ">A<"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}

// TestMarksDoNotOverlap draws marks of nearly equal times, and expects the text of each to be readable. The
// signs are side by side, and each has a line.
func TestMarksDoNotOverlap(t *testing.T) {
	c := Chart{X: Axis{Format: formatNumber, From: 0, To: 100}, Y: Axis{Format: formatNumber}}
	for i, at := range []float64{50, 10, 10, 11, 30, 200} {
		c.Marks = append(c.Marks, Mark{Sign: string(rune('A' + i)), At: at})
	}
	var got []string
	for _, m := range c.Draw().Moments {
		got = append(got, fmt.Sprintf("%s@%g", m.Sign, m.At))
	}
	if want := "B C D@10 @10 @11 E@30 A@50"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
