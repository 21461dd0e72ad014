package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Findings is a report for people, in the order of reading. The terminal (Text) and the page show the same.
type Findings struct {
	Title, Shape string
	Labels       []string // to be shown with the figures, beside the title
	State        string   // passed, failed, invalid
	Word         string   // the same for people; or Stopped
	Because      string   // the reason, in a sentence
	Remarks      []string // other sentences of the verdict
	Caveats      []string // reasons to doubt the figures
	Objectives   []Objective
	Sections     []Section
}

// Objective is one line of the verdict.
type Objective struct {
	Met   bool    `json:"met"`
	What  string  `json:"what"`
	Asked string  `json:"asked"`
	Got   string  `json:"got"`
	Value float64 `json:"value,omitempty"` // of a goal that was measured …
	Limit float64 `json:"limit,omitempty"` // … and what it should be
}

// Section is a heading with notes and tables.
type Section struct {
	ID, Title string
	Notes     []string
	Tables    []Table
	PageOnly  bool // not in the terminal
}

// Table has rows of cells under heads. The first column names the rows; a table of names and values has no heads.
type Table struct {
	Name string
	Head []string
	Rows [][]string
}

// Words reports whether a column holds words, not numbers.
func (t Table) Words(column int) bool {
	return column == 0 || slices.ContainsFunc(t.Rows, func(row []string) bool {
		return row[column] != "" && unicode.IsLetter([]rune(row[column])[0])
	})
}

// add appends a row. Rows are as long as the head.
func (t *Table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// list returns the table without empty columns; nothing without rows.
func (t Table) list() []Table {
	if len(t.Rows) == 0 {
		return nil
	}
	for i := len(t.Rows[0]) - 1; i > 0; i-- {
		if !slices.ContainsFunc(t.Rows, func(row []string) bool { return row[i] != "" }) {
			t.Head = slices.Delete(t.Head, i, i+1)
			for r := range t.Rows {
				t.Rows[r] = slices.Delete(t.Rows[r], i, i+1)
			}
		}
	}
	return []Table{t}
}

// pairs returns a table of names and values, without the empty ones.
func pairs(name string, namesAndValues ...string) []Table {
	t := Table{Name: name}
	for p := range slices.Chunk(namesAndValues, 2) {
		if p[1] != "" {
			t.add(p[0], p[1])
		}
	}
	return t.list()
}

// pairsOf returns a table of the names and values of a map.
func pairsOf(name string, m map[string]string) []Table {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, key, m[key])
	}
	return pairs(name, all...)
}

// Findings returns the findings of the report. The report is not changed.
func (rep *Report) Findings() *Findings {
	f := &Findings{Title: rep.Name(), Shape: rep.shape(), Objectives: rep.objectives(), Caveats: rep.caveats()}
	f.State, f.Word, f.Because = rep.verdict()
	labels := slices.Clone(rep.Label)
	if rep.Scenario != nil && !slices.Contains(labels, rep.Scenario.Label()) {
		labels = append(labels, rep.Scenario.Label())
	}
	f.Labels = slices.DeleteFunc(labels, func(l string) bool { return l == "" || strings.Contains(f.Title, l) })
	shown := map[string]bool{}
	for _, g := range rep.Goals {
		shown["short: "+g.String()] = true
	}
	shown[f.Because] = true
	f.Remarks = slices.DeleteFunc(slices.Clone(rep.Verdict), func(s string) bool { return shown[s] })
	if !rep.Balance.WasCompared() {
		f.Remarks = append(f.Remarks, "not compared: whether the server holds what it acknowledged was not looked at")
	}
	sections := slices.Concat([]Section{rep.latencySection(), rep.phaseSection()}, rep.courseSections(), []Section{rep.ledgerSection(), rep.usageSection()}, rep.appendix())
	f.Sections = slices.DeleteFunc(sections, func(s Section) bool { return len(s.Notes)+len(s.Tables) == 0 })
	if rep.alone() {
		rep.inUnit(f)
	}
	return f
}

