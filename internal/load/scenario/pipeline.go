package scenario

import "slices"

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

// eachAlert calls f with every check that has an alert, for each class that holds it.
func (s *Scenario) eachAlert(f func(c *Class, k *Check)) {
	for i := range s.Agents {
		for _, k := range s.Held(&s.Agents[i]) {
			if k.Alert != "" {
				f(&s.Agents[i], k.Check)
			}
		}
	}
}

// HasAlerts reports whether any check has an alert.
func (s *Scenario) HasAlerts() (found bool) {
	s.eachAlert(func(*Class, *Check) { found = true })
	return found
}

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
