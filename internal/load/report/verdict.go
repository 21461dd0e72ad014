package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// UsualLag and UsualSignalLag are the limits of the generator's lag (p99) beyond which figures say nothing of the server. A
// run of values or directives knows only the greatest lag of each second.
const (
	UsualLag       = 50 * time.Millisecond
	UsualSignalLag = 500 * time.Millisecond
)

// AllowLag sets the limit of the generator's lag, and labels a limit above the usual one.
func (rep *Report) AllowLag(limit, usual time.Duration) {
	rep.Plan.MaxLag = float64(limit) / 1e6
	if limit > usual {
		rep.Label = append(rep.Label, fmt.Sprintf("the generator was allowed to be %s late (p99), not %s: what is late is in the latencies, and may be its own", limit, usual))
	}
}

// OK reports whether the run is valid and complete, with nothing wrong and no goal missed.
func (rep *Report) OK() bool { return rep.Stopped == nil && rep.well() }

// well reports whether nothing is wrong in the played part of the run.
func (rep *Report) well() bool {
	return rep.Valid && !rep.Lost() && len(rep.Failed())+len(rep.Late()) == 0 && rep.missed() == 0
}

// missed returns the number of goals that were missed.
func (rep *Report) missed() (n int) {
	for _, g := range rep.Goals {
		if !g.Met {
			n++
		}
	}
	return n
}

// Failed returns sentences about failures that are neither losses nor late: trouble of the server, of faults and of
// people, good results that were refused or not taken, steps of which none held, and requests or connections of a
// system under test that were missing or lost.
func (rep *Report) Failed() (list []string) {
	list = append(list, rep.Trouble...)
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if n := rep.Balance.Refused; n > rep.WrongSent {
		say("%d %s were refused: %v", n-rep.WrongSent, rep.sent(), rep.Refusals)
	}
	if t := rep.Targeted; t != nil && t.Missed > 0 {
		say("%d requests of %d did not come in their interval", t.Missed, t.Missed+t.Requests)
	}
	if t := rep.Targeted; t != nil && t.Totals.Lost > 0 {
		say("%d connections were lost", t.Totals.Lost)
	}
	if why := rep.noneHeld(); why != "" {
		say("%s", why)
	}
	return append(list, rep.Silent.unread()...)
}

// Late returns sentences about times that were longer than asked, or than before.
func (rep *Report) Late() (list []string) {
	for i := range rep.Phases {
		if p := &rep.Phases[i]; p.Kind != KindStep {
			list = append(list, p.Missed...)
		}
	}
	return list
}

// noneHeld returns why a complete run has no figures: not even its first step held; empty if some phase counts.
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

// Stopped tells how long a run lasted that was stopped early. The phase that it cut short is shown, and not judged.
type Stopped struct {
	After float64 `json:"after"`           // seconds since the timetable began, warm-ups included …
	Of    float64 `json:"of"`              // … and how many they were to be
	Phase string  `json:"phase,omitempty"` // the one that was cut short
	Whole int     `json:"whole"`           // measured phases, or steps, that were played to their end
	By    string  `json:"by,omitempty"`    // who or what ended the run; empty: whoever began it
}

// String returns a short text for titles: stopped after 3m20s of 10m0s.
func (s *Stopped) String() string {
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)).Round(time.Second) }
	text := fmt.Sprintf("stopped after %s of %s", seconds(s.After), seconds(s.Of))
	if s.By != "" {
		text += " by " + s.By
	}
	return text
}

// Sentence returns the sentence for the verdict.
func (s *Stopped) Sentence() string {
	name := cmp.Or(s.Phase, "the phase that was played")
	if s.Whole == 0 {
		return fmt.Sprintf("%s: no phase was played to its end, and no objective is judged", s)
	}
	return fmt.Sprintf("%s: %s was cut short and is not judged", s, name)
}

// OnlyStopped reports whether a run was stopped and nothing else is wrong.
func (rep *Report) OnlyStopped() bool { return rep.Stopped != nil && rep.well() }
