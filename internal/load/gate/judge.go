// Package gate is the release check: its scenarios, its baseline, and the limits of figures. Only figures that are nearly
// the same on every machine have a limit; times inform. compare.Within compares runs with the baseline.
//
// `muster load check` plays the runs. Start reading at Limits, then scenarios.go and baseline.go.
package gate

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
)

// Limits returns the limits of all figures that decide. Each is larger than the differences between runs of one build
// on a busy machine (bench/README.md has the figures). Other figures only inform: disk-bytes are whole pages of the
// file system, memory depends on the last run of the garbage collector, times on the machine.
func Limits() []compare.Limit {
	return []compare.Limit{
		{Figure: "allocs", Share: 0.05},        // the seed decides the timetable; commits, pages and periodic work vary
		{Figure: "alloc-bytes", Share: 0.15},   // as allocs, and buffers grow with the largest frame or commit: 7 % at 80 results/s
		{Figure: "wire-bytes", Share: 0.03},    // a late sender changes the frames
		{Figure: "journal-bytes", Share: 0.05}, // a commit has a head, and compresses as one: a slower disk makes fewer and larger ones
		{Figure: "fsyncs", Share: 0.10},        // the journal gathers for 20 ms: at most 50 a second on any disk
		{Figure: "reads", Share: 0.10},         // two for a frame that comes alone, fewer on a busy machine
		{Figure: "writes", Share: 0.10},        // acknowledgements follow commits: as fsyncs
		{Figure: "cpu-ratio", Share: 0.25},     // server and loader share the machine, but not the mix of work
	}
}

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
