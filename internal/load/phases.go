package load

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// phaseName is a phase's for people; that of a step, or of a rate that steps found, has
// the rate.
func (r *run) phaseName(p part) string {
	phase := &r.cfg.Scenario.Phases[p.phase]
	name := phase.Name
	if name == "" {
		name = phase.Kind()
	}
	if phase.Step > 0 || phase.Of != "" {
		name += fmt.Sprintf(" ×%.4g", p.rate)
	}
	if p.again {
		name += " again"
	}
	return name
}

// phaseAt is the name of the phase of an instant, and its number in the scenario, from 1; empty
// and 0: none.
func (r *run) phaseAt(at int64) (name string, nth int) {
	s := r.present()
	if i := s.at(at); i >= 0 {
		return r.phaseName(s[i]), s[i].phase + 1
	}
	return "", 0
}

// pass reads both processes where a part begins or ends, and judges steps.
func (w *watch) pass(ctx context.Context, now int64) {
	s := w.run.present()
	for n := len(w.edges); n <= len(s) && len(s) > 0; n++ {
		at := s.end()
		if n < len(s) {
			at = s[n].from
		}
		if now < at {
			break
		}
		e := edge{SoFar: w.run.usage()}
		if n < len(s) && s[n].measured || n > 0 && s[n-1].measured {
			e.asked = w.ask(ctx)
		}
		w.edges = append(w.edges, e)
	}
	w.step(now)
}

// used is what part i used; nothing while it lasts.
func (w *watch) used(i int, g *usage.Gained) {
	if i+1 < len(w.edges) {
		g.Add(w.edges[i].SoFar, w.edges[i+1].SoFar)
		g.Join(w.run.usedElsewhere(i))
	}
}

// counts says whether a part is among what the run's figures are of: a step that broke
// is not, nor what was begun before that was known, nor what is meant to break and the
// return from it: these are judged by themselves. The one in which the run was stopped counts
// where no other does: it is all there is.
func (w *watch) counts(i int) bool {
	return w.countsIfWhole(i) && (!w.run.present()[i].short || !w.anyWhole())
}

func (w *watch) countsIfWhole(i int) bool {
	p := w.run.present()[i]
	broke, ok := w.steps[p.phase]
	return p.measured && len(w.bad[i]) == 0 && (!ok || i < broke) && !w.run.apart(p.phase)
}

// apart says whether a phase is meant to break, or the return from such a one, or has faults of
// its own.
func (r *run) apart(phase int) bool {
	sc := r.cfg.Scenario
	return sc.Phases[phase].Beyond() || sc.Returns(phase) || sc.Phases[phase].Fault > 0
}

// stretch is what some parts came to.
func (w *watch) stretch(parts ...int) (report.Played, *tally, *usage.Gained) {
	r, s := w.run, w.run.present()
	t, g, length := newTally(), &usage.Gained{}, time.Duration(0)
	for _, i := range parts {
		r.part(t, i)
		w.used(i, g)
		length += time.Duration(s[i].to - s[i].from)
	}
	first, last := s[parts[0]], s[parts[len(parts)-1]]
	p := report.Played{
		Name: r.phaseName(first), Kind: r.cfg.Scenario.Phases[first.phase].Kind(), From: r.since(first.from), To: r.since(last.to), Rate: first.rate, Again: first.again, Faster: r.cfg.Scenario.Phases[first.phase].Faster,
		Offered: float64(t.results+t.dropped) / length.Seconds(), Acknowledged: float64(t.current) / length.Seconds(), InTime: t.share(), Refused: t.refused, SpoolFull: t.dropped,
		Latency: report.LatencyOf(t.whole), BeyondLinger: report.LatencyOf(t.beyond), Lag: report.LatencyOf(t.lag),
	}
	p.Server, p.Loader = g.Usages(t.results)
	p.Asked = r.cfg.Scenario.Phases[first.phase].Objectives
	return p, t, g
}

// since is an instant in seconds since the measurement began.
func (r *run) since(at int64) float64 { return time.Duration(at - r.present().zero()).Seconds() }

// finish fills in the figures: of each phase, and of all that counts.
func (w *watch) finish() {
	r, rep, s := w.run, w.rep, w.run.present()
	w.publish(true)
	w.answered(len(w.edges)-1, true)
	w.amend()
	w.step(never)
	if rep.Stopped != nil && !w.anyWhole() {
		rep.Stopped.Whole = 0 // whole ones that were to break something are not what the run is judged by
	}
	sum, used := newTally(), &usage.Gained{}
	own := newTally()
	rep.measured = 0
	var before []*report.Played
	for i := 0; i < len(s); i++ {
		if !s[i].measured {
			continue
		}
		if broke, ok := w.steps[s[i].phase]; ok && i > broke {
			continue
		}
		p, t, _ := w.stretch(i)
		p.Missed = w.bad[i]
		w.sayRepeated(i)
		if p.Apart = !w.countsIfWhole(i); w.counts(i) {
			sum.merge(t)
			r.ownPart(own, i)
			w.used(i, used)
			rep.measured += time.Duration(s[i].to - s[i].from)
		}
		p.Beside = r.besidesOf(i, report.Within(rep.Samples, p.From, p.To), t)
		if p.Short = s[i].short; !p.Short {
			w.judgePhase(&p, i)
			before = report.Overtakes(r.cfg.Goals, before, &p, r.apart(s[i].phase))
		}
		if p.Kind == report.KindFault {
			rep.Label = append(rep.Label, fmt.Sprintf("the run's figures are without %s, which is measured by itself", p.Name))
		}
		rep.Phases = append(rep.Phases, p)
	}
	rep.Resent, rep.WrongTaken, rep.Refusals = r.answers()
	for _, m := range r.measured {
		rep.Resent += m.Resent
		rep.WrongTaken += m.WrongKept
		addTo(rep.Refusals, m.Refusals)
	}
	rep.Slowed, rep.WrongSent = int(r.slowed.Load()), r.wrong.Load()
	if ramp := r.ramp(); ramp > 0 {
		from := float64(-r.begun()) / 1e9
		rep.Phases = append([]report.Played{{Name: report.KindRamp, Kind: report.KindRamp, From: from, To: from + rep.ReadySeconds}}, rep.Phases...)
	}
	rep.Phases = append(rep.Phases, report.Played{Name: report.KindDrain, Kind: report.KindDrain, From: r.since(s.end()), To: r.since(r.drained)})
	rep.finish(r.cfg, sum, used)
	rep.Loaders = w.loaders(own, used)
}

// begun is how long before the measurement the agents began to connect, ns.
func (r *run) begun() int64 { return r.present().zero() - r.opened }
