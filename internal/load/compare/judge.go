package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

const (
	// confidence that an interval holds the median: five runs reach it with all of them.
	confidence = 0.9
	// alpha is below which chance is no explanation. Five runs against five reach it only
	// where all of one side are above all of the other. There are some thirty figures: with
	// the usual 0.05 one or two of them would differ between any two sets.
	alpha = 0.01
)

// judge compares one figure; first and second are of the base alone.
func judge(f scenario.Figure, base, other, first, second []float64) Row {
	r := Row{Figure: f.Name, What: f.What, Unit: f.Unit, Better: "less", Kind: f.Kind, Base: summary(base), Other: summary(other), Verdict: Untold}
	if f.Least {
		r.Better = "more"
	}
	change := change(r.Base.Center, r.Other.Center)
	if !math.IsInf(change, 0) {
		r.Change = change
	}
	if len(first) > 0 && len(second) > 0 {
		r.Noise = math.Abs(change1(Median(first), Median(second)))
	}
	if least := min(len(base), len(other)); least < Enough {
		r.Why = few(least)
		return r
	}
	r.P = chance(base, other)
	switch {
	case r.P > alpha || math.Abs(change) < f.Grain:
		r.Verdict = Same
	case math.Abs(change) <= r.Noise:
		r.Verdict, r.Why = Noise, "the base differs from itself as much"
	case change > 0 == f.Least:
		r.Verdict = Better
	default:
		r.Verdict = Worse
	}
	return r
}

// few says why there is no verdict.
func few(runs int) string {
	if runs == 1 {
		return fmt.Sprintf("one run: no interval; give at least %d, or --interleave", Enough)
	}
	return fmt.Sprintf("%d runs: no interval; give at least %d, or --interleave", runs, Enough)
}

// summary is the median and its interval, which is made of the order of the values alone:
// nothing is supposed of how they are distributed.
func summary(values []float64) Summary {
	values = slices.Sorted(slices.Values(values))
	s := Summary{Center: Median(values), Low: values[0], High: values[len(values)-1], N: len(values), Values: values}
	if s.N >= Enough {
		ci := stats.QuantileCI(s.N, 0.5, confidence)
		_, s.Low, s.High = ci.SampleCI(stats.Sample{Xs: values, Sorted: true})
		s.Confidence = ci.Confidence
	}
	return s
}

// Median is the middle one, or the mean of the two in the middle.
func Median(values []float64) float64 {
	return stats.Sample{Xs: slices.Sorted(slices.Values(values)), Sorted: true}.Quantile(0.5)
}

// chance is how often two samples of the same would differ as much (Mann-Whitney U). With
// ties the two ends of its distribution are not alike, and the library reckons with the lower
// one: the lower sample has to come first, so that it is the end where they are.
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

// change of a figure as a share of what it was; infinite from nothing to something.
func change(from, to float64) float64 {
	switch {
	case from == to:
		return 0
	case from == 0:
		return math.Inf(int(math.Copysign(1, to)))
	}
	return (to - from) / math.Abs(from)
}

// change1 is a change that can be shown.
func change1(from, to float64) float64 {
	if v := change(from, to); !math.IsInf(v, 0) {
		return v
	}
	return 1
}

// halves takes turns, in the order of time, so that both halves saw the same of the day.
func halves(runs []*report.Report) (first, second []*report.Report) {
	if len(runs) < 4 {
		return nil, nil
	}
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *report.Report) int { return a.Began.Compare(b.Began) })
	for i, r := range runs {
		if i%2 == 0 {
			first = append(first, r)
		} else {
			second = append(second, r)
		}
	}
	return first, second
}

// Figures of the ledger, which no objective is set for: any of them is too much.
const (
	imbalance   = "imbalance"
	wrongAlerts = "wrong-alerts"
	missedTurns = "missed-turns"
)

// ledger is one of them: which kinds of what is wrong it counts.
type ledger struct {
	figure, what string
	of           []string
}

