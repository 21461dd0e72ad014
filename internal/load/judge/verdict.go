package judge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
)

// Checks judges a run of checks and returns its report: the figures that were measured, the findings, and the verdict. The
// log of a loader that was killed has no ledgers: its report has the figures of the seconds until then.
func Checks(c *observe.Checks) (*report.Report, error) {
	m, err := c.Measured, error(nil)
	if m == nil {
		m, err = killed(c)
	}
	if err != nil {
		return nil, err
	}
	rep := *cmp.Or(m.Report, c.Start.Report)
	rep.Verdict, rep.Label, rep.Faults = nil, slices.Clone(rep.Label), Faults(c)
	t := newTimetable(c, &rep)
	t.phases()
	if c.Measured != nil && len(c.Ledgers) > 0 { // else some ledgers may be missing
		rep.Balance = Sums(c.Ledgers)
		rep.Outages = Outages(c.Ledgers, c.Faults, c.Ready, c.Score.End())
		for i := range rep.Outages {
			rep.Outages[i].Second -= time.Duration(c.Score.Zero()).Seconds()
		}
	}
	if c.Viewed {
		if rep.Balance, err = balance(c); err != nil {
			return nil, err
		}
	}
	if len(c.Intent) > 0 {
		rep.Changes = Intent(t.sc.Intent, c.Intent)
	}
	if s := c.Silence; s != nil {
		rep.Silent = Silence(c.Ledgers, s.Problems, s.From)
		rep.Silent.Behind, rep.Silent.Unjudged = s.Behind, s.Unread
		rep.Label = append(rep.Label, rep.Silent.Labels()...)
	}
	if a := c.Alerts; a != nil {
		Alerts(a, rep.Faults)
	}
	if x := c.RoundRobin; x != nil {
		if rep.Turns, err = RoundRobin(x, c.Ledgers); err != nil {
			return nil, fmt.Errorf("judge an observation log: %w", err)
		}
	}
	t.signals()
	if stalls := Stalls(rep.Samples); stalls != "" {
		rep.Label = append(rep.Label, stalls)
	}
	t.verdict(m)
	return &rep, nil
}

// killed returns a last line for a run whose loader was killed, ending at its last second.
func killed(c *observe.Checks) (*observe.Measured, error) {
	seconds := len(c.Samples)
	if seconds == 0 {
		return nil, errors.New("judge an observation log: it has no second, for the loader ended in the first one")
	}
	end, last, rep := int64(seconds)*int64(time.Second), &c.Samples[seconds-1], *c.Start.Report
	c.Score = slices.DeleteFunc(slices.Clone(c.Score), func(p plan.Part) bool { return p.From >= end })
	rep.Stopped = &report.Stopped{After: float64(seconds), Of: c.Start.Seconds, Phase: last.Phase, By: "the end of the loader, which was killed"}
	for i := range c.Score {
		p := &c.Score[i]
		if p.To > end {
			p.To, p.Short = end, true
		}
	}
	rep.Balance = &report.Balance{}
	for i := range c.Samples {
		rep.Balance.Sent += c.Samples[i].Sent
		rep.Balance.Acknowledged += c.Samples[i].Acked
		rep.Balance.Refused += c.Samples[i].Refused
	}
	rep.Label = append(slices.Clone(rep.Label), "the loader was killed: nothing is compared with the server, and alerts, turns and silence are not judged")
	return &observe.Measured{Report: &rep}, nil
}

// balance compares the ledgers with the event states of the server.
func balance(c *observe.Checks) (*report.Balance, error) {
	x, err := Compare(c.Ledgers, c.Before)
	if err == nil {
		err = c.After.Each(x.State)
	}
	if err != nil {
		return nil, fmt.Errorf("judge an observation log: %w", err)
	}
	return x.Balance(), nil
}

