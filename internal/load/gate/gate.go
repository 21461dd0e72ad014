// Package gate is the release check: its scenarios, its baseline, and the limits of figures. Only figures that are nearly
// the same on every machine have a limit; times inform. compare.Within compares runs with the baseline.
//
// `muster load check` plays the runs. Start reading at Limits, then baseline.go.
package gate

import (
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
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
	for _, r := range runs {
		first := map[string]string{} // sentence by pair: two figures may name one
		for _, p := range r.Phases {
			for _, pair := range p.Starved {
				n := slices.IndexFunc(p.Missed, func(s string) bool { return strings.HasPrefix(s, pair+": ") })
				if n >= 0 && first[pair] == "" {
					first[pair] = p.Missed[n]
				}
			}
		}
		for pair, sentence := range first {
			times[pair]++
			sentences[pair] = sentence
		}
	}
	for _, pair := range slices.Sorted(maps.Keys(times)) {
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

// Checked is a scenario of the release check.
type Checked struct {
	Name  string
	Scale float64 // of its agents: the same on every machine
}

// Scenarios are those of the release check: each path of a result, a session or a request through the server is in one of
// them. Two ordinary cores carry server and loader, and the server's periodic work does not hide the cost of a result;
// together they take ten minutes.
func Scenarios() []Checked {
	return []Checked{
		{"sensu-4000x40x5s", 0.25},   // results without TLS: the cost of each, from the socket to the view
		{"muster-15000x4x10s", 0.05}, // mutual TLS, few results per frame: the cost of sessions and frames
		{"muster-churn", 0.25},       // reconnects, restarts and spools
		{"muster-mixed", 0.2},        // API, watches and changes of intent beside results
		{"muster-restart", 0.1},      // a restart and a kill: nothing lost, nothing twice; its counters begin anew, and are not compared
		{"muster-bad-day", 0.2},      // dead machines, failing checks, wrong frames, a kill: every alert, once
	}
}

// Find returns the scenario of the release check with this name.
func Find(name string) (Checked, bool) {
	if i := slices.Index(Names(), name); i >= 0 {
		return Scenarios()[i], true
	}
	return Checked{}, false
}

// Load reads the quick form of the scenario at its fixed scale, and returns an error if machine m is too small.
func (c Checked) Load(m scenario.Machine) (*scenario.Scenario, error) {
	whole, err := scenario.Load(c.Name)
	if err != nil {
		return nil, err
	}
	sc := whole.Scaled(c.Scale).Quick(m)
	if sc.Scale != c.Scale {
		return nil, model.Errorf(model.Limited, "this machine does not carry %s with %g %% of its agents easily, and with fewer nothing could be compared", c.Name, 100*c.Scale).
			WithHint("free memory and open files (ulimit -Hn), or use a larger machine; muster load show %s --scale %g says what it needs", c.Name, c.Scale)
	}
	return sc, nil
}

// Names returns the names of Scenarios.
func Names() (list []string) {
	for _, c := range Scenarios() {
		list = append(list, c.Name)
	}
	return list
}
