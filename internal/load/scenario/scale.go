package scenario

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// clone returns a copy that shares nothing.
func (s *Scenario) clone() *Scenario {
	data, err := json.Marshal(s)
	var copied Scenario
	if err == nil {
		err = json.Unmarshal(data, &copied)
	}
	if err != nil {
		panic("BUG: a scenario that cannot be written: " + err.Error())
	}
	for i := range s.Agents {
		if r := s.Agents[i].Recorded; r != nil {
			copied.Agents[i].Recorded.head = r.head // read, never written
		}
	}
	return &copied
}

// Scaled returns the scenario with so many times its agents, each as before; faults strike as many times fewer or more.
// Objectives of the whole fleet follow the rate of results. Memory per agent is no objective of a few agents, because
// most of it is shared. Phases stay.
func (s *Scenario) Scaled(factor float64) *Scenario {
	out := s.clone()
	if factor == 1 {
		return out
	}
	count := func(n int) int { return min(maxAgents, max(1, int(math.Round(float64(n)*factor)))) }
	for i := range out.Agents {
		c := &out.Agents[i]
		c.Count = count(c.Count)
		for _, r := range []*Rate{&c.Churn.Reconnects, &c.Churn.Restarts, &c.Churn.Renames, &c.Churn.Offline} {
			if *r != "" {
				*r = r.times(factor)
			}
		}
	}
	out.scaleProxies(count)
	for i := range out.Faults {
		for _, x := range out.Faults[i].strikes() {
			if x.pick != nil && x.pick.Count > 0 {
				x.pick.Count = min(count(x.pick.Count), out.struckAmong(&out.Faults[i], x.pick))
			}
		}
	}
	came := factor // each class has a whole number of agents
	if before, after := s.Rate(), out.Rate(); before > 0 {
		came = after / before
	}
	lower := func(limits map[string]Limit) {
		for name, limit := range limits {
			if f, ok := FigureOf(name); ok && f.Least && f.Kind == Absolute {
				limits[name] = limit.times(came)
			}
		}
	}
	lower(out.Objectives)
	for i := range out.Phases {
		lower(out.Phases[i].Objectives)
	}
	if out.Nodes("") < manyAgents {
		delete(out.Objectives, "agent-memory")
		delete(out.Objectives, "loader-memory")
	}
	if len(out.Phases) > 0 && out.Phases[0].Ramp > 0 {
		out.Phases[0].Ramp = out.ramp()
	}
	out.Scale = factor * cmp.Or(s.Scale, 1)
	return out
}

// manyAgents are enough to measure the memory of each.
const manyAgents = 2000

// minDirectiveInterval is the shortest interval of a directive.
const minDirectiveInterval = model.Duration(10 * time.Second)

// QuickTime is the measured time of a quick run.
const QuickTime = time.Minute

// Quick returns a short form: as many agents as the machine carries easily beside its server, each as before, measured
// for a minute. It shows whether all is well, not the capacity of the machine.
func (s *Scenario) Quick(m Machine) *Scenario {
	out := s.clone()
	for i := range out.Agents { // the rounds of directives are as many: fewer agents have as many runs in a second
		for j := range out.Agents[i].Policies {
			p := &out.Agents[i].Policies[j]
			p.Interval = max(min(p.Interval, minDirectiveInterval), round(float64(p.Interval)*min(1, float64(QuickTime)/float64(s.played()))))
		}
	}
	out = out.Scaled(m.share(out))
	out.shorten(QuickTime)
	out.Name += "-quick"
	return out
}

