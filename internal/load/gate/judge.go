// Package gate is the release check: it compares the cost of runs with that of a baseline. Only figures that are nearly
// the same on every machine decide, see Limits; times inform.
//
// `muster load check` plays the runs. scenarios.go has the scenarios, baseline.go the baseline. Start reading at Judge.
package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Limit is the largest growth of a figure.
type Limit struct {
	Figure string  // of scenario.Figures
	Share  float64 // 0.05: a twentieth more
}

// Limits returns the limits of all figures that decide. Each is larger than the differences between runs of one build
// on a busy machine (bench/README.md has the figures). Other figures only inform: disk-bytes are whole pages of the
// file system, memory depends on the last run of the garbage collector, times on the machine.
func Limits() []Limit {
	return []Limit{
		{"allocs", 0.05},        // the seed decides the timetable; commits, pages and periodic work vary
		{"alloc-bytes", 0.15},   // as allocs, and buffers grow with the largest frame or commit: 7 % at 80 results/s
		{"wire-bytes", 0.03},    // a late sender changes the frames
		{"journal-bytes", 0.05}, // a commit has a head, and compresses as one: a slower disk makes fewer and larger ones
		{"fsyncs", 0.10},        // the journal gathers for 20 ms: at most 50 a second on any disk
		{"reads", 0.10},         // two for a frame that comes alone, fewer on a busy machine
		{"writes", 0.10},        // acknowledgements follow commits: as fsyncs
		{"cpu-ratio", 0.25},     // server and loader share the machine, but not the mix of work
	}
}

// Excess is a figure above its limit.
type Excess struct {
	Figure scenario.Figure
	Limit  Limit
	Was    float64 // median of the baseline's runs
	Is     float64 // median of the runs; NaN: none of them has it
}

// String describes the excess in a sentence.
func (e Excess) String() string {
	f := e.Figure
	if math.IsNaN(e.Is) {
		return fmt.Sprintf("%s (%s) was not measured; the baseline has %s %s", f.Name, f.What, number(e.Was), f.Unit)
	}
	return fmt.Sprintf("%s (%s) grew by %s %%, from %s to %s %s; %s %% are allowed", f.Name, f.What, percent(e.Is/e.Was-1), number(e.Was), number(e.Is), f.Unit, percent(e.Limit.Share))
}

// Judge compares the medians of runs with those of the baseline, for all figures that the baseline has.
func Judge(base, runs []*report.Report) (list []Excess) {
	for _, l := range Limits() {
		f, _ := scenario.FigureOf(l.Figure)
		was, is := median(f.Name, base), median(f.Name, runs)
		if !math.IsNaN(was) && !(is <= was*(1+l.Share)) {
			list = append(list, Excess{f, l, was, is})
		}
	}
	return list
}