// Name returns the title of the run, or of its scenario.
func (rep *Report) Name() string {
	if s := rep.Scenario; s != nil {
		return cmp.Or(rep.Title, s.Title, s.Name, "Load run")
	}
	return cmp.Or(rep.Title, "Load run")
}

// shape describes the load in one line.
func (rep *Report) shape() string {
	p := rep.Plan
	if p.Agents == 0 {
		return ""
	}
	text := number.Of(p.Agents, "agent")
	if s := rep.Scenario; s != nil && len(s.Agents) > 1 {
		text += fmt.Sprintf(" of %d classes", len(s.Agents))
	} else if p.Checks > 0 {
		text += " × " + number.Of(p.Checks, rep.source())
	}
	low, high, _ := rep.Offered()
	rate := number.Rate(low)
	if most := number.Rate(high); most != rate {
		rate += " to " + most
	}
	return fmt.Sprintf("%s, %s, %s results/s offered for %s", text, rep.transport(), rate, model.Duration(time.Duration(rep.Lasted()*float64(time.Second)).Round(time.Second)))
}

// transport returns the connection of the agents.
func (rep *Report) transport() string {
	if s := rep.Scenario; s != nil && rep.Targeted == nil {
		secured, all := 0, 0
		for _, c := range s.Agents {
			if all += c.Count; c.TLS {
				secured += c.Count
			}
		}
		if secured > 0 && secured < all {
			return "mutual TLS for " + number.Count(secured) + " of them"
		}
	}
	switch {
	case rep.Plan.TLS && rep.Targeted != nil:
		return "TLS"
	case rep.Plan.TLS:
		return "mutual TLS"
	}
	return "without TLS"
}

// wellPlayed returns a sentence that nothing is wrong.
func (rep *Report) wellPlayed() string {
	if rep.alone() {
		return "nothing lost, doubled or wrong, the generator kept up"
	}
	return "nothing lost, nothing twice, the generator kept up"
}

// verdict returns the state of the run, and the reason.
func (rep *Report) verdict() (state, word, because string) {
	switch wrong := rep.Wrong(); {
	case !rep.Valid && len(wrong) == 0: // losses count, however late the generator was
		return "invalid", "Invalid", "the generator fell behind its timetable: no figure below counts"
	case rep.OnlyStopped():
		return "invalid", "Stopped", "stopped before its end; until then " + rep.wellPlayed()
	case rep.OK():
		because = rep.wellPlayed()
		if !rep.Balance.WasCompared() {
			because = "every result was answered, the generator kept up"
		}
		if n := len(rep.Goals); n > 0 {
			because += "; " + number.Of(n, "objective") + " reached"
		}
		return "passed", "Passed", because
	default:
		because = "see the remarks"
		if len(wrong) > 0 {
			because = wrong[0].Says[0]
		} else if missed := rep.missed(); missed > 0 {
			because = fmt.Sprintf("%d of %s missed", missed, number.Of(len(rep.Goals), "objective"))
		}
		if !rep.Valid {
			because += "; the generator fell behind as well, and no figure of time or rate counts"
		}
		return "failed", "Failed", because
	}
}

// objectives returns the goals, then the requirements on every run.
func (rep *Report) objectives() (list []Objective) {
	for _, g := range rep.Goals {
		what, asked, got := g.Words()
		o := Objective{Met: g.Met, What: what, Asked: asked, Got: got}
		if g.Why == "" {
			o.Value, o.Limit = g.Got, g.Want
		}
		list = append(list, o)
	}
	for _, q := range rep.questions() {
		got := "all of " + number.Count(q.due)
		switch {
		case q.Count > 0:
			got = fmt.Sprintf("%s of %s wrong", number.Count(q.Count), number.Count(q.due))
		case !q.judged:
			continue
		case q.due == 0:
			got = "none was due"
		}
		list = append(list, Objective{Met: q.Count == 0, What: q.what, Asked: q.asked, Got: got})
	}
	return append(list, Objective{Met: rep.Valid, What: "the generator", Asked: "keeps up with its timetable", Got: "p99 " + number.Millis(rep.Lag.P99) + " late"})
}

