package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Excess is a figure that is above what the baseline allows.
type Excess struct {
	Figure scenario.Figure
	Limit  Limit
	Was    float64 // median of the baseline's runs
	Is     float64 // of the runs beside it; NaN: none of them has it
}

// String says it in a sentence without a subject.
func (e Excess) String() string {
	f := e.Figure
	if math.IsNaN(e.Is) {
		return fmt.Sprintf("%s (%s) was not measured; the baseline has %s %s", f.Name, f.What, number(e.Was), f.Unit)
	}
	return fmt.Sprintf("%s (%s) grew by %s %%, from %s to %s %s; %s %% are allowed", f.Name, f.What, share(e.Is/e.Was-1), number(e.Was), number(e.Is), f.Unit, share(e.Limit.Share))
}

// Judge compares the medians of runs with those of the baseline's. What the baseline did not
// measure is not judged, which Text says; Write makes no such baseline.
func Judge(base, runs []*report.Report) (list []Excess) {
	for _, l := range Limits() {
		f, _ := scenario.FigureOf(l.Figure)
		was, ok := median(f.Name, base)
		if !ok {
			continue
		}
		is, ok := median(f.Name, runs)
		if !ok {
			is = math.NaN()
		}
		if !(is <= was*(1+l.Share)) {
			list = append(list, Excess{f, l, was, is})
		}
	}
	return list
}

// measured is the figure of each run that has it, ascending.
func measured(figure string, runs []*report.Report) (values []float64) {
	for _, r := range runs {
		if v, ok := r.Figures()[figure]; ok {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// median is that of the runs that have the figure; false: none has.
func median(figure string, runs []*report.Report) (float64, bool) {
	values := measured(figure, runs)
	if len(values) == 0 {
		return 0, false
	}
	return compare.Median(values), true
}

// Spread is how far the runs are apart at most, as a share of their median.
func Spread(figure string, runs []*report.Report) float64 {
	values := measured(figure, runs)
	if m, ok := median(figure, runs); ok && m != 0 {
		return (values[len(values)-1] - values[0]) / m
	}
	return 0
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// share is one in %, without a unit.
func share(v float64) string { return strconv.FormatFloat(math.Round(1000*v)/10, 'f', -1, 64) }
