package scenario

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// What flows through a server at once. Speeding one up must not starve another.
const (
	Results = "results" // what agents send; Phase.Rate is how fast
	People  = "operators"
	Intent  = "intent"
	Alerts  = "alerts" // problems of checks with Alert, and the messages about them
)

// Pipelines are all of them: what a phase may speed up.
func Pipelines() []string { return []string{Results, People, Intent, Alerts} }

// Ways in which the loader is notified of a check's problems.
const (
	ByHandler = "handler" // the check names the handler: at once
	ByRoute   = "route"   // the check names a route, which names the handler
)

// Speed is how many times as fast as usual a pipeline runs in the phase.
func (p *Phase) Speed(pipeline string) float64 {
	if pipeline == Results {
		return cmp.Or(p.Rate, 1)
	}
	return cmp.Or(p.Faster[pipeline], 1)
}

// maxFaster is how many times as fast a pipeline may run.
const maxFaster = 100

// faster checks what a phase speeds up.
func (v *checker) faster(at string, p *Phase) {
	for _, name := range slices.Sorted(maps.Keys(p.Faster)) {
		field, times := at+".faster."+name, p.Faster[name]
		switch {
		case !v.oneOf(field, "pipeline", name, Pipelines()):
			continue
		case !(times > 1 && times <= maxFaster):
			v.flaw(field, "4 is four times as fast", "want more than 1, at most %d, not %v", maxFaster, times)
			continue
		}
		switch name {
		case Results:
			if p.Rate != 0 {
				v.flaw(field, "keep one of them", "rate says already how fast the results are")
			}
		case People:
			if !v.Operators.timed() {
				v.flaw(field, "write operators: {lists: 4}, or applies, silences, runs or facts", "nobody is at work")
			}
		case Intent:
			if !slices.ContainsFunc(v.Scenario.Intent, func(c Change) bool { return c.Every > 0 }) {
				v.flaw(field, "write intent: [{at: 5s, every: 10s, change: 3, kind: check}]", "no change comes again and again")
			}
		case Alerts:
			v.stormy(field, times)
		}
	}
}

// stormy checks that checks with alerts can change so many times as often.
func (v *checker) stormy(field string, times float64) {
	if times != math.Trunc(times) {
		v.flaw(field, "", "want a whole number, not %v", times)
	}
	found := false
	v.eachAlert(func(_ *Class, k *Check) {
		found = found || k.Changes > 0
		if k.Changes*times > 1 {
			v.flaw(field, "make changes of the check less", "check %s changes with %v of its results: %v times as many are more than all", k.Name, k.Changes, times)
		}
	})
	if !found {
		v.flaw(field, "write alert: handler and changes: 0.01 at a check", "there are no alerts")
	}
}

// eachAlert is called with every check of whose problems the loader is notified, for each class that holds it.
func (s *Scenario) eachAlert(f func(c *Class, k *Check)) {
	for i := range s.Agents {
		for _, k := range s.Held(&s.Agents[i]) {
			if k.Alert != "" {
				f(&s.Agents[i], k.Check)
			}
		}
	}
}

// HasAlerts reports whether the loader is notified of problems of any check.
func (s *Scenario) HasAlerts() (found bool) {
	s.eachAlert(func(*Class, *Check) { found = true })
	return found
}

// FasterOthers says whether a phase speeds up anything but the results.
func (s *Scenario) FasterOthers() bool {
	return slices.ContainsFunc(s.Phases, func(p Phase) bool { return len(p.Faster) > 0 })
}

// timed says whether somebody among them has a timetable, which can be faster.
func (o Operators) timed() bool {
	return o.Lists > 0 || o.Applies != "" || o.Silences != "" || o.Runs != "" || o.Facts != ""
}

// Any says whether anybody is at work.
func (o Operators) Any() bool { return o.timed() || o.Watches > 0 }