// caveats returns the parts of the scenario that were not played, and other users of the machine.
func (rep *Report) caveats() (list []string) {
	if s := rep.Scenario; s != nil {
		for _, part := range []struct {
			name  string
			asked bool
			done  int
		}{{"faults", len(s.Faults) > 0, len(rep.Faults)}, {"changes of intent", len(s.Intent) > 0, len(rep.Changes)}, {"people at work", s.Operators.Any(), len(rep.Operators)}} {
			if part.asked && part.done == 0 {
				list = append(list, "Not played, though the scenario has it: "+part.name+".")
			}
		}
	}
	if cores := float64(rep.Machine.Cores); cores > 0 && rep.Others > 0.1*cores {
		list = append(list, fmt.Sprintf("Others used %s of the machine's %s cores: times would be shorter without them.", number.Bare(number.Three(rep.Others)), number.Count(cores)))
	}
	return list
}

// some formats a value; 0 has no cell.
func some(v float64, format func(float64) string) string {
	if v == 0 {
		return ""
	}
	return format(v)
}

// counted formats a count; 0 has no cell.
func counted[N int | uint64](n N) string { return some(float64(n), number.Count[float64]) }

// micros formats microseconds.
func micros(v float64) string { return number.Three(v) + " µs" }

// percentiles returns cells for p50, p90, p99, p99.9 and the maximum.
func percentiles(l Latency) (cells []string) {
	for _, v := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max} {
		cells = append(cells, some(v, number.Millis))
	}
	return cells
}

// after formats the time of an outage or of settling; -1 means that it did not come.
func after(v float64) string {
	if v < 0 {
		return "not before the end"
	}
	return some(v, number.Seconds)
}

