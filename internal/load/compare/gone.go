package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// gone are the figures, by name, that every run of the base has and none of the other, where that
// means that something did not happen any more: agents that were never back, people who were never
// answered. fewer are those that only some of the other's runs have. Whatever was not looked at, or not
// asked for, is none of them.
func gone(base, other Set, x, y map[string][]float64) (all, fewer map[string]bool) {
	all, fewer = map[string]bool{}, map[string]bool{}
	a, b := valid(base.Runs), valid(other.Runs)
	if min(len(a), len(b)) < Enough || len(played(base, other)) > 0 || apart(base, other, system) != "" || slices.ContainsFunc(slices.Concat(a, b), stopped) {
		return all, fewer
	}
	for _, f := range scenario.Figures() {
		switch n := len(y[f.Name]); {
		case len(x[f.Name]) < len(a) || n == len(b) || !had(f, b):
		case n == 0:
			all[f.Name] = true
		default:
			fewer[f.Name] = true
		}
	}
	return all, fewer
}

// without judges a figure that so many runs of the other do not have, and every run of the base: what
// it is of did not come to its end there, which is worse than any value. Left out, the worst runs would
// make the median better.
func (r *Row) without(f scenario.Figure, runs int) {
	worst := math.Inf(1)
	if f.Least {
		worst = math.Inf(-1)
	}
	all := append(slices.Clone(r.Other.Values), slices.Repeat([]float64{worst}, runs)...)
	r.P = chance(r.Base.Values, all)
	r.Why = fmt.Sprintf("not measured in %d of %d runs: what it is of did not come to its end", runs, len(all))
	switch {
	case r.P <= alpha || 2*runs > len(all):
		r.Verdict = Worse
	case r.Verdict != Worse:
		r.Verdict = Same
	}
}

func stopped(r *report.Report) bool { return r.Stopped != nil }

// had says whether what a figure is of had to happen in runs that do not have it. What the scenario
// does brings about the most; an outage, or a turn that another takes over, may be spared.
func had(f scenario.Figure, runs []*report.Report) bool {
	switch f.Needs {
	case "", "turns":
		return false
	case "outage", "restart":
		return slices.ContainsFunc(runs, func(r *report.Report) bool { return len(r.Outages) > 0 })
	}
	return true
}

// notAnyMore is the row of a figure that is gone.
func notAnyMore(f scenario.Figure, base []float64) Row {
	r := Row{Figure: f.Name, What: f.What, Unit: f.Unit, Better: "less", Kind: f.Kind, Base: summary(base), Verdict: Worse, Why: "not measured any more: what it is of did not come to its end"}
	if f.Least {
		r.Better = "more"
	}
	return r
}

// Gone says that only the base has the figure, and that this is worse than any value.
func (r Row) Gone() bool { return r.Base.N > 0 && r.Other.N == 0 }
