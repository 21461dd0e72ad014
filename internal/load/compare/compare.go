package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Enough is how many runs a side needs for an interval and a verdict.
const Enough = 5

// Set is one side: runs of the same scenario with the same build.
type Set struct {
	Name string
	Runs []*report.Report
}

// Verdict is what a figure came to.
type Verdict string

// The verdicts.
const (
	Worse  Verdict = "worse"
	Better Verdict = "better"
	Same   Verdict = "same"   // what differs may be chance, or is too small to matter
	Noise  Verdict = "noise"  // it differs, and the base differs from itself as much
	Untold Verdict = "untold" // too few runs
)

// Comparison is one set beside another.
type Comparison struct {
	Scenario    string   `json:"scenario,omitempty"`
	Base        Side     `json:"base"`
	Other       Side     `json:"other"`
	Differences []string `json:"differences,omitempty"` // what makes the comparison doubtful, in sentences
	Rows        []Row    `json:"rows"`                  // regressions first
	Verdict     []string `json:"verdict"`               // in sentences
}

// Side is what was on one side.
type Side struct {
	Name    string   `json:"name"`
	Builds  []string `json:"builds,omitempty"`  // of the server under test
	Runs    int      `json:"runs"`              // whose figures count
	Invalid int      `json:"invalid,omitempty"` // whose generator fell behind: they are left out
	Failed  int      `json:"failed,omitempty"`  // of those that count: an objective was missed, or worse
	Stopped int      `json:"stopped,omitempty"` // of those that count: somebody ended them early, and nothing else was wrong
	Why     string   `json:"why,omitempty"`     // of the first that failed, or else was stopped
}

// Row is one figure of both.
type Row struct {
	Figure  string        `json:"figure"`
	What    string        `json:"what"`
	Unit    string        `json:"unit,omitempty"`
	Better  string        `json:"better"` // less, or more
	Kind    scenario.Kind `json:"kind"`
	Base    Summary       `json:"base"`
	Other   Summary       `json:"other"`
	Change  float64       `json:"change"`          // of the medians: 0.1 is a tenth more; 0 too where the base's is 0
	P       float64       `json:"p,omitempty"`     // how often chance alone would show as much, if both sides were alike
	Noise   float64       `json:"noise,omitempty"` // by how much the base differs from itself, as Change, without a sign
	Verdict Verdict       `json:"verdict"`
	Why     string        `json:"why,omitempty"`   // of a verdict that the test did not give
	Limit   float64       `json:"limit,omitempty"` // of the objective, where the runs had one
	Missed  [2]int        `json:"missed,omitzero"` // by so many runs of the base, and of the other
}

// Summary is one figure of one side.
type Summary struct {
	Center     float64   `json:"center"`               // the median; of what the ledger found the greatest
	Low        float64   `json:"low"`                  // of the interval that holds the median of all such runs; with too few runs the least and the greatest
	High       float64   `json:"high"`                 // …
	Confidence float64   `json:"confidence,omitempty"` // that it does; 0: too few runs, no interval
	N          int       `json:"runs"`
	Values     []float64 `json:"values"` // of each run, ascending
}

// Compare compares other with base. The base's own runs, where there are four, show in two halves how much it differs
// from itself. Reports are not changed.
func Compare(base, other Set) *Comparison {
	c := &Comparison{Scenario: name(base), Base: side(base), Other: side(other), Differences: differences(base, other)}
	a, b := valid(base.Runs), valid(other.Runs)
	first, second := halves(a)
	c.Rows = append(c.Rows, wrongs(base.Runs, other.Runs)...)
	c.Rows = append(c.Rows, failures(a, b, first, second)...)
	x, y, one, two := measure(a), measure(b), measure(first), measure(second)
	lost, fewer := gone(base, other, x, y)
	for _, f := range scenario.Figures() {
		var r Row
		switch n := f.Name; {
		case lost[n]:
			r = notAnyMore(f, x[n])
			delete(x, n) // it is told
		case len(x[n]) > 0 && len(y[n]) > 0:
			if r = judge(f, x[n], y[n], one[n], two[n]); fewer[n] {
				r.without(f, len(b)-len(y[n]))
			}
		default:
			continue
		}
		r.objective(a, b)
		c.Rows = append(c.Rows, r)
	}
	c.Differences = append(c.Differences, missing(base.Name, x, y)...)
	c.Differences = append(c.Differences, missing(other.Name, y, x)...)
	order(c.Rows)
	c.Verdict = c.sentences()
	return c
}

// objective tells what was asked of the figure, and who missed it.
func (r *Row) objective(sides ...[]*report.Report) {
	for i, runs := range sides {
		for _, run := range runs {
			for _, g := range run.Goals {
				if g.Name != r.Figure || g.Phase != "" {
					continue
				}
				r.Limit = cmp.Or(r.Limit, g.Want)
				if !g.Met {
					r.Missed[i]++
				}
			}
		}
	}
}

// Lost says whether the row is of what the ledger found: lost, twice, made up, a wrong alert.
func (r Row) Lost() bool { return isLedger(r.Figure) }

// Regressed are the rows that are worse, of these kinds; of none named: of all. What the
// ledger found is of every kind, and so is a figure that is gone.
func (c *Comparison) Regressed(kinds ...scenario.Kind) (list []Row) {
	for _, r := range c.Rows {
		if r.Verdict == Worse && (len(kinds) == 0 || isLedger(r.Figure) || r.Gone() || slices.Contains(kinds, r.Kind)) {
			list = append(list, r)
		}
	}
	return list
}

// valid are the runs whose figures count.
func valid(runs []*report.Report) (list []*report.Report) {
	for _, r := range runs {
		if r.Valid {
			list = append(list, r)
		}
	}
	return list
}

func side(s Set) Side {
	out := Side{Name: s.Name, Builds: unique(s.Runs, build)}
	for _, r := range s.Runs {
		switch {
		case !r.Valid:
			out.Invalid++
		case r.OnlyStopped():
			if out.Runs, out.Stopped = out.Runs+1, out.Stopped+1; out.Why == "" {
				out.Why = r.Stopped.Sentence()
			}
		case !r.OK():
			if out.Runs, out.Failed = out.Runs+1, out.Failed+1; out.Failed == 1 && len(r.Verdict) > 0 {
				out.Why = r.Verdict[0]
			}
		default:
			out.Runs++
		}
	}
	return out
}

// measure is each figure of those runs that have it.
func measure(runs []*report.Report) map[string][]float64 {
	all := map[string][]float64{}
	for _, r := range runs {
		for name, v := range r.Figures() {
			all[name] = append(all[name], v)
		}
	}
	return all
}

// name is the scenario's.
func name(s Set) string {
	if len(s.Runs) == 0 {
		return ""
	}
	return Title(s.Runs[0])
}

// Title names what a run played, for headings.
func Title(r *report.Report) string {
	switch {
	case r.Stopped != nil && r.Scenario != nil && r.Scenario.Name != "":
		return r.Scenario.Name + ", " + r.Stopped.String()
	case r.Scenario != nil && r.Scenario.Name != "":
		if label := r.Scenario.Label(); label != "" {
			return r.Scenario.Name + " (" + label + ")"
		}
		return r.Scenario.Name
	case r.Title != "":
		return r.Title
	}
	return fmt.Sprintf("%d agents × %d checks", r.Plan.Agents, r.Plan.Checks)
}
