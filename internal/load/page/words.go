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

// were is so many of something: none was, one was, 5 were.
func were(n uint64) string {
	switch n {
	case 0:
		return "none was"
	case 1:
		return "one was"
	}
	return count(float64(n)) + " were"
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(float64(n)) + " " + thing + "s"
}

// words tell the run in a paragraph.
func words(rep *report.Report) []string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+" ", args...) }
	where, over := "a server", rep.Transport()
	if over == "mutual TLS" || over == "TLS" {
		over = "over " + over
	}
	if rep.Server.RSS > 0 {
		where = fmt.Sprintf("a server on the same machine (%s)", plural(rep.Machine.Cores, "core"))
	}
	low, high, _ := rep.Offered()
	rate := count(low)
	if count(high) != rate {
		rate += " to " + count(high)
	}
	say("%s sent together %s results a second for %s to %s, %s.", agents(rep), rate, span(rep.Lasted()), where, over)
	if rep.Asked() {
		say("%s results a second left: half of them within %s of the second in which they were asked for, 99 of 100 within %s, and all within %s. Nothing is acknowledged.",
			count(rep.Rate), millis(rep.Latency.P50), millis(rep.Latency.P99), millis(rep.Latency.Max))
	} else {
		say("It acknowledged %s a second: half of them within %s of the moment they were due to leave, 99 of 100 within %s, and all within %s.",
			count(rep.Rate), millis(rep.BeyondLinger.P50), millis(rep.BeyondLinger.P99), millis(rep.BeyondLinger.Max))
	}
	b2 := rep.Balance
	switch {
	case b2.OK() && !b2.WasCompared():
		say("Of %s results %s refused and none had no answer; whether the server holds the others was not compared.", count(float64(b2.Sent)), were(b2.Refused))
	case b2.OK() && b2.Refused == 0:
		say("Of %s results none was lost and none counted twice.", count(float64(b2.Sent)))
	case b2.OK():
		say("Of %s results %s refused, none was lost.", count(float64(b2.Sent)), were(b2.Refused))
	default:
		say("Of %s results %s are missing; of %s event states %s from the ledger.", count(float64(b2.Sent)), none(b2.Missing), count(float64(b2.Compared)), differ(differing(b2)))
	}
	if n := len(rep.Outages); n > 2 {
		say("There were %d outages. The worst: %s", n, outageWords(*worstOutage(rep)))
	} else {
		for _, o := range rep.Outages {
			say("%s", outageWords(o))
		}
	}
	if rep.Server.Cores > 0 {
		used := "The server used " + ofCores(rep.Server.Cores)
		if rep.Server.MicrosPerItem > 0 {
			used += fmt.Sprintf(" (%s"+nb+"µs for each result)", figures(rep.Server.MicrosPerItem))
		}
		if rep.Server.RSS > 0 {
			used += fmt.Sprintf(" and %s of memory", size(float64(rep.Server.RSS)))
		}
		say("%s; making the load took %s more.", used, ofCores(rep.Loader.Cores))
	}
	list := []string{strings.TrimSpace(b.String())}
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

// agents are who sent.
func agents(rep *report.Report) string {
	p := rep.Plan
	if s := rep.Scenario; s != nil && len(s.Agents) > 1 {
		var classes []string
		for _, c := range s.Agents {
			classes = append(classes, fmt.Sprintf("%s %s", count(float64(c.Count)), c.Name))
		}
		return fmt.Sprintf("%s (%s)", plural(p.Agents, "agent"), strings.Join(classes, ", "))
	}
	text := plural(p.Agents, "agent")
	if p.Checks > 0 {
		text += " with " + plural(p.Checks, "check") + " each"
	}
	return text
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
