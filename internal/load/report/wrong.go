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

// Wrongs lists the wrong results and alerts of a run by kind, in the order of WrongKinds; empty if all was right.
type Wrongs []Wrong

// Wrong returns the wrong results and alerts of the run; verdicts, exit codes, comparisons, sizes, the page and the
// tables use it.
func (rep *Report) Wrong() (list Wrongs) {
	say := func(kind string, count uint64, format string, args ...any) {
		switch n := len(list); {
		case count == 0:
		case n > 0 && list[n-1].Kind == kind:
			list[n-1].Count += count
			list[n-1].Says = append(list[n-1].Says, fmt.Sprintf(format, args...))
		default:
			list = append(list, Wrong{kind, count, []string{fmt.Sprintf(format, args...)}})
		}
	}
	if b := cmp.Or(rep.Balance, &Balance{}); !b.OK() {
		list = append(list, Wrong{WrongResults, b.Missing + b.Imbalances, b.sentences(rep.sent())})
	}
	say(WrongTaken, rep.WrongTaken, "%d of %d %s that had to be refused were taken", rep.WrongTaken, rep.WrongSent, rep.sent())
	for i := range rep.Faults {
		f := &rep.Faults[i]
		say(WrongAlerts, uint64(f.Missing+f.Extra), "%s: %d of %d alerts did not come, %d came that should not have; %s", f.What, f.Missing, f.Alerts, f.Extra, f.Example)
	}
	if s := rep.Silent; s != nil {
		say(WrongSilence, uint64(s.Extra), "%s that machines are silent came while they had their sessions, such as %s", number.Of(s.Extra, "alert"), s.Example)
	}
	if t := rep.Notifications; t != nil {
		say(WrongMessages, t.Missing+t.Extra, "%d of %d messages did not come, %d came that should not have; %s", t.Missing, t.Due, t.Extra, t.Example)
	}
	if s := rep.Streamed; s != nil {
		say(WrongLines, s.Missing+s.Disorder+s.Extra+s.Other+s.Unread, "of the lines of the stream %d did not come, %d came out of order, %d came of no acknowledged result, %d name another node, check or status than it, %d could not be read; %s",
			s.Missing, s.Disorder, s.Extra, s.Other, s.Unread, s.Example)
	}
	if t := rep.Turns; t != nil {
		say(WrongTurns, t.Twice, "%s given again, though who had them had his session and time left, or had run them; the first: %s", number.Of(t.Twice, "turn"), t.Second)
		say(WrongTurns, t.Missed, "%d of %d turns were not run, and nobody took them over in time; the first: %s", t.Missed, t.Due, t.Example)
	}
	if s := rep.Signals; s != nil {
		for _, f := range s.Findings {
			say(WrongSignals, uint64(f.Count), "%s: %s (%s)", f.Kind, number.Count(f.Count), f.Example)
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
