package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// timetable holds the judgement of a run of checks, by the parts of its timetable.
type timetable struct {
	*observe.Checks
	sc    *scenario.Scenario
	rep   *report.Report
	late  []string                   // findings about phases with a late generator, if they are judged apart
	notes []string                   // what else is known of phases
	told  map[int]*observe.Histogram // times until somebody was notified of a result, by its part

	counting []int // parts that the figures of the run include
}

// newTimetable returns the timetable of a run, for the report rep. A driver without a scenario has one steady phase.
func newTimetable(c *observe.Checks, rep *report.Report) *timetable {
	t := &timetable{Checks: c, sc: c.Start.Report.Scenario, rep: rep}
	if t.sc == nil {
		t.sc = &scenario.Scenario{}
		for range c.Score {
			t.sc.Phases = append(t.sc.Phases, scenario.Phase{Steady: 1})
		}
	}
	return t
}

// Broken returns why a step does not hold: a generator fell behind, or the server did not carry it.
func Broken(c *observe.Checks, part int) []string {
	return newTimetable(c, c.Start.Report).broken(part)
}

// Held returns the rate of the last step before a step that held; if none held, it returns false and the rate of the
// step itself.
func Held(c *observe.Checks, part int) (rate float64, ok bool) {
	for k := part - 1; k >= 0 && c.Score[k].Phase == c.Score[part].Phase; k-- {
		if _, broke := c.Steps[k]; c.Score[k].Measured && !broke {
			return c.Score[k].Rate, true
		}
	}
	return c.Score[part].Rate, false
}

// since converts a time of the timetable to seconds since the start of the measurement.
func (t *timetable) since(at int64) float64 {
	return time.Duration(at - t.Score.Zero()).Seconds()
}

// broken returns why a part did not hold.
func (t *timetable) broken(i int) []string { return append(t.behind(i), t.beyond(i)...) }

// behind lists the loaders that fell behind in a part.
func (t *timetable) behind(i int) (why []string) {
	limit := t.Start.Report.Plan.MaxLag
	for n := 1; n < len(t.Loaders); n++ {
		if lag := t.Loaders[n].Part(i).LargestLag().P99; lag > limit {
			why = append(why, fmt.Sprintf("loader %d (%s) fell behind (p99 %.1f ms, allowed %.0f ms)", n+1, t.Start.Report.Loaders[n].Name, lag, limit))
		}
	}
	if p, _ := t.stretch(i); p.Lag.P99 > limit {
		why = append(why, fmt.Sprintf("the generator fell behind (p99 %.1f ms, allowed %.0f ms)", p.Lag.P99, limit))
	}
	return why
}

// pileOf limits the backlog at the end of a step, as the time in which these results arrive.
const pileOf = 250 * time.Millisecond

// beyond lists the objectives that the server missed in a part.
func (t *timetable) beyond(i int) (why []string) {
	p, _ := t.stretch(i)
	if piled := p.Offered - p.Acknowledged; piled > (1-report.Enough)*p.Offered && piled*(p.To-p.From) > pileOf.Seconds()*p.Offered {
		why = append(why, fmt.Sprintf("%.0f of %.0f results/s were acknowledged, the rest piled up", p.Acknowledged, p.Offered))
	}
	return append(why, t.misses(&p)...)
}

// misses lists the goals with an upper limit that a phase missed; lower limits apply to the whole run.
func (t *timetable) misses(p *report.Played) (list []string) {
	for _, g := range report.Judged(t.Start.Report.Goals, ofPhase(t.rep, p).Figures()) {
		if f, ok := scenario.FigureOf(g.Name); ok && !f.Least && g.Why == "" && !g.Met {
			list = append(list, g.String())
		}
	}
	return list
}

// counts reports whether the figures of the run include a part that is played to its end. They leave out a step that missed an
// objective and the parts behind it, and phases that overload the server and return from that: each of these has figures of its
// own.
func (t *timetable) counts(i int) bool {
	p := t.Score[i]
	_, broke := t.Steps[i]
	over, found := t.brokeIn(p.Phase)
	return p.Measured && !broke && (!found || i < over) && !t.apart(p.Phase)
}

