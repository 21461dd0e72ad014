package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

func phaseSection(rep *report.Report) section {
	t := newTable("", "phase", "'from – to", "'of the rate", "offered", done(rep), "in time", "refused", "p50 beyond linger", "p99", "p99.9", "generator lag p99", "server cores", "µs per result", "settled after")
	s := section{ID: "phases", Title: "Phase by phase"}
	for _, p := range rep.Phases {
		t.add(named(p.Name, p.Kind), clock(p.From)+" – "+clock(p.To), rate(&p), maybe(p.Offered, perSecond), maybe(p.Acknowledged, perSecond), inTime(p.InTime), maybe(float64(p.Refused), count),
			maybe(p.BeyondLinger.P50, millis), maybe(p.BeyondLinger.P99, millis), maybe(p.BeyondLinger.P999, millis), maybe(p.Lag.P99, millis),
			maybe(p.Server.Cores, figures), maybe(p.Server.MicrosPerItem, figures), settled(p.Settled))
		if len(p.Missed) > 0 {
			s.Text = append(s.Text, fmt.Sprintf("Missed in %s: %s.", named(p.Name, p.Kind), strings.Join(p.Missed, "; ")))
		}
		if len(p.NotJudged) > 0 {
			s.Text = append(s.Text, fmt.Sprintf("Whether %s starved others is not judged of %s.", named(p.Name, p.Kind), strings.Join(p.NotJudged, "; of ")))
		}
		if p.SpoolFull > 0 {
			s.Text = append(s.Text, fmt.Sprintf("In %s %s results were not made: their agents' spools were full.", named(p.Name, p.Kind), count(float64(p.SpoolFull))))
		}
	}
	s.Tables = append(t.list(), besideTable(rep)...)
	return s
}

// inTime is the share that was answered within a second beyond its linger.
func inTime(share *float64) string {
	if share == nil {
		return ""
	}
	return figures(100**share) + " %"
}

// besideTable is what shared the server with the results, where phases can be compared.
func besideTable(rep *report.Report) []table {
	var phases []*report.Played
	head := []string{"figure"}
	for i := range rep.Phases {
		if p := &rep.Phases[i]; len(p.Beside) > 0 {
			phases, head = append(phases, p), append(head, named(p.Name, p.Kind))
		}
	}
	if len(phases) < 2 {
		return nil
	}
	type key struct{ figure, class string }
	var keys []key
	values := map[key][]string{}
	for n, p := range phases {
		for _, b := range p.Beside {
			k := key{b.Figure, b.Class}
			if values[k] == nil {
				keys, values[k] = append(keys, k), slices.Repeat([]string{"–"}, len(phases))
			}
			values[k][n] = besideValue(b)
		}
	}
	rows := [][]string{head}
	for _, k := range keys {
		what := k.figure
		if f, ok := scenario.FigureOf(k.figure); ok {
			what = f.What
		}
		if k.class != "" {
			what = "class " + k.class + ": " + what
		}
		rows = append(rows, append([]string{what}, values[k]...))
	}
	if len(phases) > max(8, len(keys)) { // steps: each has a line
		rows = turned(rows)
		rows[0][0] = "phase"
	}
	t := newTable("What shared the server with the results", rows[0]...)
	for _, r := range rows[1:] {
		t.add(r...)
	}
	return t.list()
}

func besideValue(b report.Beside) string {
	switch f, _ := scenario.FigureOf(b.Figure); f.Unit {
	case "s":
		return seconds(b.Value)
	case "%":
		return percent(b.Value / 100)
	}
	return millis(b.Value)
}

func named(name, kind string) string { return cmp.Or(name, kind) }

// rate is how fast the results were in a phase, and what else was sped up.
func rate(p *report.Played) string {
	if p.Rate == 0 {
		return "–"
	}
	text := percent(p.Rate)
	for _, name := range scenario.Pipelines() {
		if times := p.Faster[name]; times > 0 {
			text += fmt.Sprintf(", %s ×%.4g", name, times)
		}
	}
	return text
}

// maybe is a figure, or a dash where there is none.
func maybe(v float64, f func(float64) string) string {
	if v == 0 {
		return "–"
	}
	return f(v)
}

func settled(v float64) string {
	if v < 0 {
		return "not"
	}
	return maybe(v, seconds)
}

// since is a time until something came, -1 where it did not.
func since(v float64) string {
	if v < 0 {
		return "not before the end"
	}
	return maybe(v, seconds)
}

func faultSection(rep *report.Report) section {
	t := newTable("", "fault", "'at", "struck", "alerts due", "missing", "extra", "detected p50", "slowest", "cleared p50", "slowest", "all as before", "'for example")
	for i, f := range rep.Faults {
		at := clock(f.At)
		if f.Until > f.At {
			at += " – " + clock(f.Until)
		}
		t.add(letter(i)+": "+f.What, at, maybe(float64(f.Places), count), maybe(float64(f.Alerts), count), maybe(float64(f.Missing), count), maybe(float64(f.Extra), count),
			maybe(f.Detected.P50, millis), maybe(f.Detected.Max, millis), maybe(f.Cleared.P50, millis), maybe(f.Cleared.Max, millis), since(f.Back), f.Example)
	}
	return section{ID: "faults", Title: "What went wrong on purpose", Tables: t.list()}
}

