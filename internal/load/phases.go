package load

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// phaseAt is the name of the phase of an instant, and its number in the scenario, from 1; empty
// and 0: none.
func (r *run) phaseAt(at int64) (name string, nth int) {
	s := r.present()
	if i := s.at(at); i >= 0 {
		return s[i].Name(r.cfg.Scenario), s[i].Phase + 1
	}
	return "", 0
}

// since is an instant in seconds since the measurement began.
func (r *run) since(at int64) float64 { return time.Duration(at - r.present().zero()).Seconds() }

// pass reads both processes where a part begins or ends, and judges steps.
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

// finish writes what was seen since the last second.
func (w *watch) finish() {
	w.run.logSecond(w.seconds, nil)
	w.step(never)
}