// At formats a moment of the run, in seconds: 1m30s, 2m.
func At(v float64) string {
	d := time.Duration(v * float64(time.Second)).Round(100 * time.Millisecond)
	if d != 0 && d%time.Minute == 0 {
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}

// latencySection returns the section about the latencies.
func (rep *Report) latencySection() Section {
	t := Table{Head: []string{"latency", "p50", "p90", "p99", "p99.9", "slowest"}}
	add := func(name string, l Latency) {
		if l.Max > 0 {
			t.add(append([]string{name}, percentiles(l)...)...)
		}
	}
	if rep.Asked() {
		add("from the issue of a request (whole seconds) until its result had left", rep.Latency)
	} else {
		add("from the intended time to the acknowledgement", rep.Latency)
		if !rep.alone() {
			add(fmt.Sprintf("beyond the linger (%s)", number.Bare(number.Millis(rep.Plan.Linger))), rep.BeyondLinger)
		}
	}
	add("generator lag", rep.Lag)
	if n := rep.Notifications; n != nil {
		add("from a result to its message", n.Latency)
	}
	if s := rep.Streamed; s != nil {
		add("from a result to its stream line", s.Latency)
	}
	if x := rep.Turns; x != nil {
		add("until another agent had the turn", x.Took)
	}
	return Section{ID: "times", Title: "Latency", Tables: t.list()}
}

// phaseSection returns the section about the phases.
func (rep *Report) phaseSection() Section {
	done := "acknowledged/s"
	if rep.Asked() {
		done = "left/s"
	}
	t := Table{Head: []string{"phase", "from", "to", "rate", "offered/s", done, "in time", "refused", "p50", "p99", "p99 beyond linger", "generator lag p99", "server cores", "CPU per result", "settled after"}}
	s := Section{ID: "phases", Title: "Phases"}
	for i := range rep.Phases {
		p := &rep.Phases[i]
		rate := some(p.Rate, number.Percent)
		for _, name := range scenario.Pipelines() {
			if times := p.Faster[name]; times > 0 {
				rate += fmt.Sprintf(", %s ×%.4g", name, times)
			}
		}
		inTime := ""
		if p.InTime != nil {
			inTime = number.Percent(*p.InTime)
		}
		t.add(cmp.Or(p.Name, p.Kind), At(p.From), At(p.To), rate, some(p.Offered, number.Rate), some(p.Acknowledged, number.Rate), inTime, counted(p.Refused), some(p.Latency.P50, number.Millis), some(p.Latency.P99, number.Millis),
			some(p.BeyondLinger.P99, number.Millis), some(p.Lag.P99, number.Millis), some(p.Server.Cores, number.Three), some(p.Server.MicrosPerItem, micros), after(p.Settled))
		note := func(format string, args ...any) {
			s.Notes = append(s.Notes, cmp.Or(p.Name, p.Kind)+": "+fmt.Sprintf(format, args...))
		}
		for _, missed := range p.Missed {
			note("%s", strings.TrimPrefix(missed, p.Name+": "))
		}
		if len(p.NotJudged) > 0 {
			note("not judged beside it: %s", strings.Join(p.NotJudged, "; "))
		}
		if p.Short {
			note("cut short, and not judged")
		}
		if p.SpoolFull > 0 {
			note("%s %s were not made: the spools of their agents were full", number.Count(p.SpoolFull), rep.Offers())
		}
	}
	if v, ok := rep.Figures()["saturation"]; ok {
		s.Notes = append(s.Notes, number.Rate(v)+" results/s in the last step that held")
	}
	s.Tables = append(t.list(), rep.besideTable()...)
	return s
}

// besideTable compares the pipelines beside the results, phase by phase.
func (rep *Report) besideTable() []Table {
	t := Table{Name: "Beside the results", Head: []string{"figure"}}
	var phases []*Played
	for i := range rep.Phases {
		if p := &rep.Phases[i]; len(p.Beside) > 0 {
			phases, t.Head = append(phases, p), append(t.Head, cmp.Or(p.Name, p.Kind))
		}
	}
	if len(phases) < 2 {
		return nil
	}
	rows := map[string][]string{}
	for n, p := range phases {
		for _, b := range p.Beside {
			f, _ := scenario.FigureOf(b.Figure)
			what := cmp.Or(f.What, b.Figure)
			if b.Class != "" {
				what = "class " + b.Class + ": " + what
			}
			if rows[what] == nil {
				rows[what] = append([]string{what}, make([]string, len(phases))...)
				t.Rows = append(t.Rows, rows[what])
			}
			rows[what][n+1] = number.In(b.Value, f.Unit)
		}
	}
	if len(phases) > max(8, len(t.Rows)) { // steps: each has a row
		all := append([][]string{t.Head}, t.Rows...)
		t.Head, t.Rows = nil, nil
		for i := range all[0] {
			var row []string
			for _, r := range all {
				row = append(row, r[i])
			}
			if t.Head == nil {
				t.Head = append([]string{"phase"}, row[1:]...)
				continue
			}
			t.add(row...)
		}
	}
	return t.list()
}

// courseSections returns the sections about faults, outages, deliveries, changes of intent and people.
func (rep *Report) courseSections() []Section {
	faults := Table{Head: []string{"fault", "at", "until", "struck", "alerts due", "missing", "too many", "detected p50", "slowest", "cleared p50", "slowest", "all as before", "example"}}
	for i, f := range rep.Faults {
		until := ""
		if f.Until > f.At {
			until = At(f.Until)
		}
		faults.add(Letter(i)+": "+f.What, At(f.At), until, counted(f.Places), counted(f.Alerts), counted(f.Missing), counted(f.Extra),
			some(f.Detected.P50, number.Millis), some(f.Detected.Max, number.Millis), some(f.Cleared.P50, number.Millis), some(f.Cleared.Max, number.Millis), after(f.Back), f.Example)
	}
	outages := Table{Head: []string{"outage", "agents away", "serving after", "acknowledging after", "all back after"}}
	for _, o := range rep.Outages {
		outages.add("at "+At(o.Second), counted(o.Lost), after(o.Serving), after(o.Acked), after(o.Seconds))
	}
	deliveries := Table{Head: []string{"", "due", "came", "missing", "too many", "wrong", "again", "not judged", "example"}}
	if n := rep.Notifications; n != nil {
		deliveries.add("messages about problems", counted(n.Due), counted(n.Due-n.Missing), counted(n.Missing), counted(n.Extra), "", counted(n.Again), counted(n.Unclear), n.Example)
	}
	if s := rep.Streamed; s != nil {
		deliveries.add(fmt.Sprintf("stream lines, by %s", number.Of(s.Connections, "connection")), counted(s.Lines+s.Missing), counted(s.Lines), counted(s.Missing), counted(s.Extra), counted(s.Disorder+s.Other+s.Unread), counted(s.Twice), "", s.Example)
	}
	if x := rep.Turns; x != nil {
		deliveries.add(fmt.Sprintf("turns, %s taken over", number.Count(x.Taken)), counted(x.Due), counted(x.Ran), counted(x.Missed), "", counted(x.Twice), counted(x.Again), counted(x.Passed+x.Unjudged), cmp.Or(x.Example, x.Second))
	}
	changes := Table{Head: []string{"change of intent", "at", "agents", "held p50", "p99", "slowest", "by all p50", "slowest", "answered p99", "slowest", "never held", "not made"}}
	for i, h := range rep.Changes {
		changes.add(fmt.Sprintf("%d: %s", i+1, h.What), At(h.At)+rep.Every(i), counted(h.Agents), some(h.Holds.P50, number.Millis), some(h.Holds.P99, number.Millis), some(h.Holds.Max, number.Millis), some(h.All.P50, number.Millis), some(h.All.Max, number.Millis),
			some(h.Answered.P99, number.Millis), some(h.Answered.Max, number.Millis), counted(h.Never), counted(h.Unasked))
	}
	people := Table{Head: []string{"people and facts", "requests", "failed", "given up", "server away", "p50", "p99", "slowest", "first failure"}}
	for _, w := range rep.Operators {
		people.add(w.What, counted(w.Requests), counted(w.Failed), counted(w.Unanswered), counted(w.FailedAway+w.UnansweredAway), some(w.Latency.P50, number.Millis), some(w.Latency.P99, number.Millis), some(w.Latency.Max, number.Millis), w.Why)
	}
	return []Section{{ID: "faults", Title: "Faults", Tables: faults.list()}, {ID: "outages", Title: "Outages", Tables: outages.list()}, {ID: "deliveries", Title: "Messages, stream lines and turns", Tables: deliveries.list()},
		{ID: "intent", Title: "Changes of intent", Tables: changes.list()}, {ID: "operators", Title: "People at work", Tables: people.list()}}
}

// Letter names a fault in charts and tables: A, B, C …
func Letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return fmt.Sprint("F", i+1)
}

