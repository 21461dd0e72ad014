package page

import (
	"bufio"
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/page/chart"
)

//go:embed comparison.html
var comparison string

// comparisonView is the page of a comparison in finished words.
type comparisonView struct {
	Title  string
	Blocks []block
	Policy string
	Style  template.CSS
}

// block is one set beside another.
type block struct {
	ID, Scenario      string
	State, Sign, Word string // passed, failed, invalid: classes of the style sheet
	Verdict, Doubts   []string
	Tables            []table
	Lists             []figureList
	Values            []table
}

// figureList are figures of one verdict.
type figureList struct {
	Title       string
	Folded      bool
	Base, Other string // whose the two rows of each drawing are
	Tone        string
	Ticks       []chart.Label
	Rows        []figureRow
}

type figureRow struct {
	State, Sign, Word string
	Name, What, Kind  string
	Base, Other       string
	Change, Note      string
	Drawing           *chart.ForestRow
}

// WriteComparison writes comparisons as one HTML file, as Write does with a report.
func WriteComparison(w io.Writer, list []*compare.Comparison) error {
	set, err := template.New("page").Parse(source)
	for _, more := range []string{chart.Template(), comparison} {
		if err == nil {
			_, err = set.Parse(more)
		}
	}
	if err != nil {
		return fmt.Errorf("BUG: the template of the comparison: %w", err)
	}
	v := comparisonView{Policy: "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'", Style: template.CSS(style)}
	var names []string
	for i, c := range list {
		v.Blocks = append(v.Blocks, newBlock("comparison-"+strconv.Itoa(i+1), c))
		if name := c.Other.Name + " beside " + c.Base.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	v.Title = strings.Join(names, ", ")
	out := bufio.NewWriter(w)
	if err := set.ExecuteTemplate(out, "comparison", v); err != nil {
		return fmt.Errorf("write the page of the comparison: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the page of the comparison: %w", err)
	}
	return nil
}

func newBlock(id string, c *compare.Comparison) block {
	b := block{ID: id, Scenario: c.Scenario, Verdict: c.Verdict, Doubts: c.Differences, State: "passed", Sign: "✓", Word: "No regression"}
	switch {
	case len(c.Regressed()) > 0:
		b.State, b.Sign, b.Word = "failed", "✕", "Regression"
	case min(c.Base.Runs, c.Other.Runs) < compare.Enough:
		b.State, b.Sign, b.Word = "invalid", "?", "No verdict"
	}
	b.Tables = sidesTable(c).list()
	f := chart.NewForest(reach(c.Rows))
	for _, kind := range [...]struct {
		verdict                  compare.Verdict
		title, state, sign, tone string
		folded                   bool
	}{
		{compare.Worse, "Worse", "missed", "✕", "bad", false},
		{compare.Better, "Better", "reached", "✓", "ok", false},
		{compare.Noise, "Noise: the base shows as much beside itself", "open", "≈", "doubt", false},
		{compare.Untold, "Too few runs to tell", "open", "?", "blue", false},
		{compare.Same, "The same", "open", "=", "blue", true},
	} {
		l := figureList{Title: kind.title, Folded: kind.folded, Base: c.Base.Name, Other: c.Other.Name, Tone: kind.tone, Ticks: f.Ticks()}
		for _, r := range c.Rows {
			if r.Verdict == kind.verdict {
				l.Rows = append(l.Rows, newFigureRow(f, c, r, kind.state, kind.sign, kind.tone))
			}
		}
		if len(l.Rows) > 0 {
			b.Lists = append(b.Lists, l)
		}
	}
	b.Values = valuesTable(c).list()
	return b
}

func newFigureRow(f chart.Forest, c *compare.Comparison, r compare.Row, state, sign, tone string) figureRow {
	out := figureRow{State: state, Sign: sign, Word: string(r.Verdict), Name: r.Figure, What: r.Whole(), Kind: string(r.Kind), Note: r.Why,
		Base: r.Base.Text(r.Unit), Other: r.Other.Text(r.Unit), Change: strings.Replace(r.Changed(), "-", "−", 1)}
	if r.Verdict == compare.Untold {
		out.Note = "" // the heading says it
	}
	if asked := r.Asked(); asked != "" {
		out.Note = strings.TrimPrefix(out.Note+"; asked: "+asked, "; ")
	}
	if middle := r.Base.Center; middle != 0 && r.Base.N > 0 && !r.Gone() {
		summary := fmt.Sprintf("%s: %s %s (%s to %s), %s %s (%s to %s)", r.Figure, c.Base.Name, out.Base, figures(r.Base.Low), figures(r.Base.High),
			c.Other.Name, out.Other, figures(r.Other.Low), figures(r.Other.High))
		d := f.Draw(sample(r.Base, middle), sample(r.Other, middle), tone, summary)
		out.Drawing = &d
	}
	return out
}

// sample is a summary as changes from the middle of the base.
func sample(s compare.Summary, middle float64) chart.Sample {
	of := func(v float64) float64 { return (v - middle) / math.Abs(middle) }
	out := chart.Sample{At: of(s.Center), From: of(s.Center), To: of(s.Center)}
	if s.Confidence > 0 {
		out.From, out.To = of(s.Low), of(s.High)
	}
	if s.N > 1 {
		for _, v := range s.Values {
			out.Values = append(out.Values, of(v))
		}
	}
	return out
}

// reach is the largest change that has to be shown.
func reach(rows []compare.Row) (most float64) {
	most = 0.1
	for _, r := range rows {
		if r.Base.Center == 0 {
			continue
		}
		for _, v := range slices.Concat(r.Base.Values, r.Other.Values) {
			most = max(most, math.Abs(v-r.Base.Center)/math.Abs(r.Base.Center))
		}
	}
	return most
}

func sidesTable(c *compare.Comparison) table {
	t := newTable("", "", "'build of the server", "runs", "left out", "failed", "stopped", "'why")
	add := func(what string, s compare.Side) {
		none := func(n int) string {
			if n == 0 {
				return "–"
			}
			return strconv.Itoa(n)
		}
		t.add(s.Name+what, strings.Join(s.Builds, ", "), strconv.Itoa(s.Runs), none(s.Invalid), none(s.Failed), none(s.Stopped), s.Why)
	}
	add(" (base)", c.Base)
	add("", c.Other)
	if c.Control != nil {
		add(" (control)", *c.Control)
	}
	return t
}

// valuesTable is all that was compared.
func valuesTable(c *compare.Comparison) table {
	t := newTable("", "", "'"+c.Base.Name, "'"+c.Other.Name, "chance", "base beside itself", "verdict")
	all := func(s compare.Summary, unit string) string {
		var words []string
		for _, v := range s.Values {
			words = append(words, figures(v))
		}
		return strings.TrimSpace(strings.Join(words, " · ") + " " + unit)
	}
	for _, r := range c.Rows {
		chance, noise := "–", "–"
		if r.P > 0 {
			chance = figures(r.P)
		}
		if r.Noise > 0 {
			noise = percent(r.Noise)
		}
		t.add(r.Figure, all(r.Base, r.Unit), all(r.Other, ""), chance, noise, string(r.Verdict))
	}
	return t
}
