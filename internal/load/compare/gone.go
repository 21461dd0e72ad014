package compare

import (
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// gone are the figures, by name, that every run of the base has and none of the other, where that
// means that something did not happen any more: agents that were never back, people who were never
// answered. Whatever was not looked at, or not asked for, is none of them.
func gone(base, other Set, x, y map[string][]float64) map[string]bool {
	list := map[string]bool{}
	a, b := valid(base.Runs), valid(other.Runs)
	if min(len(a), len(b)) < Enough || len(played(base, other)) > 0 || apart(base, other, system) != "" || slices.ContainsFunc(slices.Concat(a, b), stopped) {
		return list
	}
	for _, f := range scenario.Figures() {
		if len(x[f.Name]) == len(a) && len(y[f.Name]) == 0 && had(f, b) {
			list[f.Name] = true
		}
	}
	return list
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
	case "pages":
		return slices.ContainsFunc(runs, func(r *report.Report) bool { return len(r.Pages) > 0 })
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
