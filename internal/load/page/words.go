package page

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// shape says in one line what was played.
func shape(rep *report.Report) string {
	p := rep.Plan
	if p.Agents == 0 {
		return ""
	}
	text := plural(p.Agents, "agent")
	if s := rep.Scenario; s != nil && len(s.Agents) > 1 {
		text += fmt.Sprintf(" of %d classes", len(s.Agents))
	} else if p.Checks > 0 {
		text += " × " + plural(p.Checks, "check")
	}
	if p.Offered > 0 {
		text += fmt.Sprintf(" · %s results/s", count(p.Offered))
	}
	if p.Duration > 0 {
		text += " · " + span(rep.Lasted())
	}
	return text + " · " + rep.Transport()
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(float64(n)) + " " + thing + "s"
}

// caveats says what has to be known with the figures: parts that were not played, others on the machine.
func caveats(rep *report.Report) (list []string) {
	if left := notPlayed(rep); left != "" {
		list = append(list, "Not played, though the scenario has it: "+left+".")
	}
	if cores := float64(rep.Machine.Cores); cores > 0 && rep.Others > 0.1*cores {
		list = append(list, fmt.Sprintf("The machine was not alone with this run: others used %s of its %s cores. Times would be shorter without them.", bare(figures)(rep.Others), count(cores)))
	}
	return list
}

// notPlayed is what the scenario has and the report knows nothing of.
func notPlayed(rep *report.Report) string {
	s := rep.Scenario
	if s == nil {
		return ""
	}
	var list []string
	if len(s.Faults) > 0 && len(rep.Faults) == 0 {
		list = append(list, "faults")
	}
	if len(s.Intent) > 0 && len(rep.Changes) == 0 {
		list = append(list, "changes of intent")
	}
	if s.Operators.Any() && len(rep.Operators) == 0 {
		list = append(list, "people at work")
	}
	return strings.Join(list, ", ")
}

// ofCores is CPU in words.
func ofCores(v float64) string {
	if v > 0 && v < 0.005 {
		return "less than 1" + nb + "% of a core"
	}
	if v < 0.995 {
		return trim(100*v, 0) + nb + "% of a core"
	}
	return trim(v, 2) + " cores"
}

// worstOutage is the one that took longest, or did not end; nil where there was none.
func worstOutage(rep *report.Report) (w *report.Outage) {
	for i := range rep.Outages {
		if o := &rep.Outages[i]; w == nil || w.Seconds >= 0 && (o.Seconds < 0 || o.Seconds > w.Seconds) {
			w = o
		}
	}
	return w
}

func outageWords(o report.Outage) string {
	what := fmt.Sprintf("At %s %s lost their sessions", clock(o.Second), plural(o.Lost, "agent"))
	switch {
	case o.Storm:
		what = fmt.Sprintf("At %s all %s were cut at once", clock(o.Second), plural(o.Lost, "agent"))
	case o.Command:
		what = fmt.Sprintf("At %s the server was ended and started again under %s", clock(o.Second), plural(o.Lost, "agent"))
	}
	if o.Seconds < 0 {
		return what + "; not all were back when the run ended."
	}
	return fmt.Sprintf("%s; all were back %s later.", what, seconds(o.Seconds))
}