// verdict fills Valid, Goals and Verdict of the report; Verdict has a sentence for each fault. Its goals become those
// that were judged.
func (t *timetable) verdict(m *observe.Measured) {
	rep, maxLag := t.rep, t.rep.Plan.MaxLag
	rep.Valid = true
	say := func(format string, args ...any) { rep.Verdict = append(rep.Verdict, fmt.Sprintf(format, args...)) }
	invalid := func(format string, args ...any) {
		rep.Valid = false
		say("invalid: "+format, args...)
	}
	if rep.Stopped != nil {
		say("%s", rep.Stopped.Sentence())
	}
	switch lag := rep.Lag.P99; {
	case lag > maxLag && rep.Asked():
		invalid("answers took %.1f ms (p99) to leave, allowed %.0f ms: the loader fell behind, or %s did not take them", lag, maxLag, rep.Targeted.Name)
	case lag > maxLag:
		invalid("the generator fell behind (p99 %.1f ms after the due time, allowed %.0f ms): %s", lag, maxLag, whyBehind(rep, m.Senders))
	}
	if behind := loadersBehind(rep); len(behind) > 0 {
		invalid("of %d loaders these fell behind: %s; allowed are %.0f ms", len(rep.Loaders), strings.Join(behind, ", "), maxLag)
	}
	for _, late := range t.late {
		invalid("%s", late)
	}
	rep.Verdict = append(rep.Verdict, t.notes...)
	rep.Verdict = append(rep.Verdict, rep.Wrong().Sentences()...)
	rep.Trouble = trouble(rep, m)
	rep.Verdict = append(rep.Verdict, rep.Failed()...)
	rep.Verdict = append(rep.Verdict, rep.Late()...)
	rep.Goals = Judgeable(rep, append(rep.Judged(rep.Goals), phaseGoals(rep)...))
	for _, g := range rep.Goals {
		if g.Met {
			continue
		}
		say("short: %s", g)
		if lag := lagAt(rep, g); lag > maxLag && g.Why == "" {
			invalid("%s is not the server's alone: the generator itself was %.1f ms late there, allowed %.0f ms: %s", g.Name, lag, maxLag, whyBehind(rep, m.Senders))
		}
	}
}

// trouble returns sentences about failures of the server, of faults and of people.
func trouble(rep *report.Report, m *observe.Measured) (list []string) {
	for _, x := range [...]struct{ before, text string }{{"the server under test ended by itself: ", m.Fell}, {"what the server holds could not be read, and is not compared: ", m.Unread},
		{"", m.Renames}, {"a fault could not be played: ", m.Fault}} {
		if x.text != "" {
			list = append(list, x.before+x.text)
		}
	}
	if rep.SpoolFull > 0 {
		list = append(list, fmt.Sprintf("%d %s were not made: the server took less than was offered, and the agents' spools (%d kB each) were full", rep.SpoolFull, rep.Offers(), m.Spool/1000))
	}
	return append(list, people(rep, m.Intent)...)
}

// loadersBehind names the loaders that fell behind, with how far.
func loadersBehind(rep *report.Report) (list []string) {
	for i, l := range rep.Loaders {
		if l.Lag.P99 > rep.Plan.MaxLag {
			list = append(list, fmt.Sprintf("loader %d (%s, p99 %.1f ms)", i+1, cmp.Or(l.Name, "?"), l.Lag.P99))
		}
	}
	return list
}

// lagAt returns the generator's lag at the percentile of a goal above the 99th; zero for another goal.
func lagAt(rep *report.Report, g report.Goal) (ms float64) {
	lag := rep.Lag
	for i := range rep.Phases {
		if p := &rep.Phases[i]; g.Phase != "" && p.Name == g.Phase {
			lag = p.Lag
		}
	}
	return map[string]float64{"p999": lag.P999, "max": lag.Max}[g.Name]
}

