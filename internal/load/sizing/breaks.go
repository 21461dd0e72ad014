package sizing

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Try is one size that was tried.
type Try struct {
	Factor  float64
	Agents  int
	Results float64        // per second, asked
	States  int            // that it makes when all checks have come by
	Report  *report.Report // nil: it was not played …
	Err     error          // … because of this
	Before  *report.Report // of the same size, when it was not carried at first; nil: it was played once
}

// Carried says whether the machine carries it.
func (t *Try) Carried() bool { return t.Report != nil && t.Report.OK() }

// Stumbled says whether a size that was played and not carried may be carried when it is
// played once more.
func (t *Try) Stumbled() bool {
	return t.Report != nil && !t.Carried() && !t.Report.Lost() && t.Report.Stopped == nil
}

// broke is what broke.
type broke struct {
	what   string // open files, the processor, memory, …
	why    string // with the figures
	unsure bool   // it was not the server, nor a limit: the machine may carry more
}

// breaks finds what broke in a size that is not carried: what is named first is what has to
// grow first.
func (t *Try) breaks() broke {
	if t.Report == nil {
		return refused(t.Err)
	}
	rep := t.Report
	cores := float64(rep.Machine.Cores)
	used := fmt.Sprintf("server %.2f, simulated agents %.2f, others %.2f of %.0f cores", rep.Server.Cores, rep.Loader.Cores, rep.Others, cores)
	full := rep.Server.Cores+rep.Loader.Cores+rep.Others > 0.85*cores
	switch {
	case rep.Lost():
		return wrong(rep.Wrong()[0])
	case tooManyFiles(rep.Failures):
		return broke{what: "open files", why: "connections were refused: too many open files"}
	case rep.Others > 0.25*cores:
		return broke{what: "something else", why: "something else used the machine (" + used + ")", unsure: true}
	case !rep.Valid:
		return broke{what: "the simulated agents", why: "the simulated agents broke before the server did: they share its cores and fell behind (" + used + ")", unsure: true}
	}
	missed := first(goals(rep), "")
	if rep.SpoolFull > 0 {
		missed = fmt.Sprintf("the server took less than was offered, and agents' spools were full (%s results not made)", grouped(float64(rep.SpoolFull)))
	}
	if missed == "" {
		missed = first(rep.Verdict, "the run failed")
	}
	commit, still := commitMs(rep), standsStill(rep)
	switch memory := float64(rep.Server.RSS+rep.Loader.RSS) / float64(max(1, rep.Machine.Memory)); {
	case full:
		return broke{what: "the processor", why: missed + "; " + used}
	case commit > 50:
		return broke{what: "the disk", why: fmt.Sprintf("%s; a commit of the journal, with its fsync, takes %.0f ms", missed, commit)}
	case still >= 2:
		return broke{what: "the disk", why: fmt.Sprintf("%s; for %d seconds in a row nothing was acknowledged while the server had nothing to do but wait for it", missed, still)}
	case memory > 0.85:
		return broke{what: "memory", why: fmt.Sprintf("%s; server and simulated agents take %.0f %% of it", missed, 100*memory)}
	}
	return broke{what: "the objective", why: missed}
}

// wrong is what breaks where something came that must not, or did not come.
func wrong(w report.Wrong) broke {
	what := "the ledger"
	switch w.Kind {
	case report.WrongAlerts, report.WrongSilence, report.WrongMessages:
		what = "the alerts"
	case report.WrongLines:
		what = "the stream of results"
	case report.WrongTurns:
		what = "the turns"
	}
	return broke{what: what, why: w.Says[0]}
}

// standsStill is for how many seconds in a row at most nothing was acknowledged though results
// were offered, and the server used no more than a tenth of a core.
func standsStill(rep *report.Report) (most int) {
	row := 0
	for i := range rep.Samples {
		if s := &rep.Samples[i]; s.Offered > 0 && s.Acked == 0 && s.ServerCPU < 0.1 {
			row++
		} else {
			row = 0
		}
		most = max(most, row)
	}
	return most
}

// refused is what kept a size from being played: a limit of this machine, or whatever went
// wrong.
func refused(err error) broke {
	if model.ClassOf(err) != model.Limited {
		return broke{what: "the start", why: err.Error()}
	}
	lines := strings.Split(err.Error(), "\n")
	text := strings.TrimSpace(lines[min(1, len(lines)-1)])
	what, why, ok := strings.Cut(text, ": ")
	if !ok {
		return broke{what: "a limit of this machine", why: text}
	}
	why, _, _ = strings.Cut(why, ". ") // what to type stands in the next sentence
	if what == "disk" {
		what = "room on the disk"
	}
	return broke{what: what, why: why}
}

func tooManyFiles(failures map[string]uint64) bool {
	for text := range failures {
		if strings.Contains(text, "too many open files") {
			return true
		}
	}
	return false
}

// goals are the objectives that were missed, in sentences.
func goals(rep *report.Report) (list []string) {
	for _, g := range rep.Goals {
		if !g.Met {
			list = append(list, g.String())
		}
	}
	for i := range rep.Phases {
		list = append(list, rep.Phases[i].Missed...)
	}
	return list
}

// commitMs is how long the journal's commits took in the seconds that were measured, mean.
func commitMs(rep *report.Report) float64 {
	sum, n := 0.0, 0.0
	for i := range rep.Samples {
		if s := &rep.Samples[i]; s.Second >= 0 && s.CommitMs > 0 {
			sum += s.CommitMs
			n++
		}
	}
	return sum / max(1, n)
}

func first(list []string, preset string) string {
	if len(list) == 0 {
		return preset
	}
	return list[0]
}