// shorten brings the measured phases down to a time, and moves faults and changes: faults keep their order, and those that
// did not overlap do not. Where faults would be too short for the server to notice, the phases stay longer.
func (s *Scenario) shorten(most time.Duration) {
	factor := float64(most) / float64(s.played())
	factor = max(factor, s.noticeable())
	if factor >= 1 {
		return
	}
	cut := func(d, least model.Duration) model.Duration {
		return max(round(float64(d)*factor), min(d, least))
	}
	before := s.edges()
	for i := range s.Phases {
		p := &s.Phases[i]
		if !p.Measured() {
			continue
		}
		switch d := p.length(); {
		case p.Step > 0 && s.isFound(i):
			*d, p.By = min(*d, findingStep), 2*p.By
			continue
		case p.Step > 0:
			p.shortenSteps(cut(p.Whole(), stepTime))
			continue
		case p.Of != "":
			*d = cut(*d, max(overloadTime, p.Settle+overloadTime/2, s.recovering(i)))
		default:
			*d = cut(*d, max(5e9, s.answering()))
		}
		d := p.length()
		warmup := *d / 6
		if i > 0 && s.Phases[i-1].Step > 0 {
			warmup = *d / 2 // the step that broke left a backlog
		}
		p.Settle, p.Warmup = min(p.Settle, *d), round(float64(min(p.Warmup, warmup)))
	}
	after := s.edges()
	if slices.ContainsFunc(s.Phases, func(p Phase) bool { return p.Step > 0 }) { // they end when one breaks
		before, after = []model.Duration{0, before[len(before)-1]}, []model.Duration{0, after[len(after)-1]}
	}
	move := float64(after[len(after)-1]) / float64(before[len(before)-1])
	at := func(d model.Duration) model.Duration { return moved(d, before, after) }
	for i := range s.Faults {
		f := &s.Faults[i]
		over := at(min(f.At+f.For, before[len(before)-1]))
		f.At = at(f.At)
		if f.For > 0 {
			f.For = max(over-f.At, round(1e8)) // zero would be to the end
		}
	}
	for i := range s.Intent {
		s.Intent[i].At, s.Intent[i].Every = at(s.Intent[i].At), max(round(float64(s.Intent[i].Every)*move), min(s.Intent[i].Every, minInterval))
	}
}

// stepTime is the shortest step; findingStep the length of a step that only finds the saturation; overloadTime the
// shortest phase at a rate of that: queues have to fill.
const (
	stepTime     = model.Duration(10 * time.Second)
	findingStep  = model.Duration(5 * time.Second)
	overloadTime = model.Duration(20 * time.Second)
)

// FewAnswers are too few to judge whether a pipeline is starved.
const FewAnswers = 20

// answering returns the shortest measured phase of a quick run with faster pipelines: the slowest timetable of operators has enough
// answers in it, a tenth more for late ones, and a sixth for the warm-up. Zero: no phase has faster pipelines.
func (s *Scenario) answering() model.Duration {
	slowest := math.Inf(1)
	for _, r := range []Rate{s.Operators.Applies, s.Operators.Runs, s.Operators.Facts, s.Operators.Silences} {
		if rate := r.PerSecond(s.Nodes("")); rate > 0 {
			slowest = min(slowest, rate)
		}
	}
	if !s.FasterOthers() || math.IsInf(slowest, 1) {
		return 0
	}
	return model.Duration(math.Ceil(1.1*1.2*FewAnswers/slowest) * 1e9)
}

// moved returns the time of an event in a scenario whose phases are shorter or longer now: the same part of the same
// phase. then and now are the beginnings of the phases.
func moved(at model.Duration, then, now []model.Duration) model.Duration {
	for i := 1; i < len(then); i++ {
		if at <= then[i] && then[i] > then[i-1] {
			return round(float64(now[i-1]) + float64(at-then[i-1])*float64(now[i]-now[i-1])/float64(then[i]-then[i-1]))
		}
	}
	return now[len(now)-1]
}

// recovering returns the shortest length of phase i after a step that missed an objective: the backlog takes half of
// it.
func (s *Scenario) recovering(i int) model.Duration {
	if i > 0 && s.Phases[i-1].Step > 0 {
		return overloadTime * 3 / 2
	}
	return 0
}

// isFound reports whether a phase after phase i has a rate of the saturation that its steps find.
func (s *Scenario) isFound(i int) bool {
	return slices.ContainsFunc(s.Phases[i+1:], func(p Phase) bool { return p.Of == Saturation })
}

// growingTime is the longest time of growing steps in a quick run: they grow by the same share as in the whole.
const growingTime = model.Duration(3 * time.Minute)

// shortenSteps reduces the number of steps, then their length; or first the length, if steps grow by a share.
func (p *Phase) shortenSteps(whole model.Duration) {
	if p.Grow > 0 {
		whole = max(whole, growingTime)
		p.Step = min(p.Step, stepTime)
	} else {
		p.Step = min(p.Step, max(stepTime, whole/model.Duration(len(p.Rates()))))
	}
	rate, _, to := p.steps()
	if n := max(2, int(whole/p.Step)); n < len(p.Rates()) && p.Grow > 0 {
		p.Grow = math.Ceil((math.Pow(to/rate, 1/float64(n-1))-1)*1000) / 1000
	} else if n < len(p.Rates()) {
		p.By = math.Ceil((to-rate)/float64(n-1)*1000) / 1000
	}
}

