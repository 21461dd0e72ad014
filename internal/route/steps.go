package route

import (
	"slices"
	"time"
)

// Direct is a route that nobody declared: it tells handlers at once, each problem by itself.
func Direct(handlers []Name) *Route {
	return &Route{Steps: []Step{{To: handlers}}, groupBy: []string{"node", "check"}}
}

// Climb is how far a problem has come on a route: when each of its steps is due, zero where
// nothing more will come of it.
type Climb []time.Time

// Begin is the climb of a problem that opened then. Nothing is due before the first message
// of its group.
func (r *Route) Begin(opened, first time.Time) Climb {
	c := make(Climb, len(r.Steps))
	for i, s := range r.Steps {
		if c[i] = opened.Add(s.After); c[i].Before(first) {
			c[i] = first
		}
	}
	return c
}

// Due is the step that is due first, and when; false: none is.
func (c Climb) Due() (step int, at time.Time, ok bool) {
	for i, t := range c {
		if !t.IsZero() && (!ok || t.Before(at)) {
			step, at, ok = i, t, true
		}
	}
	return step, at, ok
}

// Told moves on after a step was told.
func (c Climb) Told(r *Route, step int, now time.Time) {
	c[step] = time.Time{}
	if repeat := r.Steps[step].Repeat; repeat > 0 {
		c[step] = now.Add(repeat)
	}
}

// Fit makes it fit a route that was changed since: steps that came are due when they would
// have been, those that went are over.
func (c Climb) Fit(r *Route, opened time.Time) Climb {
	if len(c) >= len(r.Steps) {
		return slices.Clip(c[:len(r.Steps)])
	}
	return append(c, r.Begin(opened, time.Time{})[len(c):]...)
}
