package scenario

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// clone is a copy that shares nothing.
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

// Scaled is the scenario with so many times its agents, each as before: what happens to
// some of them happens to as many times fewer or more. Objectives that are of the whole fleet
// are as many times lower or higher as its results are; what an agent takes in memory is not
// asked of few, where each one's share of what all have in common is the most of it. Phases stay.
func (s *Scenario) Scaled(factor float64) *Scenario {
	if factor == 1 {
		return s.clone()
	}
	out := s.clone()
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
		for _, p := range out.Faults[i].picks() {
			if p.Count > 0 {
				p.Count = min(count(p.Count), out.struckAmong(&out.Faults[i], p))
			}
		}
	}
	came := factor // what it came to: each class has a whole number of agents
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
	out.Scale = factor
	if s.Scale != 0 {
		out.Scale *= s.Scale
	}
	return out
}

// manyAgents are as many as a process needs to show what each of them takes.
const manyAgents = 2000

// picks are the agents that a fault strikes.
func (f *Fault) picks() (list []*Pick) {
	for _, p := range []*Pick{f.Stop, f.Hang, f.Cut, f.Wrong} {
		if p != nil {
			list = append(list, p)
		}
	}
	if f.Fail != nil {
		list = append(list, &f.Fail.Pick)
	}
	return list
}

// QuickTime is how long a quick run measures.
const QuickTime = time.Minute

// Quick is the scenario for a glance: as many agents as the machine carries easily beside
// its server, each as before, measured for a minute. It fills no machine: a quick run says
// whether all is well, not where the end is.
func (s *Scenario) Quick(m Machine) *Scenario {
	out := s.Scaled(m.share(s))
	out.shorten(QuickTime)
	out.Name += "-quick"
	return out
}

// Soak is the scenario for an hour, judged for drift too. It needs exactly one measured
// phase, which is what lasts.
func (s *Scenario) Soak() (*Scenario, error) {
	out := s.clone()
	var only *Phase
	for i := range out.Phases {
		if p := &out.Phases[i]; p.Measured() {
			if only != nil || p.Step > 0 {
				return nil, model.Errorf(model.Invalid, "%s has no soak form: it is more than one stretch", s.Name).
					WithHint("muster load run %s plays it as it is", s.Name)
			}
			only = p
		}
	}
	if only.Name == "steady" {
		only.Name = "soak"
	}
	only.Steady, only.Soak = 0, model.Duration(time.Hour)
	out.Name += "-soak"
	return out, nil
}

// shorten brings the measured phases down to a time, and moves what happens meanwhile: faults
// keep their order, and those that did not overlap do not. Where they would be over before
// the server can notice them, the phases stay as much longer.
func (s *Scenario) shorten(most time.Duration) {
	factor := float64(most) / float64(s.played())
	factor = max(factor, s.noticeable())
	if factor >= 1 {
		return
	}
	cut := func(d, least model.Duration) model.Duration {
		return max(round(float64(d)*factor), min(d, least))
	}
	before := s.edgesOf()
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
	after := s.edgesOf()
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

// stepTime is how long a step lasts at least; findingStep where its only use is to find the
// saturation, and overloadTime is how long a phase at a rate of that lasts at least: queues
// have to fill.
const (
	stepTime     = model.Duration(10 * time.Second)
	findingStep  = model.Duration(5 * time.Second)
	overloadTime = model.Duration(20 * time.Second)
)

// recovering is how long phase i lasts at least: behind steps, one of which broke, until half
// of it worked off what that left.
func (s *Scenario) recovering(i int) model.Duration {
	if i > 0 && s.Phases[i-1].Step > 0 {
		return overloadTime * 3 / 2
	}
	return 0
}

// isFound says whether a phase after phase i has a rate of the saturation that its steps find.
func (s *Scenario) isFound(i int) bool {
	return slices.ContainsFunc(s.Phases[i+1:], func(p Phase) bool { return p.Of == Saturation })
}

// growingTime is how long steps that grow may take in a quick run: each is as much above the one
// before as in the whole, for how finely the end is found is what they are worth.
const growingTime = model.Duration(3 * time.Minute)

// shortenSteps makes fewer steps, then shorter ones; of steps that grow shorter ones, then fewer.
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

// noticeable is how many times shorter the phases may get so that the server still notices
// all the faults that it notices in the whole; zero: there are none.
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
			cut := float64(least+edges) / float64(lasts)
			if f.At < until {
				cut = (cut*float64(until) + float64(stays)) / float64(whole)
			}
			factor = max(factor, cut)
		}
	}
	return factor
}

// edges is what rounding may take from a fault, and the phases' own from what they are
// shortened by.
const edges = model.Duration(300 * time.Millisecond)

// noticed is how long a fault has to last so that the server surely notices it, and what it
// says of it can be judged; zero: it is over when it is done.
func (s *Scenario) noticed(f *Fault) (d model.Duration) {
	if f.For > 0 {
		d = model.Duration(3 * time.Second)
	}
	for i := range s.Agents {
		c := &s.Agents[i]
		switch {
		case f.Stop != nil && f.Stop.Of(c):
			_, timeout := c.keepalive()
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

// stopMargin is by how much longer than its time-out a machine has to be silent at least:
// only 5 s beyond it a missing alert is a mistake.
const stopMargin = model.Duration(7 * time.Second)

// Label is what must be said wherever figures of the scenario are shown; empty: nothing.
func (s *Scenario) Label() string {
	label := s.recordedLabel()
	if s.Scale == 0 || s.Scale == 1 {
		return label
	}
	if label != "" {
		label += ", "
	}
	percent := strconv.FormatFloat(100*s.Scale, 'g', 3, 64)
	if s.Scale >= 1 {
		percent = strconv.FormatFloat(100*s.Scale, 'f', 0, 64)
	}
	return label + percent + " % of the agents"
}

// FullTitle is the title with the label.
func (s *Scenario) FullTitle() string {
	if label := s.Label(); label != "" {
		return s.Title + " (" + label + ")"
	}
	return s.Title
}

// round is a time to the tenth of a second, down.
func round(ns float64) model.Duration {
	return model.Duration(time.Duration(ns).Truncate(100 * time.Millisecond))
}
