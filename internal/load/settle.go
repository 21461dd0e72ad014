package load

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

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