// Every returns the interval of a repeated change of intent, in words, or an empty text if it was made once.
func (rep *Report) Every(change int) string {
	if s := rep.Scenario; s != nil && change < len(s.Intent) && s.Intent[change].Every > 0 {
		return ", then every " + s.Intent[change].Every.String()
	}
	return ""
}

// ledgerSection returns the section about the comparison with the ledger.
func (rep *Report) ledgerSection() Section {
	b := rep.Balance
	s := Section{ID: "ledger", Title: "Ledger"}
	say := func(format string, args ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, args...)) }
	n := number.Count[uint64]
	if x := rep.Signals; x != nil {
		wrong := Table{Head: []string{"wrong", "times", "example"}}
		for _, f := range x.Findings {
			wrong.add(string(f.Kind), number.Count(f.Count), f.Example)
		}
		s.Tables = wrong.list()
		if rep.alone() {
			say("%s acknowledged in all; compared: %s", number.Of(b.Acknowledged, "result"), cmp.Or(x.Compared, "nothing"))
			return s
		}
		for _, f := range x.Flows {
			say("%s %ss acknowledged in a second, half within %s, 99 of 100 within %s", number.Count(f.Rate), f.Unit, number.Millis(f.Latency.P50), number.Millis(f.Latency.P99))
		}
		say("compared of these: %s", cmp.Or(x.Compared, "nothing"))
	}
	held, sent := "", n(b.Sent)+" sent"
	if rep.Signals != nil {
		sent = n(b.Sent) + " signals sent"
	}
	if b.Stopped > 0 {
		held = fmt.Sprintf(" + %s held by machines that stayed dead", n(b.Stopped))
	}
	say("%s = %s acknowledged + %s refused%s + %s missing", sent, n(b.Acknowledged), n(b.Refused), held, n(b.Missing))
	if b.WasCompared() {
		say("%s event states compared, %d differ", number.Count(b.Compared), b.Differ)
	} else {
		say("not compared with the server's states")
	}
	if not := b.OrderNotCompared(); not != "" {
		say("the order of results not compared for %s", not)
	}
	for _, c := range []struct {
		n    uint64
		what string
	}{{b.Unsure, "results of which an answer was lost and that may have been refused"}, {rep.Resent, rep.sent() + " sent again after a connection broke"}, {rep.Repeated, "acknowledged " + rep.sent() + " sent again on purpose"}, {rep.SpoolFull, rep.Offers() + " not made: spools were full"}, {uint64(rep.Slowed), "times that an agent was asked to slow down"}} {
		if c.n > 0 {
			say("%s %s", n(c.n), c.what)
		}
	}
	if t := rep.Targeted; t != nil {
		say("%s requests came, %s were missing, %s not to be answered; %s connections lost, %s not opened", n(t.Requests), n(t.Missed), n(t.Dropped), n(t.Totals.Lost), n(t.Failed))
	}
	kinds := Table{Name: "Wrong", Head: []string{"imbalance", "times"}}
	for _, k := range slices.Sorted(maps.Keys(b.Kinds)) {
		kinds.add(k, n(b.Kinds[k]))
	}
	examples := Table{Name: "Examples", Head: []string{"node", "check", "number", "problem"}}
	for _, e := range b.Examples {
		examples.add(fmt.Sprintf("%s (%d)", e.Name, e.Node), fmt.Sprintf("%s (%d)", e.CheckName, e.Check), counted(e.Number), e.Problem)
	}
	s.Tables = append(append(s.Tables, kinds.list()...), examples.list()...)
	return s
}

