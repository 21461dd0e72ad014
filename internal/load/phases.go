package load

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// phaseAt returns the name and the number, from 1, of the phase at a time, or an empty name and 0.
func (r *run) phaseAt(at int64) (name string, nth int) {
	s := r.present()
	if i := s.at(at); i >= 0 {
		return s[i].Name(r.cfg.Scenario), s[i].Phase + 1
	}
	return "", 0
}

// since converts a time to seconds since the measurement began.
func (r *run) since(at int64) float64 { return time.Duration(at - r.present().zero()).Seconds() }

// pass records the use of loader and server at the start and end of parts, and judges steps.
func (w *watch) pass(now int64) {
	s := w.run.present()
	for n := w.passed; n <= len(s) && len(s) > 0; n++ {
		at := s.end()
		if n < len(s) {
			at = s[n].From
		}
		if now < at {
			break
		}
		w.edges <- edge{observe.Edge{Part: n, SoFar: w.run.usage()}, n < len(s) && s[n].Measured || n > 0 && s[n-1].Measured}
		w.passed++
	}
	w.step(now)
}

// finish logs the counts since the last second, and judges the last step.
func (w *watch) finish() {
	w.run.logSecond(w.seconds, nil)
	w.step(never)
}
