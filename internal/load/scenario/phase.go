package scenario

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/model"
)

// kinds returns the fields of a phase that say its kind; a checked phase has one.
func (p *Phase) kinds() (names []string) {
	for i, d := range p.lengths() {
		if *d != 0 {
			names = append(names, [...]string{"ramp", "steady", "step", "fault", "drain"}[i])
		}
	}
	return names
}

// lengths returns the fields that may hold the length of a phase.
func (p *Phase) lengths() []*model.Duration {
	return []*model.Duration{&p.Ramp, &p.Steady, &p.Step, &p.Fault, &p.Drain}
}

// Kind is ramp, steady, step, fault or drain; empty where it is not exactly one of them.
func (p *Phase) Kind() string {
	if kinds := p.kinds(); len(kinds) == 1 {
		return kinds[0]
	}
	return ""
}

// Length returns the length of the phase; of steps: of each.
func (p *Phase) Length() model.Duration { return *p.length() }

// length points to the field that has it.
func (p *Phase) length() *model.Duration {
	all := p.lengths()
	if i := slices.IndexFunc(all, func(d *model.Duration) bool { return *d != 0 }); i >= 0 {
		return all[i]
	}
	return &p.Drain
}

// Whole returns the longest length of the phase, with all of its steps.
func (p *Phase) Whole() model.Duration { return p.Length() * model.Duration(len(p.Rates())) }

// Measured reports whether its figures count.
func (p *Phase) Measured() bool { return p.Steady != 0 || p.Step != 0 || p.Fault != 0 }

// Saturation is a base of a phase's rate: the last step that held.
const Saturation = "saturation"

// Beyond reports whether the phase asks for more than the saturation, to overload the server.
func (p *Phase) Beyond() bool { return p.Of == Saturation && p.Rate > 1 }

// Returns reports whether phase i has to settle after one that was meant to break.
func (s *Scenario) Returns(i int) bool {
	return s.Phases[i].Settle > 0 && i > 0 && s.Phases[i-1].Beyond()
}

// steps returns the first rate, the amount that is added (0: rates grow by a share) and the last rate.
func (p *Phase) steps() (rate, by, to float64) {
	if by = cmp.Or(p.By, 0.1); p.Grow > 0 {
		by = 0
	}
	return cmp.Or(p.Rate, 1), by, cmp.Or(p.To, 10)
}

// Rates returns the rates of the phase, one after the other: one, or those of its steps. They are multiples of the
// scenario's own rate, or of the base that Of names.
func (p *Phase) Rates() []float64 {
	rate, by, to := p.steps()
	if p.Step == 0 {
		return []float64{rate}
	}
	var list []float64
	for i := range maxSteps + 1 {
		next := rate + float64(i)*by
		if p.Grow > 0 {
			next = rate * math.Pow(1+p.Grow, float64(i))
		}
		if next > to+1e-9 || by <= 0 && p.Grow <= 0 {
			break
		}
		list = append(list, math.Round(next*1e6)/1e6)
	}
	return list
}

// Speed returns the speed of a pipeline in the phase, as a multiple of the usual one.
func (p *Phase) Speed(pipeline string) float64 {
	if pipeline == Results {
		return cmp.Or(p.Rate, 1)
	}
	return cmp.Or(p.Faster[pipeline], 1)
}

// played returns the length of the measured phases, with warm-up and all steps.
func (s *Scenario) played() (d model.Duration) {
	for i := range s.Phases {
		if p := &s.Phases[i]; p.Measured() {
			d += p.Whole()
		}
	}
	return d
}

// first returns the first measured phase, or nil.
func (s *Scenario) first() *Phase {
	if i := slices.IndexFunc(s.Phases, func(p Phase) bool { return p.Measured() }); i >= 0 {
		return &s.Phases[i]
	}
	return nil
}

// end returns the end of the last measured phase, since the measurement began.
func (s *Scenario) end() model.Duration {
	p := s.first()
	if p == nil {
		return 0
	}
	return s.played() - max(0, min(p.Warmup, p.Length()))
}

// begins returns the beginning of phase i, after its warm-up, since the measurement began.
func (s *Scenario) begins(i int) (at model.Duration) {
	first := true
	for k := range s.Phases[:i+1] {
		p := &s.Phases[k]
		if !p.Measured() {
			continue
		}
		if first {
			at, first = -p.Warmup, false
		}
		if k < i {
			at += p.Whole()
		}
	}
	return at + s.Phases[i].Warmup
}

// edges returns the beginnings of the measured phases, and the end of the last.
func (s *Scenario) edges() (list []model.Duration) {
	for i := range s.Phases {
		if p := &s.Phases[i]; p.Measured() {
			list = append(list, s.begins(i)-p.Warmup)
		}
	}
	if len(list) > 0 {
		list[0] = 0
	}
	return append(list, s.end())
}

