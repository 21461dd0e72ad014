package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aclements/go-moremath/stats"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

const (
	// confidence that an interval holds the median: five runs reach it with all of them.
	confidence = 0.9
	// alpha is the probability below which chance is no explanation. Five runs against five reach it only where all of
	// one side are above all of the other. With the usual 0.05 one or two of some thirty figures would differ between
	// any two sets.
	alpha = 0.01
)

// judge compares one figure.
func judge(f scenario.Figure, base, other []float64) Row {
	r := Row{Figure: f.Name, What: f.What, Unit: f.Unit, Better: "less", Kind: f.Kind, Base: summary(base), Other: summary(other), Verdict: Untold}
	if f.Least {
		r.Better = "more"
	}
	change := changeOf(r.Base.Center, r.Other.Center)
	r.Change = finite(change)
	if least := min(len(base), len(other)); least < Enough {
		r.Why = fmt.Sprintf("%s: no interval; give at least %d, or --interleave", number.Of(least, "run"), Enough)
		return r
	}
	r.P = chance(base, other)
	switch {
	case r.P > alpha || math.Abs(change) < f.Grain:
		r.Verdict = Same
	case change > 0 == f.Least:
		r.Verdict = Better
	default:
		r.Verdict = Worse
	}
	return r
}

// summary returns the median and its interval. The interval is made of the order of the values alone, and supposes
// nothing of their distribution.
func summary(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	values = slices.Sorted(slices.Values(values))
	s := Summary{Center: median(values), Low: values[0], High: values[len(values)-1], N: len(values), Values: values}
	if s.N >= Enough {
		ci := stats.QuantileCI(s.N, 0.5, confidence)
		_, s.Low, s.High = ci.SampleCI(stats.Sample{Xs: values, Sorted: true})
		s.Confidence = ci.Confidence
	}
	return s
}

// median returns the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	return stats.Sample{Xs: slices.Sorted(slices.Values(values)), Sorted: true}.Quantile(0.5)
}

// chance returns the probability that two samples of the same would differ as much (Mann-Whitney U). With ties the
// distribution is not symmetric, and the library uses its lower end, so the lower sample must come first.
func chance(a, b []float64) float64 {
	res, err := stats.MannWhitneyUTest(a, b, stats.LocationDiffers)
	if err == nil && 2*res.U > float64(len(a)*len(b)) {
		res, err = stats.MannWhitneyUTest(b, a, stats.LocationDiffers)
	}
	if err != nil {
		return 1 // all values are equal
	}
	return res.P
}

// changeOf returns the change of a figure as a share of its former value; infinite from nothing to something.
func changeOf(from, to float64) float64 {
	switch {
	case from == to:
		return 0
	case from == 0:
		return math.Inf(int(math.Copysign(1, to)))
	}
	return (to - from) / math.Abs(from)
}

// finite returns a change that can be encoded as JSON: 0 for an infinite one.
func finite(change float64) float64 {
	if math.IsInf(change, 0) {
		return 0
	}
	return change
}

// judgeWrong compares a count of wrong results in all runs, valid or not. One is a regression, and needs no test.
func judgeWrong(f scenario.Figure, base, other []float64) Row {
	greatest := func(values []float64) Summary {
		s := summary(values)
		s.Low, s.Center, s.High, s.Confidence = s.Values[0], s.Values[s.N-1], s.Values[s.N-1], 0
		return s
	}
	r := Row{Figure: f.Name, What: f.What, Better: "less", Kind: f.Kind, Base: greatest(base), Other: greatest(other), Verdict: Same}
	switch {
	case r.Other.Center > 0:
		r.Verdict = Worse
	case r.Base.Center > 0:
		r.Verdict = Better
	}
	return r
}

// order sorts by verdict, losses first, and within a verdict by change.
func order(rows []Row) {
	verdicts := []Verdict{Worse, Lacking, Better, Untold, Same, Informs}
	rank := func(r Row) int {
		if r.Lost() && r.Verdict == Worse {
			return -1
		}
		return slices.Index(verdicts, r.Verdict)
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		if a.Verdict == b.Verdict && (a.Verdict == Worse || a.Verdict == Better) && rank(a) >= 0 && rank(b) >= 0 {
			return cmp.Compare(math.Abs(b.Change), math.Abs(a.Change))
		}
		return cmp.Compare(rank(a), rank(b))
	})
}

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
