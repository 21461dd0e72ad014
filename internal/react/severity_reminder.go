package react

import (
	"cmp"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// notifyWorse sends a reminder when a problem's severity exceeds the one told, once for each higher severity.
func (o *deliveryBatch) notifyWorse(e *escalation, severity model.Severity) {
	r := o.router
	if to := r.routeOf(e); to != nil && e.Closing == nil && len(e.Notified) > 0 && severity > e.Severity {
		o.remind(e, to)
	}
}

// remind schedules one reminder to every notified handler, with the group's next message. No later step comes
// sooner.
func (o *deliveryBatch) remind(e *escalation, to *route.Route) {
	r := o.router
	g := r.group(groupKey{e.Route, e.Group}, e.Lead)
	if !g.flush.After(o.now) {
		g.flush = o.now.Add(to.GroupWait)
	}
	e.Next = e.Next.Refit(to, e.Opened)
	var reached []route.Name
	for i, step := range to.Steps {
		if at := e.Next[i]; !at.IsZero() && !at.After(g.flush) { // it tells them
			reached = append(reached, step.To...)
		}
	}
	for {
		best, most := -1, 0
		for i, step := range to.Steps {
			if n := len(subtract(step.To, reached)); n > most && e.notifiedStep(to, i) {
				best, most = i, n
			}
		}
		if best < 0 {
			break
		}
		e.Next[best] = g.flush
		reached = append(reached, to.Steps[best].To...)
	}
	r.schedule(e)
	o.write(e)
}

// notifiedSeverity returns the highest severity that a handler was notified of; zero: it was not notified.
func (e *escalation) notifiedSeverity(ref history.HandlerRef) model.Severity {
	if e.notifiedHandler(ref) == nil {
		return 0
	}
	return cmp.Or(e.previousSeverity, e.Severity)
}

// worst returns the highest severity that a handler was told under an incident; false: it knows none.
func (g *group) worst(ref history.HandlerRef, id string) (worst model.Severity, known bool) {
	g.anyNotified(ref, id, func(e *escalation) bool {
		worst, known = max(worst, e.notifiedSeverity(ref)), true
		return false
	})
	return worst, known
}

// recordSeverity records the severity of a notification. Messages of the same moment still compare with the one
// before.
func (e *escalation) recordSeverity(severity model.Severity, now time.Time) {
	if severity > e.Severity {
		e.previousSeverity, e.Severity = cmp.Or(e.previousSeverity, e.Severity), severity
	}
	if _, next, due := e.Next.Due(); !due || next.After(now) {
		e.previousSeverity = 0
	}
}

// notifiedStep reports whether all handlers of a step were notified.
func (e *escalation) notifiedStep(to *route.Route, i int) bool {
	step := to.Steps[i]
	unknown := func(n route.Name) bool { return e.notifiedHandler(history.HandlerRef(n)) == nil }
	if slices.ContainsFunc(step.To, unknown) {
		return false
	}
	return e.Next[i].IsZero() || step.Repeat > 0 && e.Next[i].After(e.Opened.Add(step.After))
}

func subtract(list, some []route.Name) (left []route.Name) {
	for _, n := range list {
		if !slices.Contains(some, n) {
			left = append(left, n)
		}
	}
	return left
}