// usageSection returns the section about the use of the machine.
func (rep *Report) usageSection() Section {
	t := Table{Head: []string{"process", "cores", "CPU per result", "resident", "per agent", "goroutines per agent", "waiting for locks", "agents", "lag p99", "clock off by at most"}}
	add := func(name string, u Usage, each, goroutines float64, more ...string) {
		t.add(append([]string{name, some(u.Cores, number.Three), some(u.MicrosPerItem, micros), some(float64(u.RSS), number.Bytes), some(each, number.Bytes), some(goroutines, number.Three), some(u.LockShare, number.Percent)}, more...)...)
	}
	if rep.Server.RSS > 0 {
		add("server", rep.Server, rep.SessionBytes, 0, "", "", "")
	}
	add("loader", rep.Loader, rep.AgentBytes, rep.Goroutines, "", "", "")
	for i, l := range rep.Loaders {
		add(fmt.Sprintf("loader %d, %s", i+1, l.where()), l.Usage, l.AgentBytes, 0, number.Count(l.Agents), some(l.Lag.P99, number.Millis), some(l.Clock, number.Millis))
	}
	s := Section{ID: "usage", Title: "Use of the machine", Tables: t.list()}
	if rep.Server.RSS > 0 && rep.Machine.Cores > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("server and loader used %s of %d cores, others %s cores", number.Percent(rep.machineShare()), rep.Machine.Cores, number.Three(rep.Others)))
	}
	if x := rep.Signals; x != nil {
		if u := x.Startup; u.RSS > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("the server was ready after %s with %s of CPU, %s resident", number.Seconds(u.Seconds), number.Seconds(u.CPU), number.Bytes(float64(u.RSS))))
		}
		if x.Heap > 0 && rep.alone() {
			s.Notes = append(s.Notes, fmt.Sprintf("heap of the server behind a collection: %s, %s for each %s", number.Bytes(x.Heap), number.Bytes(x.Heap/float64(x.Items)), rep.source()))
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("all agents connected within %s, and held their checks after %s", number.Seconds(rep.ConnectSeconds), number.Seconds(rep.ReadySeconds)))
	if c := rep.Calls; c != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("%s reads, %s writes and %s fsyncs a second; %s frames per read, %s signals per frame, %s signals per commit", number.Count(c.Reads), number.Count(c.Writes), number.Three(c.Syncs), number.Three(c.FramesPerRead), number.Three(rep.Batch.Mean), number.Count(c.ResultsPerCommit)))
	}
	if d := rep.Disk; d != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("written to disk: %s a day; %s journal, %s snapshots", number.Bytes(d.PerDay), number.Percent(ratio(float64(d.Journal), float64(d.Written))), number.Percent(ratio(float64(d.Snapshots), float64(d.Written)))))
	}
	return s
}

