package report

import (
	"fmt"
	"strings"
)

// OK: valid, nothing wrong, no goal missed, and played to the end. Of a report
// that was read, it is what it was for the run: not all that counted is in the file.
func (rep *Report) OK() bool {
	if rep.Passed != nil {
		return *rep.Passed
	}
	return rep.Stopped == nil && rep.well()
}

// well says whether nothing is wrong with what was played, to the end or not.
func (rep *Report) well() bool {
	for _, g := range rep.Goals {
		if !g.Met {
			return false
		}
	}
	return rep.Valid && !rep.Lost() && len(rep.Failed())+len(rep.Late()) == 0
}

// Failed are the sentences of what went wrong that was neither lost nor late: a server that crashed,
// or did not say what it holds; good results that were refused or not taken, people that
// were not answered, intent that agents never held, renames and commands that failed, steps of which
// none held; of a system that asks: what it did not ask for, and connections that it lost. Of a
// report that was read not all of them are known.
func (rep *Report) Failed() (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if rep.Unsaved.Fell != "" {
		say("the server under test ended by itself: %s", rep.Unsaved.Fell)
	}
	if rep.Unsaved.Unread != nil {
		say("what the server holds could not be read, and is not compared: %v", rep.Unsaved.Unread)
	}
	if n := rep.Balance.Refused; n > rep.WrongSent {
		say("%d results were refused: %v", n-rep.WrongSent, rep.Refusals)
	}
	if rep.SpoolFull > 0 {
		say("%d results were not made: the server took less than was offered, and the agents' spools (%d kB each) were full", rep.SpoolFull, rep.Unsaved.Spool/1000)
	}
	if t := rep.Targeted; t != nil && t.Missed > 0 {
		say("%d requests of %d did not come in their interval", t.Missed, t.Missed+t.Requests)
	}
	if t := rep.Targeted; t != nil && t.Totals.Lost > 0 {
		say("%d connections were lost", t.Totals.Lost)
	}
	if rep.Unsaved.Renames != "" {
		say("%s", rep.Unsaved.Renames)
	}
	if why := rep.noneHeld(); why != "" {
		say("%s", why)
	}
	list = append(list, rep.Silent.unread()...)
	if rep.Unsaved.Fault != nil {
		say("a fault could not be played: %v", rep.Unsaved.Fault)
	}
	list = append(list, rep.Unsaved.People...)
	return list
}

// Late are the sentences of times that were longer than asked, or than before.
func (rep *Report) Late() (list []string) {
	for i := range rep.Phases {
		if p := &rep.Phases[i]; p.Kind != KindStep {
			list = append(list, p.Missed...)
		}
	}
	return list
}

// noneHeld says of a run that is over why it has no figures: it was of steps, and not even the first
// held. Empty: something counts.
func (rep *Report) noneHeld() string {
	if rep.Stopped != nil || len(rep.Counting()) > 0 {
		return ""
	}
	for i := range rep.Phases {
		if p := &rep.Phases[i]; p.Kind == KindStep && len(p.Missed) > 0 {
			return fmt.Sprintf("no step held, and nothing else was measured; the first, %s: %s", p.Name, strings.Join(p.Missed, "; "))
		}
	}
	return ""
}