// moveFaults moves the faults of phases to those of the scenario, whose times count from the beginning of the
// measurement. A fault without an end ends with its phase.
func (s *Scenario) moveFaults() {
	for i := range s.Phases {
		p := &s.Phases[i]
		for _, f := range p.Faults {
			if f.For == 0 && (f.Stop != nil || f.Hang != nil || f.Fail != nil || f.Wrong != nil) {
				f.For = p.Length() - p.Warmup - f.At
			}
			f.At += s.begins(i)
			s.Faults = append(s.Faults, f)
		}
		p.Faults = nil
	}
}

// allFaults returns the faults of the scenario and of its phases.
func (s *Scenario) allFaults() []Fault {
	list := slices.Clone(s.Faults)
	for i := range s.Phases {
		list = append(list, s.Phases[i].Faults...)
	}
	return list
}

// strikes reports whether any fault strikes in phase i.
func (s *Scenario) strikes(i int) bool {
	begin := s.begins(i)
	return len(s.Phases[i].Faults) > 0 ||
		slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.At >= begin && f.At < begin+s.Phases[i].Length() })
}

// MayHalt reports whether a fault may stop or hang agents of a class.
func (s *Scenario) MayHalt(c *Class) bool {
	return slices.ContainsFunc(s.allFaults(), func(f Fault) bool {
		return f.Stop != nil && f.Stop.Of(c) || f.Hang != nil && f.Hang.Of(c)
	})
}

// strike is what a field of a fault says: its kind, and the agents that it strikes.
type strike struct {
	kind string // the field's name
	pick *Pick  // nil: the server
}

// strikes returns what the fields of a fault say; a checked fault has one.
func (f *Fault) strikes() []strike {
	var fail *Pick
	if f.Fail != nil {
		fail = &f.Fail.Pick
	}
	all := []strike{{"stop", f.Stop}, {"hang", f.Hang}, {"cut", f.Cut}, {"fail", fail}, {"wrong", f.Wrong}}
	if all = slices.DeleteFunc(all, func(x strike) bool { return x.pick == nil }); f.Server != "" {
		all = append(all, strike{"server", nil})
	}
	return all
}

// Of reports whether a pick may choose agents of a class.
func (p *Pick) Of(c *Class) bool { return isAmong(c, p.Class, p.Group) }

// Of reports whether the agents of a class hold the changed resources.
func (c *Change) Of(class *Class) bool { return isAmong(class, c.Class, c.Group) }

// isAmong reports whether a class is the named one, and in the named group; an empty name means any.
func isAmong(c *Class, class, group string) bool {
	return (class == "" || class == c.Name) && (group == "" || c.In(group))
}

// groupOrClass names agents in words; empty names mean all agents.
func groupOrClass(class, group string) string {
	if group != "" {
		return "group " + group
	}
	return class
}

// nodesOf returns the number of agents that a pick chooses from.
func (s *Scenario) nodesOf(p *Pick) (n int) {
	for i := range s.Agents {
		if c := &s.Agents[i]; p.Of(c) {
			n += max(0, c.Count)
		}
	}
	return n
}

// String returns 5 of web, 10 % of all, all of group eu within one rack.
func (p *Pick) String() string {
	of := cmp.Or(groupOrClass(p.Class, p.Group), "all")
	text := "all of " + of
	switch {
	case of == "all" && p.Count == 0 && p.Share == 0:
		text = "all"
	case p.Count > 0:
		text = fmt.Sprintf("%d of %s", p.Count, of)
	case p.Share > 0:
		text = number.Percent(p.Share) + " of " + of
	}
	if p.Within != "" {
		text += " within one " + p.Within
	}
	return text
}

// The pipelines of a server. A faster one must not starve another.
const (
	Results = "results" // of agents; Phase.Rate is their speed
	People  = "operators"
	Intent  = "intent"
	Alerts  = "alerts" // problems of checks with Alert, and their notifications
)

// Pipelines returns the pipelines that a phase may speed up.
func Pipelines() []string { return []string{Results, People, Intent, Alerts} }

// Ways to notify the loader's webhook of a check's problems.
const (
	ByHandler = "handler" // the check names the handler
	ByRoute   = "route"   // the check names a route, which names the handler
)

// HasAlerts reports whether any check has an alert.
func (s *Scenario) HasAlerts() bool { return s.hasCheck(func(k *Check) bool { return k.Alert != "" }) }

// FasterOthers reports whether a phase speeds up a pipeline other than the results.
func (s *Scenario) FasterOthers() bool {
	return slices.ContainsFunc(s.Phases, func(p Phase) bool { return len(p.Faster) > 0 })
}

// timed reports whether any of the users has a timetable, which a phase can speed up.
func (o Operators) timed() bool {
	return o.Lists > 0 || o.Applies != "" || o.Silences != "" || o.Runs != "" || o.Facts != ""
}

// Any reports whether there are API users.
func (o Operators) Any() bool { return o.timed() || o.Watches > 0 }