// noticeable returns the smallest factor of the phases' length that leaves each fault long enough for the server to
// detect it, or zero without faults.
func (s *Scenario) noticeable() (factor float64) {
	stays := s.played() - s.end() // the first warm-up may: what follows it in its phase is cut by more
	until, whole := s.end(), s.played()
	if first := s.first(); first != nil && !slices.ContainsFunc(s.Phases, func(p Phase) bool { return p.Step > 0 }) {
		until, whole = first.Whole()-stays, first.Whole()
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		lasts := s.end() - f.At
		if f.For > 0 {
			lasts = min(lasts, f.For)
		}
		least := s.noticed(f)
		if least > 0 && lasts > least {
			cut := float64(least+rounding) / float64(lasts)
			if f.At < until {
				cut = (cut*float64(until) + float64(stays)) / float64(whole)
			}
			factor = max(factor, cut)
		}
	}
	return factor
}

// rounding is the largest part that rounding takes from a fault.
const rounding = model.Duration(300 * time.Millisecond)

// noticed returns the shortest length of a fault that the server surely notices, and that can be judged, or zero for a
// fault without a length.
func (s *Scenario) noticed(f *Fault) (d model.Duration) {
	if f.For > 0 {
		d = model.Duration(3 * time.Second)
	}
	for i := range s.Agents {
		c := &s.Agents[i]
		switch {
		case f.Stop != nil && f.Stop.Of(c):
			_, timeout := c.Keepalive.EffectiveTimes()
			d = max(d, timeout+timeout/2, timeout+stopMargin)
		case f.Fail != nil && f.Fail.Of(c):
			for _, k := range s.Held(c) {
				if k.Name == f.Fail.Check || slices.Contains(k.Names(), f.Fail.Check) {
					d = max(d, 2*k.Interval)
				}
			}
		}
	}
	return d
}

// stopMargin is the shortest silence beyond a machine's time-out: a missing alert is an error only 5 s beyond it.
const stopMargin = model.Duration(7 * time.Second)

// Label returns the label to show with the scenario's figures, or an empty text.
func (s *Scenario) Label() string {
	var list []string
	for i := range s.Agents {
		if r := s.Agents[i].Recorded; r != nil {
			list = append(list, r.label())
		}
	}
	if s.Scale != 0 && s.Scale != 1 {
		percent := strconv.FormatFloat(100*s.Scale, 'g', 3, 64)
		if s.Scale >= 1 {
			percent = strconv.FormatFloat(100*s.Scale, 'f', 0, 64)
		}
		list = append(list, percent+" % of the agents")
	}
	return strings.Join(list, ", ")
}

// FullTitle returns the title with the label.
func (s *Scenario) FullTitle() string {
	if label := s.Label(); label != "" {
		return s.Title + " (" + label + ")"
	}
	return s.Title
}

// round returns a time to the tenth of a second, down.
func round(ns float64) model.Duration {
	return model.Duration(time.Duration(ns).Truncate(100 * time.Millisecond))
}

// sizedWarmup is the longest warm-up of a sized run.
const sizedWarmup = model.Duration(time.Minute)

// SizedLatency is the limit of the latency of a sized run without one.
const SizedLatency = Limit("500ms")

// Sized returns the scenario for sizing: so many times its agents, each as before, measured in one steady phase without
// faults and changes of intent.
func (s *Scenario) Sized(factor float64, measured time.Duration) *Scenario {
	out := s.Scaled(factor)
	longest := model.Duration(0)
	for i := range out.Agents {
		for _, k := range out.Held(&out.Agents[i]) {
			longest = max(longest, k.Interval)
		}
	}
	warmup := max(model.Duration(time.Second), min(longest, model.Duration(measured), sizedWarmup))
	out.Faults, out.Intent = nil, nil
	out.Phases = []Phase{{Name: "ramp", Ramp: out.ramp()}, {Name: "steady", Steady: model.Duration(measured) + warmup, Warmup: warmup, Rate: 1},
		{Name: "drain", Drain: model.Duration(30 * time.Second)}}
	latency := false
	for name := range out.Objectives {
		f, _ := FigureOf(name)
		if slices.Contains([]string{"faults", "restart", "outage", "intent", "step", "settle"}, f.Needs) {
			delete(out.Objectives, name)
		}
		latency = latency || name == "p99" || name == "beyond-p99"
	}
	if !latency {
		if out.Objectives == nil {
			out.Objectives = map[string]Limit{}
		}
		out.Objectives["beyond-p99"] = SizedLatency
	}
	return out
}
