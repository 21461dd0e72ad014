package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Limit is the largest growth of a figure that is no regression.
type Limit struct {
	Figure string  // of scenario.Figures
	Share  float64 // 0.05: a twentieth more
}

// Within compares the medians of other with those of base, a baseline that may be of another machine: a figure with a limit
// is worse where it grew by more, or is not measured any more. Where only the baseline lacks it, the verdict is Lacking.
// Figures without a limit inform.
func Within(base, other Set, limits []Limit) *Comparison {
	c := &Comparison{Base: sideOf(base), Other: sideOf(other)}
	x, y := measure(base.Runs), measure(other.Runs)
	decide := 0
	for _, f := range scenario.Figures() {
		before, after := x[f.Name], y[f.Name]
		limit := slices.IndexFunc(limits, func(l Limit) bool { return l.Figure == f.Name })
		if len(before)+len(after) == 0 || limit < 0 && (len(before) == 0 || len(after) == 0) {
			continue
		}
		r := Row{Figure: f.Name, What: f.What, Unit: f.Unit, Kind: f.Kind, Base: summary(before), Other: summary(after), Verdict: Informs}
		if len(before) > 0 && len(after) > 0 {
			r.Change = finite(changeOf(r.Base.Center, r.Other.Center))
		}
		if limit >= 0 {
			decide++
			r.Verdict, r.Allowed = Same, limits[limit].Share
			switch {
			case len(before) == 0:
				r.Verdict = Lacking
			case len(after) == 0 || r.Other.Center > r.Base.Center*(1+r.Allowed):
				r.Verdict = Worse
			}
		}
		c.Rows = append(c.Rows, r)
	}
	order(c.Rows)
	c.entitle(base)
	c.Verdict = []string{fmt.Sprintf("%d of %s that decide are within their limits", decide-len(c.Regressed()), number.Of(decide, "figure"))}
	for _, d := range differences(base, other) {
		if strings.HasPrefix(d, "machine.") {
			c.Differences = append(c.Differences, d)
		}
	}
	return c
}

// Sentence describes a figure above its limit, or one without a measurement.
func (r Row) Sentence() string {
	if r.Verdict == Lacking {
		return fmt.Sprintf("%s (%s) is not in the baseline, and was not compared", r.Figure, r.What)
	}
	if r.Other.N == 0 {
		return fmt.Sprintf("%s (%s) was not measured; the baseline has %s %s", r.Figure, r.What, number.Three(r.Base.Center), r.Unit)
	}
	return fmt.Sprintf("%s (%s) grew by %s, from %s to %s %s; %s are allowed", r.Figure, r.What, number.Percent(r.Change), number.Three(r.Base.Center), number.Three(r.Other.Center), r.Unit, number.Percent(r.Allowed))
}
