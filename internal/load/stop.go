package load

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

// stopped returns the score cut off at a time.
func (s score) stopped(real int64) (out score) {
	for _, p := range s {
		if p.From >= real {
			break
		}
		if p.To > real {
			p.To, p.Short = real, true
		}
		out = append(out, p)
	}
	return out
}

// stop ends the timetable if the run was asked to stop. Faults end and results are drained as at any end; other loaders
// receive the shorter score.
func (w *watch) stop(now int64) {
	r := w.run
	if r.stopped.Load() != nil {
		return
	}
	var by string
	select {
	case by = <-r.cfg.Stop:
	default:
		return
	}
	s, begin := r.present(), r.begin.Load()
	soon := max(now, begin) + 2*int64(newScoreWithin)
	if r.cfg.Part.Of > 1 {
		soon += int64(stopWithin)
	}
	i := s.at(soon)
	if i < 0 {
		return // it is over anyway
	}
	r.stopped.Store(&report.Stopped{After: time.Duration(soon - begin).Seconds(), Of: time.Duration(s.end() - begin).Seconds(), Phase: s[i].Name(r.cfg.Scenario), By: by})
	r.play(s.stopped(soon), soon)
}
