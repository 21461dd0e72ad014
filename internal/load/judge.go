package load

import (
	"fmt"
	"slices"
	"strings"
)

// judge fills Valid and Verdict: what is wrong, in sentences; empty when nothing is.
func (rep *Report) judge(c Config) {
	rep.Valid = true
	say := func(format string, args ...any) { rep.Verdict = append(rep.Verdict, fmt.Sprintf(format, args...)) }
	if rep.Stopped != nil {
		say("%s", rep.Stopped.sentence())
	}
	if lag := rep.Lag.P99; lag > ms(c.MaxLag) {
		rep.Valid = false
		say("invalid: the generator fell behind (p99 %.1f ms after the due time, allowed %.0f ms): %s", lag, ms(c.MaxLag), rep.whyBehind(c))
	}
	if behind := rep.behind(c); len(behind) > 0 {
		rep.Valid = false
		say("invalid: of %d loaders these fell behind: %s; allowed are %.0f ms", len(rep.Loaders), strings.Join(behind, ", "), ms(c.MaxLag))
	}
	rep.judgeApart()
	rep.Verdict = append(rep.Verdict, rep.Wrong().Sentences()...)
	rep.people = rep.judgePeople(c)
	rep.spool = c.Spool
	rep.Verdict = append(rep.Verdict, rep.Failed()...)
	rep.Verdict = append(rep.Verdict, rep.Late()...)
	rep.Goals = rep.judgeable(append(c.judge(rep), rep.phaseGoals()...))
	for _, g := range rep.Goals {
		if !g.Met {
			say("short: %s", g)
		}
	}
}

// whyBehind says who had the cores that the generator wanted.
func (rep *Report) whyBehind(c Config) string {
	cores := float64(rep.Machine.Cores)
	loader, server, others := rep.Loader.Cores, rep.Server.Cores, rep.Others
	shares := fmt.Sprintf("loader %.2f, server %.2f, others %.2f of %.0f cores", loader, server, others, cores)
	switch {
	case server == 0 && others == 0:
		return fmt.Sprintf("loader %.2f of %.0f cores; with --server-pid the report says who had the others", loader, cores)
	case loader+server+others < 0.85*cores:
		return fmt.Sprintf("the machine had room (%s), so its %d senders waited for each other or for the server's sockets", shares, c.Senders)
	case others > max(loader, server) || others > 0.25*cores:
		return "something else used the machine (" + shares + ")"
	}
	return "the machine was full (" + shares + "): offer less, or generate on another machine"
}

// OK: valid, nothing wrong, no goal missed, and played to the end. Of a report
// that was read, it is what it was for the run: not all that counted is in the file.
func (rep *Report) OK() bool {
	if rep.Passed != nil {
		return *rep.Passed
	}
	if rep.Stopped != nil {
		return false
	}
	for _, g := range rep.Goals {
		if !g.Met {
			return false
		}
	}
	return rep.Valid && !rep.Lost() && len(rep.Failed())+len(rep.Late()) == 0
}

// Failed are the sentences of what went wrong that was neither lost nor late: good results that
// were refused or not taken, people and pages that were not answered, intent that agents never
// held, renames and commands that failed. Of a report that was read they are not known.
func (rep *Report) Failed() (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if n := rep.Balance.Refused; n > rep.WrongSent {
		say("%d results were refused: %v", n-rep.WrongSent, rep.Refusals)
	}
	if rep.SpoolFull > 0 {
		say("%d results were not made: the server took less than was offered, and the agents' spools (%d kB each) were full", rep.SpoolFull, rep.spool/1000)
	}
	if rep.renames != "" {
		say("%s", rep.renames)
	}
	list = append(list, rep.Silent.unread()...)
	if rep.halfway != nil {
		say("what the run was to do in its middle failed: %v", rep.halfway)
	}
	list = append(list, rep.people...)
	if failed := slices.DeleteFunc(slices.Clone(rep.Pages), func(p Paged) bool { return p.Failed == "" }); len(failed) > 0 {
		say("%d of %d kinds of pages failed, such as %q: %s", len(failed), len(rep.Pages), failed[0].Name, failed[0].Failed)
	}
	return list
}

// Late are the sentences of times that were longer than asked, or than before.
func (rep *Report) Late() (list []string) {
	for i := range rep.Phases {
		if p := &rep.Phases[i]; p.Kind != kindStep {
			list = append(list, p.Missed...)
		}
	}
	return list
}