// whyBehind names the processes that used the cores when the generator fell behind.
func whyBehind(rep *report.Report, senders int) string {
	cores := float64(rep.Machine.Cores)
	loader, server, others := rep.Loader.Cores, rep.Server.Cores, rep.Others
	shares := fmt.Sprintf("loader %.2f, server %.2f, others %.2f of %.0f cores", loader, server, others, cores)
	switch {
	case server == 0 && others == 0:
		return fmt.Sprintf("loader %.2f of %.0f cores; with --server-pid the report says who had the others", loader, cores)
	case loader+server+others < 0.85*cores:
		return fmt.Sprintf("the machine had room (%s), so its %d senders waited for each other or for the server's sockets", shares, senders)
	case others > max(loader, server) || others > 0.25*cores:
		return "something else used the machine (" + shares + ")"
	}
	return "the machine was full (" + shares + "): offer less, or generate on another machine"
}

// Judgeable returns the goals by which a stopped run can be judged: those measured in a complete phase.
func Judgeable(rep *report.Report, goals []report.Goal) []report.Goal {
	if rep.Stopped == nil {
		return goals
	}
	if rep.Stopped.Whole == 0 {
		return nil
	}
	var left []string
	goals = slices.DeleteFunc(goals, func(g report.Goal) bool {
		unknown := g.Why != "" && !g.Met
		if unknown {
			left = append(left, g.Name)
		}
		return unknown
	})
	if len(left) > 0 {
		rep.Label = append(rep.Label, "not judged, because the run was stopped before: "+strings.Join(left, ", "))
	}
	return goals
}

// people returns sentences about the requests of people and the changes of intent that failed. Requests while a fault had
// the server away may fail.
func people(rep *report.Report, intent string) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if intent != "" {
		say("intent could not be changed: %s", intent)
	}
	for _, h := range rep.Changes {
		if h.Never > 0 {
			say("%s: %d times an agent never held it", h.What, h.Never)
		}
		if n, all := h.Unasked-h.UnaskedAway, h.Changes+h.Unasked; 10*n > all {
			say("%s: %d of %d changes were not made by the end: the API had not answered those before", h.What, n, all)
		}
	}
	for _, w := range rep.Operators {
		if n := w.Failed - w.FailedAway; n > 0 {
			say("%d of %d requests of people who %s failed: %s", n, w.Requests, w.What, w.Why)
		}
		if n, all := w.Unanswered-w.UnansweredAway, w.Requests+w.Unanswered; 10*n > all {
			say("%d of %d requests of people who %s were not answered by the end", n, all, w.What)
		}
	}
	return list
}

// ofPhase returns the report of the results of one phase of a run.
func ofPhase(rep *report.Report, p *report.Played) *report.Report {
	return &report.Report{Machine: rep.Machine, Span: p.Span, Traffic: report.Traffic{Rate: p.Acknowledged}}
}

// figuresOf returns the figures of one phase: its own, those of the faults and outages that began in it, and the waits of people
// and agents in it.
func figuresOf(rep *report.Report, p *report.Played) map[string]float64 {
	one, whole := ofPhase(rep, p), *p
	whole.Kind, whole.Apart = "steady", false // here it is all there is
	one.Phases, one.Samples = []report.Played{whole}, report.Within(rep.Samples, p.From, p.To)
	began := func(at float64) bool { return at >= p.From && at < p.To }
	one.Faults = slices.DeleteFunc(slices.Clone(rep.Faults), func(f report.Struck) bool { return !began(f.At) })
	one.Outages = slices.DeleteFunc(slices.Clone(rep.Outages), func(o report.Outage) bool { return !began(o.Second) })
	all := one.Figures()
	for _, b := range p.Beside {
		if _, ok := all[b.Figure]; !ok && b.Class == "" && b.Value > 0 {
			all[b.Figure] = b.Value
		}
	}
	return all
}

// phaseGoals judges the objectives of single phases, each by the figures of its phase.
func phaseGoals(rep *report.Report) (list []report.Goal) {
	for i := range rep.Phases {
		p := &rep.Phases[i]
		list = append(list, report.Judged(report.Goals(p.Asked, p.Name), figuresOf(rep, p))...)
	}
	return list
}
