package react

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// raise tells those who know of a problem that it is worse than what they were told, once for each
// higher severity, with what else of the group is to be told.
func (r *router) raise(o *telling, e *escalation, severity model.Severity) {
	to := r.routeOf(e)
	if to == nil || e.Closing != nil || len(e.Told) == 0 || severity <= e.Severity {
		return
	}
	g := r.group(groupKey{e.Route, e.Group}, e.Lead)
	if !g.flush.After(o.now) {
		g.flush = o.now.Add(to.GroupWait)
	}
	e.Next = e.Next.Fit(to, e.Opened)
	for i, step := range to.Steps {
		unknown := func(n route.Name) bool { return !slices.Contains(e.Told, history.HandlerRef(n)) }
		if !slices.ContainsFunc(step.To, unknown) && (e.Next[i].IsZero() || e.Next[i].After(g.flush)) {
			e.Next[i] = g.flush
		}
	}
	r.plan(e)
	o.write(e)
}
