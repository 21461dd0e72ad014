// Package compare finds the figures that differ between runs of a load test by more than chance. Reports go in, a
// Comparison comes out; nothing is started and nothing is kept.
//
// A side of a comparison is a Set: several runs of one scenario with one build. The medians of each figure
// (scenario.Figures) are compared with the Mann-Whitney test. Other machines, settings or scenarios make a comparison doubtful: Differences names them, and changes no figure.
//
// Start reading at Compare, then judge.go.
package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Enough is the number of runs that a side needs for an interval and a verdict.
const Enough = 5

// Set is one side of a comparison: runs of the same scenario with the same build.
type Set struct {
	Name string
	Runs []*report.Report
}

// Verdict is the result of comparing one figure.
type Verdict string

// The verdicts.
const (
	Worse   Verdict = "worse"
	Better  Verdict = "better"
	Same    Verdict = "same"    // the difference may be chance, is too small to matter, or within the limit
	Untold  Verdict = "untold"  // too few runs
	Informs Verdict = "informs" // a figure without a limit, see Within
	Lacking Verdict = "lacking" // a figure with a limit that the baseline has not, see Within
)

// Comparison compares the figures of two sets of runs.
type Comparison struct {
	Scenario    string   `json:"scenario,omitempty"`
	Base        Side     `json:"base"`
	Other       Side     `json:"other"`
	Differences []string `json:"differences,omitempty"` // reasons to doubt the comparison
	Rows        []Row    `json:"rows"`                  // regressions first
	Verdict     []string `json:"verdict"`               // in sentences
}

// Side counts the runs of one side.
type Side struct {
	Name    string   `json:"name"`
	Builds  []string `json:"builds,omitempty"`  // of the server under test
	Runs    int      `json:"runs"`              // whose figures count
	Invalid int      `json:"invalid,omitempty"` // left out: their generator fell behind
	Failed  int      `json:"failed,omitempty"`  // of Runs: an objective was missed, or worse
	Why     string   `json:"why,omitempty"`     // of the first that failed
}

// Row is one figure of both sides.
type Row struct {
	Figure  string        `json:"figure"`
	What    string        `json:"what"`
	Unit    string        `json:"unit,omitempty"`
	Better  string        `json:"better"` // less, or more
	Kind    scenario.Kind `json:"kind"`
	Base    Summary       `json:"base"`
	Other   Summary       `json:"other"`
	Change  float64       `json:"change"`      // of the medians: 0.1 is a tenth more; 0 where the base's is 0
	P       float64       `json:"p,omitempty"` // probability of such a difference between two equal sides
	Verdict Verdict       `json:"verdict"`
	Why     string        `json:"why,omitempty"`     // of a verdict that the test did not give
	Allowed float64       `json:"allowed,omitempty"` // the largest change that Within allows, as a share
}

// Summary is one figure of one side.
type Summary struct {
	Center     float64   `json:"center"`               // the median; of a figure of the ledger the greatest
	Low        float64   `json:"low"`                  // interval of the median; with too few runs the least value
	High       float64   `json:"high"`                 // likewise, the greatest
	Confidence float64   `json:"confidence,omitempty"` // of the interval; 0: too few runs, no interval
	N          int       `json:"runs"`
	Values     []float64 `json:"values"` // of each run, ascending
}

// Compare compares other with base. Reports are not changed.
func Compare(base, other Set) *Comparison {
	c := &Comparison{Base: sideOf(base), Other: sideOf(other), Differences: differences(base, other)}
	x, y := measure(base.Runs), measure(other.Runs)
	lacks := map[string][]string{}
	for _, f := range slices.Concat(wrongs(), scenario.Figures(), []scenario.Figure{failedRuns}) {
		switch before, after := x[f.Name], y[f.Name]; {
		case len(before) > 0 && len(after) > 0 && wrongKinds[f.Name] != nil:
			c.Rows = append(c.Rows, judgeWrong(f, before, after))
		case len(before) > 0 && len(after) > 0:
			if f.Name != failedRuns.Name || slices.Max(slices.Concat(before, after)) > 0 {
				c.Rows = append(c.Rows, judge(f, before, after))
			}
		case c.Base.Runs == 0 || c.Other.Runs == 0:
		case len(after) > 0:
			lacks[base.Name] = append(lacks[base.Name], f.Name)
		case len(before) > 0:
			lacks[other.Name] = append(lacks[other.Name], f.Name)
		}
	}
	for _, name := range slices.Compact([]string{base.Name, other.Name}) {
		if len(lacks[name]) > 0 {
			c.Differences = append(c.Differences, fmt.Sprintf("not measured in %s, and left out: %s", name, strings.Join(lacks[name], ", ")))
		}
	}
	order(c.Rows)
	c.entitle(base)
	c.Verdict = c.sentences()
	return c
}

// entitle sets the title of the comparison, and the units of runs of values or directives.
func (c *Comparison) entitle(base Set) {
	if len(base.Runs) == 0 {
		return
	}
	c.Scenario = Title(base.Runs[0])
	for i := range c.Rows {
		r := &c.Rows[i]
		r.What, r.Unit = base.Runs[0].InUnit(r.What), base.Runs[0].InUnit(r.Unit)
	}
}

// Lost reports whether the row counts losses: lost, doubled or invented results, wrong alerts.
func (r Row) Lost() bool { return wrongKinds[r.Figure] != nil }