// measured returns the values of a figure in the runs that have it, ascending.
func measured(figure string, runs []*report.Report) (values []float64) {
	for _, r := range runs {
		if v, ok := r.Figures()[figure]; ok {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// median returns the median of a figure over the runs that have it, or NaN.
func median(figure string, runs []*report.Report) float64 {
	if values := measured(figure, runs); len(values) > 0 {
		return compare.Median(values)
	}
	return math.NaN()
}

// spread returns the range of a figure over the runs, as a share of the median.
func spread(figure string, runs []*report.Report) float64 {
	values := measured(figure, runs)
	if m := median(figure, runs); m != 0 && len(values) > 0 {
		return (values[len(values)-1] - values[0]) / m
	}
	return 0
}

func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// percent formats a share in percent, without the sign.
func percent(v float64) string { return strconv.FormatFloat(math.Round(1000*v)/10, 'f', -1, 64) }

// Starved returns a sentence for each pair of pipelines of which one starved the other in more than half of the runs.
func Starved(runs []*report.Report) (list []string) {
	times, sentences := map[string]int{}, map[string]string{}
	var pairs []string
	for _, r := range runs {
		seen := map[string]bool{} // two figures may name a pair
		for _, p := range r.Phases {
			for _, pair := range p.Starved {
				if !slices.Contains(pairs, pair) {
					pairs = append(pairs, pair)
				}
				if n := slices.IndexFunc(p.Missed, func(s string) bool { return strings.HasPrefix(s, pair+": ") }); n >= 0 && !seen[pair] {
					sentences[pair] = p.Missed[n]
				}
				seen[pair] = true
			}
		}
		for pair := range seen {
			times[pair]++
		}
	}
	for _, pair := range pairs {
		if 2*times[pair] > len(runs) {
			list = append(list, sentences[pair])
		}
	}
	return list
}

// NotJudged names the pipelines with too few answers, of the first run that has any.
func NotJudged(runs []*report.Report) (list []string) {
	for _, r := range runs {
		for _, p := range r.Phases {
			for _, pipeline := range p.NotJudged {
				list = append(list, p.Name+" beside "+pipeline)
			}
		}
		if len(list) > 0 {
			break
		}
	}
	return list
}

// Text is a table of runs and baseline, first the figures that decide, then the others, and the verdict below it. ± is the
// spread of several runs.
func Text(base, runs []*report.Report) string {
	rows := [][]string{{"figure", "baseline", "now", "change", "allowed", "meaning"}}
	limits, within := map[string]Limit{}, 0
	for _, l := range Limits() {
		limits[l.Figure] = l
	}
	grown := Judge(base, runs)
	for _, decides := range []bool{true, false} {
		for _, f := range scenario.Figures() {
			limit, ok := limits[f.Name]
			was, is := median(f.Name, base), median(f.Name, runs)
			if ok != decides || math.IsNaN(was) && math.IsNaN(is) {
				continue
			}
			change, allowed := "–", "informs"
			if !math.IsNaN(is/was) && was != 0 {
				change = fmt.Sprintf("%+.1f %%", 100*(is/was-1))
			}
			switch {
			case ok && math.IsNaN(was) && len(base) > 0:
				allowed = "not in the baseline"
			case ok:
				allowed = "+" + percent(limit.Share) + " %"
			}
			if slices.ContainsFunc(grown, func(e Excess) bool { return e.Figure.Name == f.Name }) {
				allowed += ", exceeded"
			} else if ok && !math.IsNaN(was) {
				within++
			}
			rows = append(rows, []string{f.Name, center(f.Name, base), center(f.Name, runs), change, allowed, strings.TrimSuffix(f.What+", "+f.Unit, ", ")})
		}
	}
	text := "  " + strings.ReplaceAll(strings.TrimSpace(report.AlignedTable(rows)), "\n", "\n  ") + "\n"
	if len(base) == 0 {
		return text
	}
	if was, is := base[0].Machine.CPU, runs[0].Machine.CPU; was != is {
		text += fmt.Sprintf("  the baseline is of another processor (%s, this is %s): times differ by that alone\n", was, is)
	}
	return text + fmt.Sprintf("  %d of %d figures that decide are within their limits\n", within, within+len(grown))
}

// center returns the median of a figure, with the spread of several runs.
func center(figure string, runs []*report.Report) string {
	v := median(figure, runs)
	switch {
	case math.IsNaN(v):
		return "–"
	case len(runs) == 1:
		return number(v)
	}
	return fmt.Sprintf("%s ± %s %%", number(v), percent(spread(figure, runs)/2))
}

// Wide describes the figures of a baseline whose spread is more than half of their limit: a check may fail by chance.
func Wide(runs []*report.Report) (list []string) {
	for _, l := range Limits() {
		if s := spread(l.Figure, runs); s > l.Share/2 {
			list = append(list, fmt.Sprintf("%s: the runs are %s %% apart, and %s %% more are allowed", l.Figure, percent(s), percent(l.Share)))
		}
	}
	return list
}
