package react

import (
	"cmp"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// raise tells those who know of a problem that it is worse than what they were told, once for each
// higher severity, with what else of the group is to be told.
func (r *router) raise(o *telling, e *escalation, severity model.Severity) {
	if to := r.routeOf(e); to != nil && e.Closing == nil && len(e.Told) > 0 && severity > e.Severity {
		r.remind(o, e, to)
	}
}

// remind tells those who know of a problem of it again: at the next message of its group, each once,
// and no step sooner that is still to come.
func (r *router) remind(o *telling, e *escalation, to *route.Route) {
	g := r.group(groupKey{e.Route, e.Group}, e.Lead)
	if !g.flush.After(o.now) {
		g.flush = o.now.Add(to.GroupWait)
	}
	e.Next = e.Next.Fit(to, e.Opened)
	var reached []route.Name
	for i, step := range to.Steps {
		if at := e.Next[i]; !at.IsZero() && !at.After(g.flush) { // it tells them
			reached = append(reached, step.To...)
		}
	}
	for {
		best, most := -1, 0
		for i, step := range to.Steps {
			if n := len(without(step.To, reached)); n > most && e.toldStep(to, i) {
				best, most = i, n
			}
		}
		if best < 0 {
			break
		}
		e.Next[best] = g.flush
		reached = append(reached, to.Steps[best].To...)
	}
	r.plan(e)
	o.write(e)
}

// heard is the highest severity that a handler was told of; zero: it knows nothing yet.
func (e *escalation) heard(ref history.HandlerRef) model.Severity {
	if e.knows(ref) == nil {
		return 0
	}
	return cmp.Or(e.was, e.Severity)
}

// worst is the highest severity that a handler was told of under an id; false: it knows nothing under it.
func (g *group) worst(ref history.HandlerRef, id string) (worst model.Severity, known bool) {
	g.has(ref, id, func(e *escalation) bool {
		worst, known = max(worst, e.heard(ref)), true
		return false
	})
	return worst, known
}

// raised notes how bad it was told to be. What is told with it hears what it was before.
func (e *escalation) raised(severity model.Severity, now time.Time) {
	if severity > e.Severity {
		e.was, e.Severity = cmp.Or(e.was, e.Severity), severity
	}
	if _, next, due := e.Next.Due(); !due || next.After(now) {
		e.was = 0
	}
}

// toldStep says whether a step was told already: one whose time is still to come stays due then.
func (e *escalation) toldStep(to *route.Route, i int) bool {
	step := to.Steps[i]
	unknown := func(n route.Name) bool { return e.knows(history.HandlerRef(n)) == nil }
	if slices.ContainsFunc(step.To, unknown) {
		return false
	}
	return e.Next[i].IsZero() || step.Repeat > 0 && e.Next[i].After(e.Opened.Add(step.After))
}

func without(list, some []route.Name) (left []route.Name) {
	for _, n := range list {
		if !slices.Contains(some, n) {
			left = append(left, n)
		}
	}
	return left
}