func messageSection(rep *report.Report) section {
	s := section{ID: "messages", Title: "Notifications"}
	if k := rep.Streamed; k != nil {
		t := newTable("", "lines", "missing", "out of order", "of no result", "of another state", "came again", "connections", "p50", "p99", "p99.9", "slowest", "'for example")
		t.add(count(float64(k.Lines)), count(float64(k.Missing)), count(float64(k.Disorder)), count(float64(k.Extra)), count(float64(k.Other)), count(float64(k.Twice)), count(float64(k.Connections)),
			maybe(k.Latency.P50, millis), maybe(k.Latency.P99, millis), maybe(k.Latency.P999, millis), maybe(k.Latency.Max, millis), k.Example)
		s.Text = append(s.Text, fmt.Sprintf("Each acknowledged result has to come as a line of the stream, those of a state in their order. Of %s that were meant while something was measured: from when the result was meant to be sent until its line was here.", count(float64(k.Timed))))
		s.Tables = append(s.Tables, t.list()...)
	}
	if rep.Notifications == nil {
		return s
	}
	n := rep.Notifications
	t := newTable("", "messages due", "missing", "extra", "came again", "states not judged", "p50", "p99", "p99.9", "slowest", "'for example")
	t.add(count(float64(n.Due)), count(float64(n.Missing)), count(float64(n.Extra)), count(float64(n.Again)), count(float64(n.Unclear)),
		maybe(n.Latency.P50, millis), maybe(n.Latency.P99, millis), maybe(n.Latency.P999, millis), maybe(n.Latency.Max, millis), n.Example)
	s.Text = append(s.Text, fmt.Sprintf("Each acknowledged result that ends a row of good ones, or of bad ones, has to bring about one message to the loader's webhook. Of %s that were meant while something was measured: from when the result was meant to be sent until the message was here.", count(float64(n.Timed))))
	s.Tables = append(s.Tables, t.list()...)
	return s
}

// turnSection is what became of the turns of checks with roundRobin.
func turnSection(rep *report.Report) section {
	s := section{ID: "turns", Title: "Whose turn it was"}
	if rep.Turns == nil {
		return s
	}
	x := rep.Turns
	t := newTable("", "due", "run", "run again by another", "over before another had it", "not judged", "missed", "given twice", "taken over", "after p50", "p99", "the slowest", "'the first missed", "'the first given twice")
	t.add(count(float64(x.Due)), count(float64(x.Ran)), count(float64(x.Again)), count(float64(x.Passed)), count(float64(x.Unjudged)), count(float64(x.Missed)), count(float64(x.Twice)),
		count(float64(x.Taken)), maybe(x.Took.P50, millis), maybe(x.Took.P99, millis), maybe(x.Took.Max, millis), x.Example, x.Second)
	s.Tables = t.list()
	s.Text = []string{"The server says which agent runs a check when. Each check and proxy node has an interval of its own on the clock; a result is timed from when that began."}
	return s
}

func changeSection(rep *report.Report) section {
	t := newTable("", "change", "'at", "agents concerned", "p50", "p99", "the last", "all of them p50", "p99", "never", "not made", "answered p99", "the last answer")
	for i, h := range rep.Changes {
		t.add(fmt.Sprintf("%d: %s", i+1, h.What), clock(h.At)+every(rep, i), count(float64(h.Agents)), maybe(h.Holds.P50, millis), maybe(h.Holds.P99, millis), maybe(h.Holds.Max, millis), maybe(h.All.P50, millis), maybe(h.All.P99, millis), count(float64(h.Never)),
			count(float64(h.Unasked)), maybe(h.Answered.P99, millis), maybe(h.Answered.Max, millis))
	}
	s := section{ID: "intent", Title: "Intent that changed", Tables: t.list()}
	if len(s.Tables) > 0 {
		s.Text = []string{"From the answer of the API until an agent held the change, and until the last of all did. Answers are timed from when the change was meant to be made."}
	}
	return s
}

// deed is what people did, in words.
func deed(what string) string {
	switch what {
	case "list":
		return "paged through events"
	case "watch":
		return "watched problems"
	case "apply":
		return "wrote resources"
	case "silence":
		return "silenced machines"
	case "run":
		return "ran commands"
	case "fact":
		return "saw a fact change"
	}
	return what
}

func operatorSection(rep *report.Report) section {
	t := newTable("", "what they did", "requests", "failed", "given up", "of both: the server was away", "p50", "p99", "slowest", "'the first failure")
	for _, w := range rep.Operators {
		t.add(deed(w.What), count(float64(w.Requests)), count(float64(w.Failed)), count(float64(w.Unanswered)), count(float64(w.FailedAway+w.UnansweredAway)), maybe(w.Latency.P50, millis), maybe(w.Latency.P99, millis), maybe(w.Latency.Max, millis), w.Why)
	}
	s := section{ID: "operators", Title: "People at work meanwhile", Tables: t.list()}
	if len(s.Tables) > 0 {
		s.Text = []string{"Each request is timed from when it was meant; what was given up counts with what it had waited."}
	}
	return s
}

