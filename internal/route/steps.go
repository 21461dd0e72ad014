package route

import (
	"slices"
	"time"
)

// Direct returns a route without a name that notifies handlers at once, one message per problem.
func Direct(handlers []Name) *Route {
	return &Route{Steps: []Step{{To: handlers}}, groupBy: []string{"node", "check"}}
}

// Escalation has the due time of each step of a route for one problem; zero: the step sends no
// more.
type Escalation []time.Time

// Escalate returns the escalation of a problem opened at a time. No step is due before the first
// message of its group.
func (r *Route) Escalate(opened, first time.Time) Escalation {
	c := make(Escalation, len(r.Steps))
	for i, s := range r.Steps {
		if c[i] = opened.Add(s.After); c[i].Before(first) {
			c[i] = first
		}
	}
	return c
}

// Due returns the next step and its due time; false if no step is left.
func (c Escalation) Due() (step int, at time.Time, ok bool) {
	for i, t := range c {
		if !t.IsZero() && (!ok || t.Before(at)) {
			step, at, ok = i, t, true
		}
	}
	return step, at, ok
}

// Sent schedules the repetition of a step after its delivery, or ends it.
func (c Escalation) Sent(r *Route, step int, now time.Time) {
	c[step] = time.Time{}
	if repeat := r.Steps[step].Repeat; repeat > 0 {
		c[step] = now.Add(repeat)
	}
}

// Refit adapts an escalation to a changed route: new steps are due at their regular time, removed
// ones are dropped.
func (c Escalation) Refit(r *Route, opened time.Time) Escalation {
	if len(c) >= len(r.Steps) {
		return slices.Clip(c[:len(r.Steps)])
	}
	return append(c, r.Escalate(opened, time.Time{})[len(c):]...)
}
