package load

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

// lateShare is which part of a phase's length the generator may fall behind in a phase that
// is meant to break, in the return from it, and where faults strike: so much less than was meant is offered, and
// all is timed from when it was meant to be sent.
const lateShare = 20

// judgeFound judges part i, whose rate is of the saturation that steps found: whether they
// found one, and whether what was meant to break something did.
func (w *watch) judgeFound(p *report.Played, i int) {
	r, s := w.run, w.run.present()
	phase := &r.cfg.Scenario.Phases[s[i].phase]
	note := func(format string, args ...any) {
		w.rep.notes = append(w.rep.notes, p.Name+": "+fmt.Sprintf(format, args...))
	}
	switch broke, ok := w.brokeBefore(s[i].phase); {
	case ok && !w.anyHeld(broke):
		if r.cfg.Scenario.Phases[s[i].phase-1].Of != "" {
			break // said of the one before
		}
		p.Missed = append(p.Missed, fmt.Sprintf("%s: nobody knows what it and what follows are rates of: not even the first step held", p.Name))
	case phase.Beyond():
		if why := w.noOverload(i); why != "" {
			note("this was no overload: %s", why)
		} else if p.Acknowledged >= report.Enough*p.Offered {
			note("a mild overload: answers were late, and nothing piled up (%.1f %% were acknowledged while it lasted)", 100*p.Acknowledged/p.Offered)
		}
	}
}

// judgeLate says whether the generator kept up as far as it must in part i, which is judged by
// itself.
func (w *watch) judgeLate(p *report.Played, i int) {
	r, s := w.run, w.run.present()
	limit := max(r.cfg.MaxLag, time.Duration(s[i].to-s[i].from)/lateShare)
	if p.Lag.P99 > ms(limit) {
		w.rep.late = append(w.rep.late, fmt.Sprintf("%s: the generator fell behind (p99 %.1f ms after the due time, allowed %.0f ms, a twentieth of the phase), and offered less than it says",
			p.Name, p.Lag.P99, ms(limit)))
	}
}

// noOverload says why part i, which was meant to break something, did not; empty: it did.
func (w *watch) noOverload(i int) string {
	switch _, ok := w.brokeBefore(w.run.present()[i].phase); {
	case !ok:
		return "of the steps before it none broke"
	case len(w.broken(i)) == 0:
		return "it was carried like the steps that held"
	case len(w.beyond(i)) == 0:
		return "the generator fell behind, the server did not"
	}
	return ""
}

// nothingBroke says whether the phase before part i's was meant to break something, and did
// not: then part i returns from nothing.
func (w *watch) nothingBroke(i int) bool {
	s := w.run.present()
	if !w.run.cfg.Scenario.Returns(s[i].phase) {
		return false
	}
	for k := i - 1; k >= 0; k-- {
		if s[k].measured && s[k].phase < s[i].phase {
			return w.noOverload(k) != ""
		}
	}
	return true
}

// anyHeld says whether a step before the one that broke held.
func (w *watch) anyHeld(broke int) bool {
	_, ok := w.held(broke)
	return ok
}

// sayRepeated says of part i, where it is a step that was played once more and held, why it was.
func (w *watch) sayRepeated(i int) {
	s := w.run.present()
	if !s[i].again || len(w.bad[i]) > 0 {
		return
	}
	for k := i - 1; k >= 0; k-- {
		if s[k].rate == s[i].rate && len(w.bad[k]) > 0 {
			w.rep.notes = append(w.rep.notes, fmt.Sprintf("%s broke at first (%s), was played once more, and held", w.run.phaseName(s[k]), strings.Join(w.bad[k], "; ")))
			return
		}
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

// A phase that must settle is compared, second by second, with the phase before the one
// before it: steady, overload, return.

// judgePhase says what a phase missed by itself: settling, or staying as it was.
func (w *watch) judgePhase(p *report.Played, i int) {
	phase := &w.run.cfg.Scenario.Phases[w.run.present()[i].phase]
	own := report.Within(w.rep.Samples, p.From, p.To)
	if phase.Settle > 0 {
		w.judgeReturn(p, i, own)
	}
	if phase.Of != "" {
		w.judgeFound(p, i)
	}
	if w.run.apart(w.run.present()[i].phase) {
		w.judgeLate(p, i)
	}
	if p.Kind == report.KindSoak {
		p.Missed = append(p.Missed, report.Drift(p.Name, own)...)
	}
}

// judgeReturn says what of settling part i missed: all of it, where it had nothing to return
// to or from.
func (w *watch) judgeReturn(p *report.Played, i int, own []report.Sample) {
	miss := func(format string, args ...any) {
		p.Missed = append(p.Missed, p.Name+": "+fmt.Sprintf(format, args...))
	}
	n := len(w.rep.Phases)
	if n < 2 {
		miss("whether it settles was not measured: two phases have to be before it")
		return
	}
	before := w.rep.Phases[n-2]
	if w.nothingBroke(i) {
		miss("whether it settles was not measured: %s was no overload", w.rep.Phases[n-1].Name)
		return
	}
	if wrong := append(slices.Clone(before.Missed), w.run.cfg.misses(&before)...); len(wrong) > 0 {
		miss("whether it settles was not measured: %s, which it returns to, was not as asked itself (%s)", before.Name, strings.Join(wrong, "; "))
		return
	}
	seconds, swung := report.Settled(report.Within(w.rep.Samples, before.From, before.To), own)
	p.Settled = float64(seconds)
	switch limit := time.Duration(w.run.cfg.Scenario.Phases[w.run.present()[i].phase].Settle); {
	case seconds < 0:
		miss("latency and queues were never as in %s again", before.Name)
	case float64(seconds) > limit.Seconds():
		miss("latency and queues were as in %s after %d s, asked %s", before.Name, seconds, limit)
	case swung*10 > swings*len(own):
		miss("swings: %d seconds of %d were not as in %s after it had settled", swung, len(own), before.Name)
	}
}

// swings is how many seconds in ten may be otherwise after that.
const swings = 1