func ledgerSection(rep *report.Report) section {
	b := rep.Balance
	s := section{ID: "ledger", Title: "The ledger"}
	parts := fmt.Sprintf("%s acknowledged + %s refused", count(float64(b.Acknowledged)), count(float64(b.Refused)))
	if rep.Asked() {
		parts = count(float64(b.Acknowledged)) + " held in the end"
	}
	if b.Stopped > 0 {
		parts += fmt.Sprintf(" + %s held by machines that were left dead", count(float64(b.Stopped)))
	}
	say := func(format string, args ...any) { s.Text = append(s.Text, fmt.Sprintf(format, args...)) }
	say("%s sent = %s + %s missing.", count(float64(b.Sent)), parts, count(float64(b.Missing)))
	if b.Compared > 0 || b.Imbalances > 0 {
		say("%s event states of the server were compared with it: %s.", count(float64(b.Compared)), differ(differing(b)))
	} else {
		say("The server's states were not compared with it.")
	}
	if not := b.OrderNotCompared(); not != "" {
		say("Which results they hold, in which order, was not compared for %s.", not)
	}
	if b.Unsure > 0 {
		say("%s are not sure: the server does not hold them, has refused results of the same checks, and its answer was lost with a connection.", count(float64(b.Unsure)))
	}
	if rep.Resent > 0 {
		say("%s were sent again after a connection broke, and had to be distinguished.", count(float64(rep.Resent)))
	}
	if rep.SpoolFull > 0 {
		say("%s results were not made: their agents' spools were full.", count(float64(rep.SpoolFull)))
	}
	kinds := newTable("What is wrong", "imbalance", "times")
	for _, k := range slices.Sorted(maps.Keys(b.Kinds)) {
		kinds.add(k, count(float64(b.Kinds[k])))
	}
	examples := newTable("Of these, for example", "node", "'check", "number", "'problem")
	for _, e := range b.Examples {
		examples.add(numbered(e.Name, uint64(e.Node)), numbered(e.CheckName, uint64(e.Check)), maybe(float64(e.Number), count), e.Problem)
	}
	s.Tables = append(kinds.list(), examples.list()...)
	return s
}

// differing is how many states differ; older reports count imbalances alone.
func differing(b *report.Balance) uint64 {
	if b.Differ > 0 || len(b.Kinds) > 0 {
		return uint64(b.Differ)
	}
	return b.Imbalances
}

// numbered is a name with its number, as far as they are known.
func numbered(name string, n uint64) string {
	switch {
	case n == 0:
		return cmp.Or(name, "–")
	case name == "":
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s (%d)", name, n)
}

func differ(n uint64) string {
	switch n {
	case 0:
		return "none differs"
	case 1:
		return "one differs"
	}
	return count(float64(n)) + " differ"
}

func outageSection(rep *report.Report) section {
	t := newTable("", "outage", "agents away", "serving again after", "acknowledging after", "all back after")
	for _, o := range rep.Outages {
		what := "at " + clock(o.Second)
		switch {
		case o.Storm:
			what += ", all cut at once"
		case o.Command:
			what += ", the server ended and started again"
		}
		t.add(what, count(float64(o.Lost)), since(o.Serving), since(o.Acked), since(o.Seconds))
	}
	return section{ID: "outages", Title: "Outages", Tables: t.list()}
}

func loaderSection(rep *report.Report) section {
	t := newTable("", "loader", "'machine", "agents", "results", "lag p99", "cores", "resident", "per agent", "clock off by at most")
	for i, l := range rep.Loaders {
		machine := l.Name
		if !l.Here {
			machine += " (another one)"
		}
		t.add(fmt.Sprint(i+1), machine, count(float64(l.Agents)), count(float64(l.Results)), millis(l.Lag.P99), hundredths(l.Usage.Cores), size(float64(l.Usage.RSS)),
			size(l.AgentBytes), maybe(l.Clock, millis))
	}
	s := section{ID: "loaders", Title: "Who played it", Tables: t.list()}
	if len(s.Tables) > 0 {
		s.Text = []string{"Several processes played the run together; the first one led. All figures are sums of theirs, histograms bucket by bucket. The machine's share counts those on the first one's machine."}
	}
	return s
}

// refusalSection is what the server and the connections said no to.
func refusalSection(rep *report.Report) section {
	s := section{ID: "refusals", Title: "Refusals and lost connections"}
	add := func(name string, m map[string]uint64) {
		t := newTable(name, "reason", "times")
		for _, why := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b)) }) {
			t.add(why, count(float64(m[why])))
		}
		s.Tables = append(s.Tables, t.list()...)
	}
	add("Results refused", rep.Refusals)
	add("Connections that were not opened", rep.Failures)
	add("Sessions that ended", rep.Losses)
	if rep.Slowed > 0 {
		s.Text = append(s.Text, fmt.Sprintf("The server asked agents %s to slow down.", plural(rep.Slowed, "time")))
	}
	return s
}