// apart reports whether a phase is meant to break, or the return from such a one, or has faults of its own.
func (t *timetable) apart(phase int) bool {
	return t.sc.Phases[phase].Beyond() || t.sc.Returns(phase) || t.sc.Phases[phase].Fault > 0
}

// brokeIn returns the part of the step that missed an objective, or false.
func (t *timetable) brokeIn(phase int) (part int, ok bool) {
	for i, s := range t.Steps {
		if s.Over && t.Score[i].Phase == phase {
			return i, true
		}
	}
	return 0, false
}

// brokeBefore returns the part that broke among the steps before a phase, or false.
func (t *timetable) brokeBefore(phase int) (part int, ok bool) {
	for k := phase - 1; k >= 0; k-- {
		if t.sc.Phases[k].Step > 0 {
			return t.brokeIn(k)
		}
	}
	return 0, false
}

// used adds the use by all loaders and the server in a part.
func (t *timetable) used(i int, g *usage.Gained) {
	if len(t.Loaders) == 0 {
		return
	}
	first, last, known := t.Loaders[0].Use(i)
	if !known {
		return
	}
	g.Add(first, last)
	var others []usage.Other
	for n := 1; n < len(t.Loaders); n++ {
		if first, last, known := t.Loaders[n].Use(i); known {
			others = append(others, usage.Other{Here: t.Start.Report.Loaders[n].Here, CPU: last.Loader.CPU - first.Loader.CPU, RSS: last.Loader.RSS})
		}
	}
	g.Join(others)
}

// stretch returns the figures of one part.
func (t *timetable) stretch(i int) (report.Played, *observe.Tally) {
	p, sum, _ := t.sum([]int{i})
	part := &t.Score[i]
	phase := &t.sc.Phases[part.Phase]
	p.Name, p.Kind, p.From, p.To, p.Rate, p.Again, p.Faster, p.Short, p.Asked = part.Name(t.sc), phase.Kind(), t.since(part.From), t.since(part.To), part.Rate, part.Again, phase.Faster, part.Short, phase.Objectives
	if t.rep.Asked() {
		p.Offered = t.sc.Rate()
	}
	return p, sum
}

// sum returns the figures of some parts together.
func (t *timetable) sum(parts []int) (p report.Played, sum *observe.Tally, g *usage.Gained) {
	sum, g = &observe.Tally{}, &usage.Gained{}
	length := time.Duration(0)
	for _, i := range parts {
		for n := range t.Loaders {
			sum.Merge(t.Loaders[n].Part(i))
		}
		t.used(i, g)
		length += time.Duration(t.Score[i].To - t.Score[i].From)
	}
	p.Refused = sum.Refused
	p.Span = report.Span{InTime: sum.InTimeShare(), SpoolFull: sum.AllDropped(), Latency: sum.Whole.Latency(), BeyondLinger: sum.Beyond.Latency(), Lag: sum.LargestLag()}
	if length > 0 {
		p.Offered, p.Acknowledged = float64(sum.Results+sum.Dropped)/length.Seconds(), float64(sum.Current)/length.Seconds()
	}
	p.Server, p.Loader = g.Usages(sum.Results)
	return p, sum, g
}

