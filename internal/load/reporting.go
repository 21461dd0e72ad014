package load

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/version"
)

// reporting is a report while its run is played, with what only the run needs of it.
type reporting struct {
	*report.Report
	idle, ready usage.SoFar   // before the first session; when the first round held its checks
	measured    time.Duration // of what counts
	ownBytes    float64       // AgentBytes of this process
	intent      error         // of the API, where it was to be changed
	late        []string      // phases that are judged by themselves in which the generator was too late …
	notes       []string      // … and what is to be known of them
}

// newReport begins one.
func newReport(c Config) *reporting {
	r := &report.Report{Schema: report.Schema, Began: time.Now().UTC(), Command: os.Args, Machine: usage.Machine()}
	v := version.Get()
	r.Version, r.Commit, r.Dirty = v.Version, v.Commit, v.Dirty
	r.Plan, r.Scenario = c.plan(), c.Scenario
	r.Label = slices.Clone(c.labels)
	if c.MaxLag > usualLag {
		r.Label = append(r.Label, fmt.Sprintf("the generator was allowed to be %s late (p99), not %s: what is late is in the latencies, and may be its own", c.MaxLag, usualLag))
	}
	return &reporting{Report: r}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// judge fills Valid and Verdict: what is wrong, in sentences; empty when nothing is.
func (rep *reporting) judge(c Config) {
	rep.Valid = true
	say := func(format string, args ...any) { rep.Verdict = append(rep.Verdict, fmt.Sprintf(format, args...)) }
	if rep.Stopped != nil {
		say("%s", rep.Stopped.Sentence())
	}
	if lag := rep.Lag.P99; lag > ms(c.MaxLag) {
		rep.Valid = false
		say("invalid: the generator fell behind (p99 %.1f ms after the due time, allowed %.0f ms): %s", lag, ms(c.MaxLag), rep.whyBehind(c))
	}
	if behind := rep.behind(c); len(behind) > 0 {
		rep.Valid = false
		say("invalid: of %d loaders these fell behind: %s; allowed are %.0f ms", len(rep.Loaders), strings.Join(behind, ", "), ms(c.MaxLag))
	}
	rep.judgeApart()
	rep.Verdict = append(rep.Verdict, rep.Wrong().Sentences()...)
	rep.Unsaved.People, rep.Unsaved.Spool = rep.judgePeople(), c.Spool
	rep.Verdict = append(rep.Verdict, rep.Failed()...)
	rep.Verdict = append(rep.Verdict, rep.Late()...)
	rep.Goals = rep.judgeable(append(judged(c.Goals, rep.Report), rep.PhaseGoals()...))
	for _, g := range rep.Goals {
		if g.Met {
			continue
		}
		say("short: %s", g)
		if lag, ok := rep.lagOf(g); ok && lag > ms(c.MaxLag) {
			rep.Valid = false
			say("invalid: %s is not the server's alone: the generator itself was %.1f ms late there, allowed %.0f ms: %s", g.Name, lag, ms(c.MaxLag), rep.whyBehind(c))
		}
	}
}

// lagOf is the generator's at the percentile of a goal beyond the 99th, by which a run is judged: a
// generator that stood still for a moment is in no p99, and in each of these.
func (rep *reporting) lagOf(g report.Goal) (ms float64, ok bool) {
	lag := rep.Lag
	if g.Phase != "" {
		for i := range rep.Phases {
			if p := &rep.Phases[i]; p.Name == g.Phase {
				lag = p.Lag
			}
		}
	}
	switch {
	case g.Why != "":
		return 0, false
	case g.Name == "p999":
		return lag.P999, true
	case g.Name == "max":
		return lag.Max, true
	}
	return 0, false
}

// whyBehind says who had the cores that the generator wanted.
func (rep *reporting) whyBehind(c Config) string {
	cores := float64(rep.Machine.Cores)
	loader, server, others := rep.Loader.Cores, rep.Server.Cores, rep.Others
	shares := fmt.Sprintf("loader %.2f, server %.2f, others %.2f of %.0f cores", loader, server, others, cores)
	switch {
	case server == 0 && others == 0:
		return fmt.Sprintf("loader %.2f of %.0f cores; with --server-pid the report says who had the others", loader, cores)
	case loader+server+others < 0.85*cores:
		return fmt.Sprintf("the machine had room (%s), so its %d senders waited for each other or for the server's sockets", shares, c.Senders)
	case others > max(loader, server) || others > 0.25*cores:
		return "something else used the machine (" + shares + ")"
	}
	return "the machine was full (" + shares + "): offer less, or generate on another machine"
}

// judged compares the run's figures with what they should be.
func judged(goals []report.Goal, rep *report.Report) (list []report.Goal) {
	for _, g := range goals {
		list = append(list, g.Judged(rep))
	}
	return list
}
