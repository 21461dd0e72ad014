package gate

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Text shows runs beside the baseline, as benchstat would: first the figures that decide,
// with what is allowed, then those that only inform. ± is how far several runs are apart.
func Text(base, runs []*report.Report) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  figure\tbaseline\tnow\tchange\tallowed\tis\n")
	limits := map[string]Limit{}
	for _, l := range Limits() {
		limits[l.Figure] = l
	}
	for _, decides := range []bool{true, false} {
		for _, f := range scenario.Figures() {
			l, ok := limits[f.Name]
			was, before := median(f.Name, base)
			is, now := median(f.Name, runs)
			if ok != decides || !before && !now {
				continue
			}
			change, allowed := "–", "informs"
			if before && now && was != 0 {
				change = fmt.Sprintf("%+.1f %%", 100*(is/was-1))
			}
			switch {
			case ok && !before && len(base) > 0:
				allowed = "not in the baseline"
			case ok:
				allowed = "+" + share(l.Share) + " %"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s, %s\n", f.Name, center(f.Name, base), center(f.Name, runs), change, allowed, f.What, f.Unit)
		}
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// center is the median, with the spread of several runs.
func center(figure string, runs []*report.Report) string {
	v, ok := median(figure, runs)
	switch {
	case !ok:
		return "–"
	case len(runs) == 1:
		return number(v)
	}
	return fmt.Sprintf("%s ± %s %%", number(v), share(Spread(figure, runs)/2))
}

// Wide are the figures of a baseline that are further apart than half of what is allowed: a
// check beside it may fail by chance.
func Wide(runs []*report.Report) (list []string) {
	for _, l := range Limits() {
		if s := Spread(l.Figure, runs); s > l.Share/2 {
			list = append(list, fmt.Sprintf("%s: the runs are %s %% apart, and %s %% more are allowed", l.Figure, share(s), share(l.Share)))
		}
	}
	return list
}