// ledgers are those figures. Every kind of wrong is in one of them.
func ledgers() []ledger {
	return []ledger{
		{imbalance, "results missing, imbalances of the ledger, and results taken that had to be refused", []string{report.WrongResults, report.WrongTaken}},
		{missedTurns, "turns that nobody ran, or that were given again to no purpose", []string{report.WrongTurns}},
		{wrongAlerts, "alerts, messages and lines of the stream that were missing, too many or not as they had to be", []string{report.WrongAlerts, report.WrongSilence, report.WrongMessages, report.WrongLines}},
	}
}

func isLedger(figure string) bool {
	return slices.ContainsFunc(ledgers(), func(l ledger) bool { return l.figure == figure })
}

// wrongs are rows for what was lost, came twice or was made up, in any run, valid or not.
// One result is a regression, and needs no test.
func wrongs(base, other []*report.Report) (list []Row) {
	for _, f := range ledgers() {
		if f.figure == missedTurns && !slices.ContainsFunc(slices.Concat(base, other), func(r *report.Report) bool { return r.Turns != nil }) {
			continue
		}
		each := func(runs []*report.Report) (values []float64) {
			for _, r := range runs {
				values = append(values, float64(r.Wrong().Of(f.of...)))
			}
			return values
		}
		x, y := each(base), each(other)
		if len(x) == 0 || len(y) == 0 {
			continue
		}
		most := func(values []float64) Summary { // one counts, not the middle
			s := summary(values)
			s.Low, s.Center, s.High, s.Confidence = s.Values[0], s.Values[s.N-1], s.Values[s.N-1], 0
			return s
		}
		row := Row{Figure: f.figure, What: f.what, Better: "less", Kind: scenario.Count, Base: most(x), Other: most(y), Verdict: Same}
		switch worst, before := row.Other.Center, row.Base.Center; {
		case worst > 0:
			row.Verdict, row.Why = Worse, fmt.Sprintf("%.0f in one run; one is too many", worst)
		case before > 0:
			row.Verdict, row.Why = Better, fmt.Sprintf("the base has %.0f in one run", before)
		}
		list = append(list, row)
	}
	return list
}

// failedRuns is the figure of runs that failed whatever was asked of them.
const failedRuns = "failed-runs"

// failures are a row for runs in which nothing was lost and no objective was missed, and that failed: good
// results were refused, people were not answered, no step held. They have no other figure: what was
// refused was answered in time. No row: there are none.
func failures(base, other, first, second []*report.Report) []Row {
	each := func(runs []*report.Report) (values []float64) {
		for _, r := range runs {
			values = append(values, 0)
			if failedItself(r) {
				values[len(values)-1] = 1
			}
		}
		return values
	}
	x, y := each(base), each(other)
	if len(x) == 0 || len(y) == 0 || !slices.Contains(slices.Concat(x, y), 1) {
		return nil
	}
	f := scenario.Figure{Name: failedRuns, What: "runs that failed, and missed no objective", Kind: scenario.Relative}
	return []Row{judge(f, x, y, each(first), each(second))}
}

// failedItself says whether a run failed, and no objective says why. What was late is of a phase, and has
// figures.
func failedItself(r *report.Report) bool {
	return r.Stopped == nil && !r.OK() && !r.Lost() && len(r.Late()) == 0 &&
		!slices.ContainsFunc(r.Goals, func(g report.Goal) bool { return !g.Met })
}

// ranks are the verdicts, what matters most first.
func ranks() []Verdict { return []Verdict{Worse, Better, Noise, Untold, Same} }

// order puts first what matters most, and within that what changed most; the rest stays in
// the order of the figures.
func order(rows []Row) {
	rank := func(r Row) int {
		if (isLedger(r.Figure) || r.Gone()) && r.Verdict == Worse {
			return -1
		}
		return slices.Index(ranks(), r.Verdict)
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		if a.Verdict == b.Verdict && (a.Verdict == Worse || a.Verdict == Better) && rank(a) >= 0 && rank(b) >= 0 {
			return cmp.Compare(math.Abs(b.Change), math.Abs(a.Change))
		}
		return cmp.Compare(rank(a), rank(b))
	})
}
