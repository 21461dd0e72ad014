package load

import (
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// pileOf is how much of what is offered may wait at the end of a step, however short: what arrives
// in so long.
const pileOf = 250 * time.Millisecond

// cutWithin is how long other loaders may take to hear of another score: it is at the end of a step
// that broke that they are starved, too. stopWithin is that for one that only ends sooner, which
// nobody hears of too late.
const (
	cutWithin  = 3 * time.Second
	stopWithin = time.Second
)

// step judges steps that have ended, once the last of their results had time to be
// answered. One that breaks is played once more, for a machine stumbles; one that breaks
// twice ends its phase. The last of a run is judged when all is played and drained, by finish.
func (w *watch) step(now int64) {
	r := w.run
	for ; r.steps; w.asked++ {
		s := r.present()
		if w.asked >= len(s) || now < s[w.asked].to+r.patience() || w.asked+1 >= len(w.edges) || !w.answered(w.asked+1, false) {
			return
		}
		i := w.asked
		if r.cfg.Scenario.Phases[s[i].phase].Step == 0 || !s[i].measured || s[i].short {
			continue
		}
		if r.lead != nil { // it judges
			done := w.stretchOf(i)
			r.lead.Stretch(&done)
			continue
		}
		if _, over := w.steps[s[i].phase]; over {
			continue
		}
		if slices.Contains(r.stretches(i), nil) {
			return // the others' figures are on their way
		}
		if w.bad[i] = w.broken(i); len(w.bad[i]) == 0 {
			continue
		}
		if r.stopped.Load() != nil || now >= s.end() { // nothing is played any more
			w.steps[s[i].phase] = i
			continue
		}
		soon := now + 2*int64(newScoreWithin)
		if r.cfg.Others != nil {
			soon += int64(cutWithin)
		}
		held, _ := w.held(i)
		p := s.at(soon)
		within := p >= 0 && s[p].phase == s[i].phase
		if within && !s[i].again {
			s = s.repeated(i, held, soon)
		} else {
			w.steps[s[i].phase] = i
			if within {
				s = s.cut(soon)
			}
			s = s.saturated(r.cfg.Scenario.Phases, s[i].phase, held, soon)
		}
		r.follow(s)
		if begin := r.begin.Load(); r.cfg.Others != nil {
			r.cfg.Others.Follow(time.Duration(soon-begin), s.spans(begin))
		}
	}
}

// held is the rate of the last step before step i that held; false: not even the first, and
// the rate is step i's own.
func (w *watch) held(i int) (rate float64, ok bool) {
	s := w.run.present()
	for k := i - 1; k >= 0 && s[k].phase == s[i].phase; k-- {
		if s[k].measured && len(w.bad[k]) == 0 {
			return s[k].rate, true
		}
	}
	return s[i].rate, false
}

// patience is how long after a step its results are waited for.
func (r *run) patience() int64 {
	most := int64(0)
	for _, c := range r.classes {
		most = max(most, c.linger)
	}
	return most + int64(time.Second)
}

// broken says why a step does not hold: who sends, or who is sent to.
func (w *watch) broken(i int) []string { return append(w.behind(i), w.beyond(i)...) }

// behind says which generator did not keep up.
func (w *watch) behind(i int) (why []string) {
	p, _, _ := w.stretch(i)
	c := w.run.cfg
	for k, s := range w.run.stretches(i) {
		if lag := report.LatencyOf(s.Tally.lag).P99; lag > ms(c.MaxLag) {
			why = append(why, fmt.Sprintf("loader %d (%s) fell behind (p99 %.1f ms, allowed %.0f ms)", w.run.joined[k].Number+1, w.run.joined[k].Name, lag, ms(c.MaxLag)))
		}
	}
	if p.Lag.P99 > ms(c.MaxLag) {
		why = append(why, fmt.Sprintf("the generator fell behind (p99 %.1f ms, allowed %.0f ms)", p.Lag.P99, ms(c.MaxLag)))
	}
	return why
}

// beyond says what the server did not carry.
func (w *watch) beyond(i int) (why []string) {
	p, _, _ := w.stretch(i)
	if piled := p.Offered - p.Acknowledged; piled > (1-report.Enough)*p.Offered && piled*(p.To-p.From) > pileOf.Seconds()*p.Offered {
		why = append(why, fmt.Sprintf("%.0f of %.0f results/s were acknowledged, the rest piled up", p.Acknowledged, p.Offered))
	}
	return append(why, w.run.cfg.misses(&p)...)
}

// misses judges a phase by those goals that are limits from above: how much must be
// reached is asked of the whole run.
func (c Config) misses(p *report.Played) (list []string) {
	one := &report.Report{Rate: p.Acknowledged, InTime: p.InTime, Latency: p.Latency, BeyondLinger: p.BeyondLinger, Server: p.Server, Loader: p.Loader,
		MachineShare: report.MachineShare(p.Server, p.Loader)}
	for _, g := range judge.Judged(c.Goals, one) {
		if f, ok := scenario.FigureOf(g.Name); ok && !f.Least && g.Why == "" && !g.Met {
			list = append(list, g.String())
		}
	}
	return list
}