// Regressed returns the rows of these kinds that are worse or lacking, or of all kinds if none is given. Losses and failed runs
// are of every kind.
func (c *Comparison) Regressed(kinds ...scenario.Kind) (list []Row) {
	for _, r := range c.Rows {
		asked := len(kinds) == 0 || r.Lost() || r.Figure == failedRuns.Name || slices.Contains(kinds, r.Kind)
		if asked && (r.Verdict == Worse || r.Verdict == Lacking) {
			list = append(list, r)
		}
	}
	return list
}

// sideOf counts the runs of a side.
func sideOf(s Set) Side {
	out := Side{Name: s.Name, Builds: unique(s.Runs, build)}
	for _, r := range s.Runs {
		switch {
		case !r.Valid:
			out.Invalid++
			continue
		case !r.OK() && !r.OnlyStopped():
			if out.Failed++; out.Failed == 1 && len(r.Verdict) > 0 {
				out.Why = r.Verdict[0]
			}
		}
		out.Runs++
	}
	return out
}

// failedRuns counts runs that failed. A run whose agents never came back has no figure of their return.
var failedRuns = scenario.Figure{Name: "failed-runs", What: "runs that failed", Kind: scenario.Relative}

// wrongs returns the counts of wrong results and alerts, which have no objective: any of them is too much.
func wrongs() []scenario.Figure {
	return []scenario.Figure{
		{Name: "imbalance", Kind: scenario.Count,
			What: "results missing, imbalances of the ledger, and results taken that had to be refused"},
		{Name: "missed-turns", What: "turns that no agent ran, or that were given twice", Kind: scenario.Count},
		{Name: "wrong-alerts", What: "alerts, messages and stream lines that were missing, too many or wrong", Kind: scenario.Count},
	}
}

// wrongKinds are the kinds of report.Wrong that the figures of wrongs count: together every kind.
var wrongKinds = map[string][]string{
	"imbalance":    {report.WrongResults, report.WrongTaken, report.WrongSignals},
	"missed-turns": {report.WrongTurns},
	"wrong-alerts": {report.WrongAlerts, report.WrongSilence, report.WrongMessages, report.WrongLines},
}

// measure returns the values of each figure: counts of wrong results from all runs, others from the valid runs that have them.
func measure(runs []*report.Report) map[string][]float64 {
	all := map[string][]float64{}
	add := func(name string, v float64) { all[name] = append(all[name], v) }
	for _, r := range runs {
		for name, kinds := range wrongKinds {
			add(name, float64(r.Wrong().Of(kinds...)))
		}
		if !r.Valid {
			continue
		}
		for name, v := range r.Figures() {
			add(name, v)
		}
		failed := 0.0
		if !r.OK() && !r.OnlyStopped() {
			failed = 1
		}
		add(failedRuns.Name, failed)
	}
	return all
}

// Title names the scenario of a run, for headings.
func Title(r *report.Report) string {
	switch {
	case r.Scenario == nil:
		return r.Title
	case r.Stopped != nil:
		return r.Scenario.Name + ", " + r.Stopped.String()
	case r.Scenario.Label() != "":
		return r.Scenario.Name + " (" + r.Scenario.Label() + ")"
	}
	return r.Scenario.Name
}

// sentences returns the verdict, the most important first.
func (c *Comparison) sentences() (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	by := map[Verdict][]Row{}
	for _, r := range c.Rows {
		by[r.Verdict] = append(by[r.Verdict], r)
	}
	figures := number.Of(len(c.Rows), "figure")
	switch least := min(c.Base.Runs, c.Other.Runs); {
	case len(c.Rows) == 0 || least == 0:
		say("Nothing to compare: no figure was measured on both sides.")
	case len(by[Worse]) > 0:
		say("Regression in %s: %s; %d of %s.", c.Other.Name, changes(by[Worse]), len(by[Worse]), figures)
	case least < Enough:
		say("No verdict: %s of %s beside %s of %s; give at least %d of each, or --interleave.", number.Of(c.Base.Runs, "run"), c.Base.Name, number.Of(c.Other.Runs, "run"), c.Other.Name, Enough)
	default:
		say("No regression: none of %s is worse in %s.", figures, c.Other.Name)
	}
	if len(by[Better]) > 0 {
		say("Better: %s.", changes(by[Better]))
	}
	for _, s := range []Side{c.Base, c.Other} {
		if s.Failed > 0 {
			say("%s", strings.TrimSuffix(fmt.Sprintf("%s of %s failed: %s", number.Of(s.Failed, "run"), s.Name, s.Why), ": "))
		}
	}
	return list
}

// changes names the first three of rows.
func changes(rows []Row) string {
	var words []string
	for _, r := range rows[:min(3, len(rows))] {
		words = append(words, r.Figure+" "+r.Changed())
	}
	if more := len(rows) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// Changed returns the change for people: +12 %.
func (r Row) Changed() string {
	switch {
	case r.Lost() && r.Verdict == Same, r.Verdict == Lacking:
		return "–"
	case r.Lost():
		return fmt.Sprintf("%.0f → %.0f", r.Base.Center, r.Other.Center)
	case r.Base.Center == 0 && r.Other.Center != 0:
		return "from 0"
	case math.Abs(r.Change) < 0.0005:
		return "0 %"
	case math.Abs(r.Change) < 0.1:
		return fmt.Sprintf("%+.1f %%", 100*r.Change)
	}
	return fmt.Sprintf("%+.0f %%", 100*r.Change)
}