// phases fills in the figures: of each phase, and of all that counts.
func (t *timetable) phases() {
	rep := t.rep
	anyWhole, whole := false, 0 // parts that were played to their end: one that counts, and all that were measured
	for i, p := range t.Score {
		if p.Measured && !p.Short {
			anyWhole, whole = anyWhole || t.counts(i), whole+1
		}
	}
	if rep.Stopped != nil {
		stopped := *rep.Stopped
		if rep.Stopped = &stopped; anyWhole { // else whole ones that were to break something are not what the run is judged by
			stopped.Whole += whole
		}
	}
	rep.Samples, rep.Phases = append(slices.Clone(t.Ramp), t.Samples...), nil
	if t.Alerts != nil {
		t.messages(t.Alerts)
	}
	if from := -t.Start.Opened - time.Duration(t.Score.Zero()).Seconds(); rep.Asked() || len(t.sc.Phases) > 0 && t.sc.Phases[0].Ramp > 0 { // else all agents connected at once
		rep.Phases = append(rep.Phases, report.Played{Name: report.KindRamp, Kind: report.KindRamp, From: from, To: from + rep.ReadySeconds})
	}
	first := len(rep.Phases)
	var before []*report.Played
	for i := range t.Score {
		if over, found := t.brokeIn(t.Score[i].Phase); !t.Score[i].Measured || found && i > over {
			continue
		}
		p, sum := t.stretch(i)
		p.Missed = slices.Clone(t.Steps[i].Broke)
		t.sayRepeated(i)
		if p.Apart = !t.counts(i); !p.Apart && !(p.Short && anyWhole) { // one that was cut short counts if no other does
			t.counting = append(t.counting, i)
		}
		if told := t.told[i]; told != nil {
			sum.AddWaits(tellFigure, *told)
		}
		p.Beside = t.beside(&p, sum)
		if !p.Short {
			t.judgePhase(&p, i, rep.Phases[first:])
			before = Starvation(t.Start.Report.Goals, before, &p, t.apart(t.Score[i].Phase))
		}
		if p.Kind == report.KindFault {
			rep.Label = append(rep.Label, fmt.Sprintf("the run's figures are without %s, which is measured by itself", p.Name))
		}
		rep.Phases = append(rep.Phases, p)
	}
	if m := t.Measured; m != nil && len(t.Score) > 0 {
		rep.Phases = append(rep.Phases, report.Played{Name: report.KindDrain, Kind: report.KindDrain, From: t.since(t.Score.End()), To: t.since(int64(m.Drained * 1e9))})
	}
	t.figures(t.counting)
}

// beside lists the waits of users and pipelines in a phase, next to the results.
func (t *timetable) beside(p *report.Played, sum *observe.Tally) (list []report.Beside) {
	for _, user := range sharers() {
		if h := sum.Waits[user.figure]; h.Count() > 0 {
			list = append(list, report.Beside{Figure: user.figure, Count: uint64(h.Count()), Value: h.Latency().P99})
		}
	}
	behind := report.Beside{Figure: report.HistoryBehind}
	for _, s := range report.Within(t.rep.Samples, p.From, p.To) {
		if s.Behind != nil {
			behind.Count++
			behind.Value = max(behind.Value, *s.Behind)
		}
	}
	if behind.Count > 0 {
		list = append(list, behind)
	}
	if t.sc.FasterOthers() { // else that is what the phase says anyway
		if share := sum.InTimeShare(); share != nil {
			list = append(list, report.Beside{Figure: report.BeyondLinger, Count: sum.Acked, Value: sum.Beyond.Latency().P99},
				report.Beside{Figure: report.HeldShare, Count: sum.Results + sum.Dropped, Value: 100 * *share})
		}
	}
	if len(t.sc.Agents) < 2 {
		return list
	}
	for i := range t.sc.Agents {
		if s := sum.ShareOf(i); s.Meant > 0 {
			list = append(list, report.Beside{Figure: report.HeldShare, Class: t.sc.Agents[i].Name, Count: s.Meant, Value: 100 * float64(s.Answered) / float64(s.Meant)})
		}
	}
	return list
}

// judgePhase records what a phase missed by itself: to settle, or to stay as before; and where it is judged by itself, whether
// the generator was late. before has the phases before it.
func (t *timetable) judgePhase(p *report.Played, i int, before []report.Played) {
	phase := &t.sc.Phases[t.Score[i].Phase]
	own := report.Within(t.rep.Samples, p.From, p.To)
	if phase.Settle > 0 {
		t.judgeReturn(p, i, own, before)
	}
	if phase.Of != "" {
		t.judgeFound(p, i)
	}
	switch apart := t.apart(t.Score[i].Phase); {
	case apart:
		limit := max(t.Start.Report.Plan.MaxLag, 1000*(p.To-p.From)/lateShare)
		if p.Lag.P99 > limit {
			t.late = append(t.late, fmt.Sprintf("%s: the generator fell behind (p99 %.1f ms after the due time, allowed %.0f ms, a twentieth of the phase), and offered less than it says", p.Name, p.Lag.P99, limit))
		}
	case time.Duration(phase.Steady) >= driftFrom:
		p.Missed = append(p.Missed, drift(p.Name, own)...)
	}
}