// appendix returns the sections of the page alone: all figures by their names, as in objectives and comparisons; refused results
// and failed connections; the conditions of the run; the server's metrics.
func (rep *Report) appendix() []Section {
	figures, all := Table{Head: []string{"figure", "value", "meaning"}}, rep.Figures()
	for _, f := range scenario.Figures() {
		if v, ok := all[f.Name]; ok {
			figures.add(f.Name, number.In(v, f.Unit), f.What)
		}
	}
	refusals := Table{Head: []string{"reason", "results refused", "connections not opened", "sessions ended"}}
	for i, m := range []map[string]uint64{rep.Refusals, rep.Failures, rep.Losses} {
		for _, why := range slices.Sorted(maps.Keys(m)) {
			row := []string{why, "", "", ""}
			row[i+1] = number.Count(m[why])
			refusals.add(row...)
		}
	}
	m, e := rep.Machine, cmp.Or(rep.Environment, &Environment{})
	commit, fsync := rep.Commit, ""
	if rep.Dirty {
		commit += ", with changes that no commit has"
	}
	if f := e.Fsync; f.Max > 0 {
		fsync = fmt.Sprintf("p50 %s, p99 %s, slowest %s, of 4 kB before the run", number.Millis(f.P50), number.Millis(f.P99), number.Millis(f.Max))
	}
	environment := pairs("", "Processor", m.CPU, "Cores", counted(m.Cores), "Memory", some(float64(m.Memory), number.Bytes), "Kernel", m.Kernel, "Virtual", e.Virtual, "Load before the run", m.Load,
		"File system", e.FileSystem, "Device", e.Device, "fsync", fsync, "Muster", rep.Version, "Commit", commit, "Go", m.Go)
	environment = append(append(append(environment, pairsOf("Server", e.Server)...), pairsOf("Other programs", e.Packages)...), pairsOf("Limits of the machine", e.Limits)...)
	metrics := map[string]string{}
	for name, v := range rep.Metrics {
		metrics[name] = number.Three(v)
	}
	list := []Section{{ID: "figures", Title: "All figures", Tables: figures.list()}, {ID: "refusals", Title: "Refusals and lost connections", Tables: refusals.list()}, {ID: "environment", Title: "Machine and programs", Tables: environment},
		{ID: "metrics", Title: "Metrics of the server", Tables: pairsOf("Gain of counters over the measured time, gauges at its end", metrics)}}
	for i := range list {
		list[i].PageOnly = true
	}
	return list
}
