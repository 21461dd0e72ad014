package load

import (
	"fmt"
	"time"
)

// lateShare is which part of a phase's length the generator may fall behind in a phase that
// is meant to break, and in the return from it: so much less than was meant is offered, and
// all is timed from when it was meant to be sent.
const lateShare = 20

// judgeFound judges part i, whose rate is of the saturation that steps found: whether they
// found one, whether what was meant to break something did, and whether the generator kept
// up as far as it must.
func (w *watch) judgeFound(p *Played, i int) {
	r, s := w.run, w.run.present()
	phase := &r.cfg.Scenario.Phases[s[i].phase]
	note := func(format string, args ...any) {
		w.rep.notes = append(w.rep.notes, p.Name+": "+fmt.Sprintf(format, args...))
	}
	switch broke, ok := w.brokeBefore(s[i].phase); {
	case !ok && phase.Beyond():
		note("this was no overload: of the steps before it none broke")
	case ok && (broke == 0 || s[broke-1].phase != s[broke].phase):
		if r.cfg.Scenario.Phases[s[i].phase-1].Of != "" {
			break // said of the one before
		}
		p.Missed = append(p.Missed, fmt.Sprintf("%s: nobody knows what it and what follows are rates of: not even the first step held", p.Name))
	case phase.Beyond() && len(w.broken(i)) == 0:
		note("this was no overload: it was carried like the steps that held")
	}
	if !r.apart(s[i].phase) {
		return
	}
	limit := max(r.cfg.MaxLag, time.Duration(s[i].to-s[i].from)/lateShare)
	if p.Lag.P99 > ms(limit) {
		w.rep.late = append(w.rep.late, fmt.Sprintf("%s: the generator fell behind (p99 %.1f ms after the due time, allowed %.0f ms, a twentieth of the phase), and offered less than it says",
			p.Name, p.Lag.P99, ms(limit)))
	}
}

// brokeBefore is the part that broke of the steps before a phase; false: none did.
func (w *watch) brokeBefore(phase int) (part int, ok bool) {
	for k := phase - 1; k >= 0; k-- {
		if w.run.cfg.Scenario.Phases[k].Step > 0 {
			part, ok = w.steps[k]
			return part, ok
		}
	}
	return 0, false
}

// judgeApart says what was found of the phases that are judged by themselves.
func (rep *Report) judgeApart() {
	for _, b := range rep.late {
		rep.Valid = false
		rep.Verdict = append(rep.Verdict, "invalid: "+b)
	}
	rep.Verdict = append(rep.Verdict, rep.notes...)
}