// lateShare is the fraction (1/20) of a phase's length that the generator may fall behind in a phase that overloads the
// server, in the return from it, and in a phase with faults.
const lateShare = 20

// judgeFound judges a part with a rate relative to the saturation: whether the steps found it, and whether a part meant
// to overload did so.
func (t *timetable) judgeFound(p *report.Played, i int) {
	nth := t.Score[i].Phase
	note := func(format string, args ...any) {
		t.notes = append(t.notes, p.Name+": "+fmt.Sprintf(format, args...))
	}
	broke, found := t.brokeBefore(nth)
	if found {
		if _, held := Held(t.Checks, broke); !held {
			if t.sc.Phases[nth-1].Of == "" { // else it is said of the one before
				p.Missed = append(p.Missed, fmt.Sprintf("%s: nobody knows what it and what follows are rates of: not even the first step held", p.Name))
			}
			return
		}
	}
	if !t.sc.Phases[nth].Beyond() {
		return
	}
	if why := t.noOverload(i); why != "" {
		note("this was no overload: %s", why)
	} else if p.Acknowledged >= report.Enough*p.Offered {
		note("a mild overload: answers were late, and nothing piled up (%.1f %% were acknowledged while it lasted)", 100*p.Acknowledged/p.Offered)
	}
}

// noOverload returns why a part meant to overload the server did not; empty means that it did.
func (t *timetable) noOverload(i int) string {
	switch _, ok := t.brokeBefore(t.Score[i].Phase); {
	case !ok:
		return "of the steps before it none broke"
	case len(t.broken(i)) == 0:
		return "it was carried like the steps that held"
	case len(t.beyond(i)) == 0:
		return "the generator fell behind, the server did not"
	}
	return ""
}

// nothingBroke reports whether the phase before a part was meant to overload the server and did not.
func (t *timetable) nothingBroke(i int) bool {
	if !t.sc.Returns(t.Score[i].Phase) {
		return false
	}
	for k := i - 1; k >= 0; k-- {
		if t.Score[k].Measured && t.Score[k].Phase < t.Score[i].Phase {
			return t.noOverload(k) != ""
		}
	}
	return true
}

// sayRepeated adds a note about a step that was repeated and then held.
func (t *timetable) sayRepeated(i int) {
	if _, broke := t.Steps[i]; !t.Score[i].Again || broke {
		return
	}
	for k := i - 1; k >= 0; k-- {
		if s, broke := t.Steps[k]; broke && t.Score[k].Rate == t.Score[i].Rate {
			t.notes = append(t.notes, fmt.Sprintf("%s broke at first (%s), was played once more, and held", t.Score[k].Name(t.sc), strings.Join(s.Broke, "; ")))
			return
		}
	}
}

// swings is the number of seconds in ten that may differ after a phase has settled.
const swings = 1

// judgeReturn compares a phase that must settle, second by second, with the phase before the overload.
func (t *timetable) judgeReturn(p *report.Played, i int, own []report.Sample, phases []report.Played) {
	miss := func(format string, args ...any) {
		p.Missed = append(p.Missed, p.Name+": "+fmt.Sprintf(format, args...))
	}
	n := len(phases)
	if n < 2 {
		miss("whether it settles was not measured: two phases have to be before it")
		return
	}
	before := phases[n-2]
	if t.nothingBroke(i) {
		miss("whether it settles was not measured: %s was no overload", phases[n-1].Name)
		return
	}
	if wrong := append(slices.Clone(before.Missed), t.misses(&before)...); len(wrong) > 0 {
		miss("whether it settles was not measured: %s, which it returns to, was not as asked itself (%s)", before.Name, strings.Join(wrong, "; "))
		return
	}
	seconds, swung := Settled(report.Within(t.rep.Samples, before.From, before.To), own)
	p.Settled = float64(seconds)
	switch limit := time.Duration(t.sc.Phases[t.Score[i].Phase].Settle); {
	case seconds < 0:
		miss("latency and queues were never as in %s again", before.Name)
	case float64(seconds) > limit.Seconds():
		miss("latency and queues were as in %s after %d s, asked %s", before.Name, seconds, limit)
	case swung*10 > swings*len(own):
		miss("swings: %d seconds of %d were not as in %s after it had settled", swung, len(own), before.Name)
	}
}
