package dispatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Routes and handler lists change while problems are open. After each such change, and at the start, the dispatcher starts
// the escalations that open problems lack on their present routes, so that no problem stays without notification because
// it opened before its route.

// RoutingChange describes a change of routes or handler lists, its author and whether open problems are
// notified. It tells whether handlers are notified of problems that are already open.
type RoutingChange struct {
	OnlyNew bool   // handlers are not notified of them
	By      string // author of the change
}

// AffectedProblems counts the open problems that a change of routes moves to one route or handler list. It also counts
// the problems of which handlers are notified.
type AffectedProblems struct {
	Route    string // NAMESPACE/NAME; empty: a check, node or namespace names the handlers
	Handlers []history.HandlerRef
	Problems int
	Notified int       // of them, because the handlers were notified before the change
	OnHold   int       // of them, because of silences, acknowledgements and so on
	At       time.Time // time of the message about the others; zero: there is none
}

// routingChanges lets only one change of routes run at a time, and passes changes to the dispatcher's
// goroutine. Each change goes to the goroutine of Run.
type routingChanges struct {
	sync.Mutex // held by the change under way, or by Run while it routes open problems without a request
	requests   chan *rerouteRequest
}

// rerouteRequest is a request to choose the routes of one or all open problems again.
type rerouteRequest struct {
	RoutingChange
	edits   *ReceiverEdits          // nil: unknown
	preview bool                    // the change is not applied, and nothing is written
	problem string                  // id of the only problem; empty: all
	done    chan []AffectedProblems // capacity 1
}

// rerouteWait is the longest time that a change waits for its effect on open problems.
const rerouteWait = 5 * time.Second

// ChangeRouting runs a function that changes routes or handlers, then chooses the routes of open problems
// again. If the function returned edits, the routes of open problems are chosen again. It returns the open
// problems that the edits concern, and those that notify other handlers now. late is true if history is behind:
// the problems follow, and their number is unknown.
func (r *Dispatcher) ChangeRouting(ctx context.Context, c RoutingChange, change func() (*ReceiverEdits, error)) (taken []AffectedProblems, late bool, err error) {
	r.changes.Lock()
	defer r.changes.Unlock()
	table := r.opts.Routing.Table
	before := table.ReceiversVersion()
	edits, err := change()
	if err != nil || table.ReceiversVersion() == before {
		return nil, false, err
	}
	taken, late = r.changes.await(ctx, table, &rerouteRequest{RoutingChange: c, edits: edits})
	return taken, late, nil
}

// NotifyOpen notifies the handlers on request about an open problem that is older than its matching routes. The
// result is empty if there are none.
func (r *Dispatcher) NotifyOpen(ctx context.Context, problem, by string) (taken []AffectedProblems, late bool) {
	r.changes.Lock()
	defer r.changes.Unlock()
	return r.changes.await(ctx, r.opts.Routing.Table, &rerouteRequest{RoutingChange: RoutingChange{By: by}, problem: problem})
}

// await asks the dispatcher's goroutine to route the open problems again, and waits for the result. The caller
// holds the lock.
func (c *routingChanges) await(ctx context.Context, table *route.Table, request *rerouteRequest) (taken []AffectedProblems, late bool) {
	ctx, cancel := context.WithTimeout(ctx, rerouteWait)
	defer cancel()
	request.done = make(chan []AffectedProblems, 1)
	select {
	case c.requests <- request:
		table.NotifyChange(false)
	case <-ctx.Done():
		return nil, true
	}
	select {
	case taken = <-request.done:
		return taken, false
	case <-ctx.Done():
		return nil, true
	}
}

// routeAfterChange chooses the routes of all open problems again after routes or handler lists changed. It also does
// so after the start, and if routes or handler lists changed otherwise, unless a change is under way. finish must be
// called when the batch is recorded.
func (r *Dispatcher) routeAfterChange(o *deliveryBatch) (finish func()) {
	receivers := r.opts.Routing.Table.ReceiversVersion()
	select {
	case request := <-r.changes.requests:
		if request.preview {
			request.done <- o.previewOpenProblems(request)
			break
		}
		taken := o.routeOpenProblems(request)
		if request.problem == "" {
			r.receivers = receivers
		}
		return func() { request.done <- taken }
	default:
	}
	if r.receivers != receivers && r.reconciliation == nil && r.changes.TryLock() {
		r.receivers = receivers
		o.routeOpenProblems(&rerouteRequest{})
		r.changes.Unlock()
	}
	return func() {}
}

