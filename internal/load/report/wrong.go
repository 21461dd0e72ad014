package report

import (
	"cmp"
	"fmt"

	"github.com/muster-fleet/muster/internal/load/number"
)

// Kinds of what is wrong, whatever the objectives: worse than anything that was slow.
const (
	WrongResults  = "results"  // lost, made up, come twice, or held otherwise than they were sent
	WrongTaken    = "taken"    // results that had to be refused, and were acknowledged
	WrongAlerts   = "alerts"   // of what the fault script did: missing, or too many
	WrongSilence  = "silence"  // alerts that a machine is silent, which had its session
	WrongMessages = "messages" // about problems of checks: missing, or too many
	WrongLines    = "lines"    // of the stream of results: missing, out of order, made up, of another state, or not to be read
	WrongTurns    = "turns"    // of checks with roundRobin that nobody ran, or that two were given at once
	WrongSignals  = "signals"  // values or runs of directives: lost, doubled, or other than the plan
)

// WrongKinds returns all kinds, the most important first.
func WrongKinds() []string {
	return []string{WrongResults, WrongTaken, WrongAlerts, WrongSilence, WrongMessages, WrongLines, WrongTurns, WrongSignals}
}

// Wrong holds the number of wrong results or alerts of one kind in a run.
type Wrong struct {
	Kind  string
	Count uint64
	Says  []string // sentences
}

// question asks whether all things of one kind that were due came out right. Its Wrong counts those that did not.
type question struct {
	Wrong
	what, asked string // as an objective
	due         uint64
	judged      bool // else it is an objective only where something is wrong
}

// says adds a count of wrong things with a sentence about them. A count of 0 adds nothing.
func (q *question) says(count uint64, format string, args ...any) {
	if count > 0 {
		q.Count += count
		q.Says = append(q.Says, fmt.Sprintf(format, args...))
	}
}

// questions returns the questions of every run, and those that the scenario asks, in the order of WrongKinds.
func (rep *Report) questions() (list []*question) {
	ask := func(kind, what, asked string, due uint64, judged bool) *question {
		list = append(list, &question{Wrong: Wrong{Kind: kind}, what: what, asked: asked, due: due, judged: judged})
		return list[len(list)-1]
	}
	b := cmp.Or(rep.Balance, &Balance{})
	q := ask(WrongResults, "results", "none lost, doubled or invented", b.Sent, !rep.alone())
	q.Count, q.Says = b.Missing+b.Imbalances, b.sentences(rep.sent())
	q = ask(WrongTaken, "frames to refuse", "each refused", rep.WrongSent, rep.WrongSent > 0)
	q.says(rep.WrongTaken, "%d of %d %s that had to be refused were taken", rep.WrongTaken, rep.WrongSent, rep.sent())
	q = ask(WrongAlerts, "alerts of faults", "each once, and no other", 0, false)
	for i := range rep.Faults {
		f := &rep.Faults[i]
		q.due += uint64(f.Alerts)
		q.judged = q.judged || f.Alerts > 0
		q.says(uint64(f.Missing+f.Extra), "%s: %d of %d alerts did not come, %d came that should not have; %s", f.What, f.Missing, f.Alerts, f.Extra, f.Example)
	}
	if s := rep.Silent; s != nil {
		q = ask(WrongSilence, "machines with a session", "none called silent", uint64(s.Machines), s.Unjudged == "")
		q.says(uint64(s.Extra), "%s that machines are silent came while they had their sessions, such as %s", number.Of(s.Extra, "alert"), s.Example)
	}
	if t := rep.Notifications; t != nil {
		q = ask(WrongMessages, "messages about problems", "each, and no other", t.Due, true)
		q.says(t.Missing+t.Extra, "%d of %d messages did not come, %d came that should not have; %s", t.Missing, t.Due, t.Extra, t.Example)
	}
	if s := rep.Streamed; s != nil {
		q = ask(WrongLines, "lines of the stream", "each, in its order", s.Lines+s.Missing, true)
		q.says(s.Missing+s.Disorder+s.Extra+s.Other+s.Unread, "of the lines of the stream %d did not come, %d came out of order, %d came of no acknowledged result, %d name another node, check or status than it, %d could not be read; %s",
			s.Missing, s.Disorder, s.Extra, s.Other, s.Unread, s.Example)
	}
	if t := rep.Turns; t != nil {
		q = ask(WrongTurns, "turns", "none missed, none given twice", t.Due, true)
		q.says(t.Twice, "%s given again, though who had them had his session and time left, or had run them; the first: %s", number.Of(t.Twice, "turn"), t.Second)
		q.says(t.Missed, "%d of %d turns were not run, and nobody took them over in time; the first: %s", t.Missed, t.Due, t.Example)
	}
	if s := rep.Signals; s != nil {
		q = ask(WrongSignals, "values and runs", "none lost, doubled or wrong", uint64(s.Items), s.Compared != "")
		if rep.alone() {
			q.what, q.due = "results", b.Acknowledged
		}
		for _, f := range s.Findings {
			q.says(uint64(f.Count), "%s: %s (%s)", f.Kind, number.Count(f.Count), f.Example)
		}
	}
	return list
}

// Wrongs lists the wrong results and alerts of a run by kind, in the order of WrongKinds; empty if all was right.
type Wrongs []Wrong

// Wrong returns the wrong results and alerts of the run; verdicts, exit codes, comparisons, sizes, the page and the
// tables use it.
func (rep *Report) Wrong() (list Wrongs) {
	for _, q := range rep.questions() {
		if q.Count > 0 {
			list = append(list, q.Wrong)
		}
	}
	return list
}

// Lost reports whether a result was lost, doubled or invented, an alert was missing or unexpected, or a wrong result
// was accepted. Losses are worse than slowness. Reports of older programs do not tell accepted wrong results.
func (rep *Report) Lost() bool { return len(rep.Wrong()) > 0 }

// Of returns the number of wrong results and alerts of some kinds.
func (list Wrongs) Of(kinds ...string) (n uint64) {
	for _, w := range list {
		for _, kind := range kinds {
			if w.Kind == kind {
				n += w.Count
			}
		}
	}
	return n
}

// Sentences describes all kinds in sentences.
func (list Wrongs) Sentences() (all []string) {
	for _, w := range list {
		all = append(all, w.Says...)
	}
	return all
}
