package load

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
)

// cutWithin is how long other loaders may take to receive a new timetable: after a step that broke they are short of CPU
// time, too. stopWithin is the time for a timetable that only ends sooner, because a late loader can still follow it.
const (
	cutWithin  = 3 * time.Second
	stopWithin = time.Second
)

// step judges ended steps, once their last results had time to be answered. A step that breaks is repeated once, in
// case the machine stalled; a step that breaks twice ends its phase. finish judges the last step of a run after the
// drain.
func (w *watch) step(now int64) {
	r := w.run
	for ; w.steps; w.asked++ {
		s := r.Present()
		if w.asked >= len(s) || now < s[w.asked].To+r.patience() {
			return
		}
		i := w.asked
		if r.cfg.Scenario.Phases[s[i].Phase].Step == 0 || !s[i].Measured || s[i].Short {
			continue
		}
		if w.told <= i {
			r.logSecond(w.seconds, nil)
			w.told = i + 1
		}
		if w.over[s[i].Phase] || r.cfg.Follows() { // the lead judges
			continue
		}
		broke, held, known := w.judge(i, s[i].To+r.patience(), now == plan.Never)
		if !known {
			return // the others' lines are on their way
		}
		if len(broke) == 0 {
			continue
		}
		soon := now + 2*int64(play.NoticedWithin)
		if r.cfg.Part.Of > 1 {
			soon += int64(cutWithin)
		}
		ended := r.stopped.Load() != nil || now >= s.End() // nothing is played any more
		p := -1
		if !ended {
			p = s.At(soon)
		}
		within := p >= 0 && s[p].Phase == s[i].Phase
		again := within && !s[i].Again
		w.over[s[i].Phase] = !again
		r.log.Append(observe.Line{At: r.SinceBegin(), Step: &observe.Step{Part: i, Broke: broke, Over: !again}})
		switch {
		case ended:
			continue
		case again:
			s = s.Repeated(i, held, soon)
		default:
			if within {
				s = s.Cut(soon)
			}
			s = s.Saturated(r.cfg.Scenario.Phases, s[i].Phase, held, soon)
		}
		r.play(s, soon)
	}
}

// judge returns why step i broke and the rate of the last step that held; known is false if the log of a loader does
// not reach until.
func (w *watch) judge(i int, until int64, last bool) (broke []string, held float64, known bool) {
	r := w.run
	r.log.Look(func(c *observe.Checks) {
		for n := range 1 + len(r.joined) {
			l := c.Loader(n)
			if _, _, used := l.Use(i); !last && (!used || len(l.Edges) < i+2 || int64(l.At) < until-r.Begin()) {
				return
			}
		}
		known, broke = true, judge.Broken(c, i)
		held, _ = judge.Held(c, i)
	})
	return broke, held, known
}

// play replaces the timetable from a time on, here and on all followers.
func (r *run) play(s plan.Timetable, soon int64) {
	r.Follow(s)
	begin := r.Begin()
	r.log.Append(observe.Line{At: r.SinceBegin(), Score: s.Since(begin)})
	r.cfg.Joint.Follow(time.Duration(soon-begin), s.Since(begin))
}

// patience returns how long in ns after a step the watch waits for its results.
func (r *run) patience() int64 { return r.driver.Linger() + int64(time.Second) }

// stop ends the timetable if the run was asked to stop. Faults end and results are drained as at any end; other loaders
// receive the shorter timetable.
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
	s, begin := r.Present(), r.Begin()
	soon := max(now, begin) + 2*int64(play.NoticedWithin)
	if r.cfg.Part.Of > 1 {
		soon += int64(stopWithin)
	}
	i := s.At(soon)
	if i < 0 {
		return // it is over anyway
	}
	r.stopped.Store(&report.Stopped{After: time.Duration(soon - begin).Seconds(), Of: time.Duration(s.End() - begin).Seconds(), Phase: s[i].Name(r.cfg.Scenario), By: by})
	r.play(s.Stopped(soon), soon)
}