// routeOpenProblems adds open problems to routes that newly match. It also notifies handlers that were added to steps
// already sent. The problems of one route become one group, so that one message has all of them.
func (o *deliveryBatch) routeOpenProblems(c *rerouteRequest) []AffectedProblems {
	ids := []string{c.problem}
	if c.problem == "" {
		ids = slices.Sorted(maps.Keys(o.open))
	}
	type found struct{ changed, present []*escalation }
	byRoute := map[string]*found{}
	of := func(e *escalation) *found {
		key := e.routeKey()
		if byRoute[key] == nil {
			byRoute[key] = &found{}
		}
		return byRoute[key]
	}
	for _, id := range ids {
		at, ok := o.open[id]
		t := o.Present(at.node, at.source)
		if !ok || t == nil || t.Problem == nil || t.Problem.ID != id {
			continue // its closing follows
		}
		changed, present := o.escalationsToNotify(c, t)
		for _, e := range changed {
			of(e).changed = append(of(e).changed, e)
		}
		for _, e := range present {
			of(e).present = append(of(e).present, e)
		}
	}
	var out []AffectedProblems
	for _, key := range slices.Sorted(maps.Keys(byRoute)) {
		if one := o.groupOlderProblems(c, byRoute[key].changed, byRoute[key].present); len(one.Handlers) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// routeKey returns a text that identifies the problem's route or its list of handlers.
func (e *escalation) routeKey() string {
	key := e.Route
	for _, ref := range e.Direct {
		key += " " + ref.Namespace + "/" + ref.Name
	}
	if e.Shadow {
		key += " shadow"
	}
	return key
}

// escalationsToNotify returns a problem's progress on each route with handlers to notify after a change. It returns
// the escalations on these routes, and the problem's other escalations on edited routes.
func (o *deliveryBatch) escalationsToNotify(c *rerouteRequest, t *event.Transition) (changed, present []*escalation) {
	p := &history.Problem{Problem: *t.Problem}
	changed = o.openEscalations(t, p, o.now)
	o.moveFromDeletedRoutes(p.ID, changed)
	for _, e := range o.of[p.ID] {
		if c.problem != "" && e.Hold != nil && e.Hold.Kind == route.Earlier {
			changed = append(changed, e)
		}
	}
	m, routes := o.chooseRoutes(t, p)
	for _, to := range routes {
		switch e := o.all[escalationOf(p.ID, to).EscalationKey]; {
		case e == nil || e.Closing != nil || slices.Contains(changed, e):
		case len(e.Notified) > 0 && o.addStepHandlers(c, e, to):
			changed = append(changed, e)
		case c.edits.affects(m, to):
			present = append(present, e)
		}
	}
	return changed, present
}

// moveFromDeletedRoutes moves an open problem from deleted routes to its new routes. Handlers that were notified are not
// notified again, but get the closing: by the new route, or by the rest of the deleted one if the new route has
// another incident or there is no new route.
func (o *deliveryBatch) moveFromDeletedRoutes(problem string, opened []*escalation) {
	for _, e := range slices.Clone(o.of[problem]) {
		if e.Closing != nil || o.routeOf(e) != nil {
			continue
		}
		inherited := len(e.Notified) == 0
		for _, next := range opened {
			next.inheritNotified(e)
			inherited = inherited || next.Lead == e.Lead
		}
		if inherited {
			o.finishEscalation(e)
			continue
		}
		clear(e.Next)
		e.Hold = nil
		o.schedule(e)
		o.writeEscalation(e)
	}
	for _, e := range opened {
		if to := o.routeOf(e); to != nil {
			for i, step := range to.Steps {
				if e.notifiedStep(step) {
					e.Next.MarkSent(to, i, o.now)
				}
			}
		}
	}
}

// inheritNotified copies, from the problem's progress on a deleted route, which handlers were already notified.
func (e *escalation) inheritNotified(deleted *escalation) {
	for _, k := range deleted.Notified {
		if e.notifiedHandler(k.HandlerRef) != nil {
			continue
		}
		if e.Lead != deleted.Lead {
			k.Incident, k.Acked = e.Lead, false
		}
		e.Notified = append(e.Notified, k)
		e.Severity, e.AckEnds = max(e.Severity, deleted.Severity), deleted.AckEnds
	}
}

// notifiedStep reports whether all handlers of a route's step were notified of the problem.
func (e *escalation) notifiedStep(step route.Step) bool {
	return !slices.ContainsFunc(step.To, func(name route.Name) bool { return e.notifiedHandler(history.HandlerRef(name)) == nil })
}

// addStepHandlers schedules messages to handlers that were added to steps of a route after the steps were sent.
// false: there is no such step.
func (o *deliveryBatch) addStepHandlers(c *rerouteRequest, e *escalation, to *route.Route) (added bool) {
	if e.Route == "" {
		e.Direct = escalationOf(e.Problem, to).Direct
	}
	e.Next = e.Next.AdaptToRoute(to, e.Opened)
	for i, step := range to.Steps {
		sent := e.Next[i].IsZero() || step.Repeat > 0 && e.Next[i].After(e.Opened.Add(step.After))
		for _, name := range step.To {
			ref := history.HandlerRef(name)
			if !sent || e.notifiedHandler(ref) != nil || slices.Contains(e.Skipped, ref) {
				continue
			}
			if added = true; c.OnlyNew {
				e.Skipped = append(e.Skipped, ref)
				continue
			}
			e.Next[i], e.onlyAdded = o.now.Add(to.GroupWait), true
		}
	}
	return added
}

// groupOlderProblems puts problems that are older than a route into one message group of the route. Their
// message is scheduled or held back. It counts them and the problems that the route had before.
func (o *deliveryBatch) groupOlderProblems(c *rerouteRequest, list, present []*escalation) AffectedProblems {
	first := slices.Concat(list, present)[0]
	out := AffectedProblems{Route: first.Route}
	to := o.routeOf(first)
	if to == nil {
		return out // the route was deleted a moment ago: each escalation is moved at its evaluation
	}
	for _, name := range to.Steps[0].To {
		out.Handlers = append(out.Handlers, history.HandlerRef(name))
	}
	for _, e := range list {
		if len(e.Notified) == 0 {
			o.moveToGroup(e, "\x00earlier\x00"+first.Problem, first.Problem)
			e.Opened, e.Hold = o.now, nil
			e.Next = to.Escalate(o.now, o.now.Add(to.GroupWait))
			if c.OnlyNew {
				e.Hold = &route.Hold{Kind: route.Earlier, By: to.Name, Creator: c.By, Reason: "applied with --only-new", Drop: true}
			}
		}
		o.schedule(e)
		o.writeEscalation(e)
	}
	for i, e := range slices.Concat(list, present) {
		is := o.presentState(e)
		earlier := c.OnlyNew && i < len(list) || len(e.Skipped) > 0 || e.Hold != nil && e.Hold.Kind == route.Earlier
		if !out.count(e, to, earlier || is != nil && mostImportantHold(o.holdsOf(e, to, is.Problem, o.now)) != nil) {
			_, out.At, _ = e.Next.Due()
		}
	}
	return out
}

// count adds one open problem to the numbers of problems that a change of routes affects. False: its handlers get a
// message about it now.
func (p *AffectedProblems) count(e *escalation, to *route.Route, held bool) bool {
	p.Problems++
	switch {
	case e.notifiedStep(to.Steps[0]) && !e.onlyAdded:
		p.Notified++
	case held:
		p.OnHold++
	default:
		return false
	}
	return true
}

// holdUnnotified starts an open problem on its routes, but sends no message until the problem's status changes.
// Its messages wait until its status changes.
func (o *deliveryBatch) holdUnnotified(t *problemChange) {
	o.open[t.problem.ID] = sourceOnNode{t.Node, t.Source}
	for _, e := range o.openEscalations(t.Transition, &t.problem, o.now) {
		e.Hold = &route.Hold{Kind: route.Earlier, Reason: t.unnotified, Drop: true}
		o.schedule(e)
		o.writeEscalation(e)
	}
}

// notifyChangedProblem schedules the first message about a problem that was open before its route existed. A change of
// its status is the cause.
func (r *router) notifyChangedProblem(e *escalation, now time.Time) {
	if e.Hold != nil && e.Hold.Kind == route.Earlier {
		e.Hold = nil
		r.scheduleAt(e, now)
	}
}

// presentDefinition returns the check's present definition or, for a deleted check, the definition at the last
// result. It is the present definition or, for a deleted check, the definition of its last result.
func presentDefinition(names Names, t *event.Transition) *model.CheckDefinition {
	if unit := names.SourceUnit(t.Source); unit != nil {
		if c := unit.Definition.EventRules(t.Source.Instance); c != nil {
			return c
		}
	}
	return definition(names, t)
}
