// Package sizing finds the size of a scenario that a machine carries. Text is the answer of muster load size; a test makes
// docs/sizing.md of the reports in bench/results.
//
// Start reading at Text.
package sizing

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Try is one size that was tried.
type Try struct {
	Factor  float64
	Agents  int
	Results float64        // per second, asked
	States  int            // event states when every check has sent a result
	Report  *report.Report // nil: it was not played …
	Err     error          // … because of this
	Before  *report.Report // of the first run, where it was played twice
}

// Carried reports whether the machine carries the size.
func (t *Try) Carried() bool { return t.Report != nil && t.Report.OK() }

// Stumbled reports whether a second run may carry the size. A run whose generator fell behind was repeated already.
func (t *Try) Stumbled() bool {
	return t.Report != nil && !t.Carried() && t.Report.Valid && !t.Report.Lost() && t.Report.Stopped == nil
}

// limit is the first limit that a size met.
type limit struct {
	what   string // open files, the processor, memory, …
	why    string // with the figures
	unsure bool   // neither the server nor the machine: the machine may carry more
}

// limit finds the limit that a size met. The first one of the list has to grow first.
func (t *Try) limit() limit {
	if t.Report == nil {
		return refusal(t.Err)
	}
	rep := t.Report
	cores := float64(rep.Machine.Cores)
	used := fmt.Sprintf("server %.2f, simulated agents %.2f, others %.2f of %.0f cores", rep.Server.Cores, rep.Loader.Cores, rep.Others, cores)
	switch wrong := rep.Wrong(); {
	case len(wrong) > 0:
		return limit{what: "the ledger (" + wrong[0].Kind + ")", why: wrong[0].Says[0]}
	case rep.Others > 0.25*cores:
		return limit{what: "other programs", why: used, unsure: true}
	case !rep.Valid:
		return limit{what: "the simulated agents", why: "they share the cores of the server, and fell behind; " + used, unsure: true}
	}
	missed := "the run failed"
	switch short := missedGoals(rep); {
	case rep.SpoolFull > 0:
		missed = fmt.Sprintf("the server took less than was offered, and the spools of agents were full (%s results not made)", number.Count(rep.SpoolFull))
	case len(short) > 0:
		missed = short[0]
	case len(rep.Verdict) > 0:
		missed = rep.Verdict[0]
	}
	switch commit, memory := commitMillis(rep), float64(rep.Server.RSS+rep.Loader.RSS)/float64(max(1, rep.Machine.Memory)); {
	case rep.Server.Cores+rep.Loader.Cores+rep.Others > 0.85*cores:
		return limit{what: "the processor", why: missed + "; " + used}
	case commit > 50:
		return limit{what: "the disk", why: fmt.Sprintf("%s; a commit of the journal, with its fsync, takes %s", missed, number.Millis(commit))}
	case memory > 0.85:
		return limit{what: "memory", why: fmt.Sprintf("%s; server and simulated agents take %s of it", missed, number.Percent(memory))}
	}
	return limit{what: "the objective", why: missed}
}

// refusal returns the limit of the machine that prevented the run, or the other error.
func refusal(err error) limit {
	if model.ClassOf(err) != model.Limited {
		return limit{what: "the start", why: err.Error()}
	}
	lines := strings.Split(err.Error(), "\n")
	text := strings.TrimSpace(lines[min(1, len(lines)-1)])
	what, why, ok := strings.Cut(text, ": ")
	if !ok {
		return limit{what: "the machine", why: text}
	}
	why, _, _ = strings.Cut(why, ". ") // the next sentence is a hint
	return limit{what: what, why: why}
}

// missedGoals returns sentences about the goals that a run missed.
func missedGoals(rep *report.Report) (list []string) {
	for _, g := range rep.Goals {
		if !g.Met {
			list = append(list, g.String())
		}
	}
	return append(list, rep.Late()...)
}

// commitMillis returns the mean duration of the journal's commits in the measured seconds.
func commitMillis(rep *report.Report) float64 {
	sum, n := 0.0, 0.0
	for i := range rep.Samples {
		if s := &rep.Samples[i]; s.Second >= 0 && s.CommitMs > 0 {
			sum += s.CommitMs
			n++
		}
	}
	return sum / max(1, n)
}
