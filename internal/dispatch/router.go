package dispatch

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// router decides which handlers are notified of a problem, and when, from its opening to its closing. Its state equals
// the SQL table history_escalations; both change together. Only the goroutine of Run uses it.
type router struct {
	RoutingOptions
	store        history.Store
	names        Names
	all          map[history.EscalationKey]*escalation
	of           map[string][]*escalation        // escalations by problem
	dependents   map[string]map[*escalation]bool // held escalations, by the problem of the dependency that holds them
	groups       map[groupKey]*group
	rates        map[groupKey]*history.RouteRate // counts of messages that open problems, by route
	due          dueHeap
	changed      <-chan struct{}         // closed when routing has changed since the last evaluation
	open         map[string]sourceOnNode // problems that are open in history
	unknownUntil time.Time               // history does not know the messages to handlers up to here; zero: it does
}

// sourceOnNode identifies an event by its node and the check or trigger on the node.
type sourceOnNode struct {
	node   model.NodeID
	source model.Source
}

// escalation is the progress of one problem on one route, a row of the table history_escalations
type escalation struct {
	history.Escalation
	route            *route.Route
	at               time.Time         // time of the next evaluation
	index            int               // index in the heap; -1: the escalation is not in it
	dependency       string            // id of the problem whose closing the escalation waits for; empty: none
	present          *event.Transition // state of the problem at its last evaluation, for the message of the same batch
	onlyAdded        bool              // the next message is for handlers that were added to a step which was sent
	previousSeverity model.Severity    // severity notified before Severity, until all steps were sent with Severity
}

// group has the problems on one route that share messages to handlers. They have equal values of the route's
// groupBy fields.
type group struct {
	lead    string
	flush   time.Time // time of the group's next message; in the past: no message waits
	ends    time.Time // time of the group's next closing; in the past: no closing waits
	members map[*escalation]bool
}

// groupKey identifies a group of problems that share messages or a rate limit. Fields that do not matter are zero.
// Problems of a shadow namespace share neither messages nor a rate with other problems.
type groupKey struct {
	route, group string
	shadow       bool
	step         int
}

// compare compares two message groups for sorting by route, groupBy values, shadow mode and step.
func (k groupKey) compare(o groupKey) int {
	return cmp.Or(cmp.Compare(k.route, o.route), cmp.Compare(k.group, o.group), orderOfBool(k.shadow)-orderOfBool(o.shadow), cmp.Compare(k.step, o.step))
}

// groupKey returns the key of the message group of a problem on a route. One message reports all problems of the
// group.
func (e *escalation) groupKey() groupKey { return groupKey{route: e.Route, group: e.Group} }

// rateKey returns the key under which messages about the problem count for the route's rate limit.
func (e *escalation) rateKey() groupKey { return groupKey{route: e.Route, shadow: e.Shadow} }

// newRouter returns a router without problems on routes.
func newRouter(o Options) *router {
	return &router{
		RoutingOptions: o.Routing, store: o.Store, names: o.Names, all: map[history.EscalationKey]*escalation{},
		of: map[string][]*escalation{}, dependents: map[string]map[*escalation]bool{}, groups: map[groupKey]*group{},
		rates: map[groupKey]*history.RouteRate{}, open: map[string]sourceOnNode{},
	}
}

// mayHaveBeenSent reports whether a message may have been sent before the database was restored from a backup. The
// history database may be an older backup that does not know.
func (r *router) mayHaveBeenSent(due time.Time) bool {
	return !due.IsZero() && !due.After(r.unknownUntil)
}

// load reads the progress of all problems on their routes from the database. It has the open problems, their
// progress on routes (escalations), and the counters of rate limits.
func (r *router) load(ctx context.Context) error {
	rates, err := r.store.Rates(ctx)
	if err != nil {
		return err
	}
	for i := range rates {
		r.rates[groupKey{route: rates[i].Route, shadow: rates[i].Shadow}] = &rates[i]
	}
	rows, err := r.store.Escalations(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		r.addEscalation(&escalation{Escalation: rows[i], index: -1})
	}
	for q := (history.ProblemQuery{Open: true, Limit: 1000}); ; {
		page, err := r.store.Problems(ctx, q)
		if err != nil {
			return err
		}
		for _, p := range page {
			r.open[p.ID] = sourceOnNode{p.NodeID, p.Source}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.Before, q.BeforeID = page[len(page)-1].Opened, page[len(page)-1].ID
	}
}

// addEscalation adds one problem's progress on one route (escalation) to the router's indexes. It also adds it to the
// heap of due escalations.
func (r *router) addEscalation(e *escalation) {
	r.all[e.EscalationKey] = e
	r.of[e.Problem] = append(r.of[e.Problem], e)
	g := r.findOrCreateGroup(e.groupKey(), e.Lead)
	g.members[e] = true
	if e.Closing != nil && len(e.Notified) > 0 && e.Due.After(g.ends) {
		g.ends = e.Due
	}
	r.schedule(e)
}

// findOrCreateGroup returns the message group with a given key, and creates a missing group.
func (r *router) findOrCreateGroup(key groupKey, lead string) *group {
	if r.groups[key] == nil {
		r.groups[key] = &group{lead: lead, members: map[*escalation]bool{}}
	}
	return r.groups[key]
}

// removeEscalation removes one problem's progress on one route (escalation) from the router's indexes. It also removes
// it from the heap of due escalations.
func (r *router) removeEscalation(e *escalation) {
	delete(r.all, e.EscalationKey)
	r.releaseDependency(e)
	r.of[e.Problem] = slices.DeleteFunc(r.of[e.Problem], func(x *escalation) bool { return x == e })
	if len(r.of[e.Problem]) == 0 {
		delete(r.of, e.Problem)
	}
	r.removeFromGroup(e)
	if e.index >= 0 {
		heap.Remove(&r.due, e.index)
	}
}

// removeFromGroup removes one problem's progress on one route (escalation) from its message group.
func (r *router) removeFromGroup(e *escalation) {
	key := e.groupKey()
	if g := r.groups[key]; g != nil {
		if delete(g.members, e); len(g.members) == 0 {
			delete(r.groups, key)
		}
	}
}

// applyProblemChange updates all routes of a problem after one change, such as its opening. The change is its
// opening or closing, another status, or an acknowledgement.
func (r *router) applyProblemChange(o *deliveryBatch, t *problemChange) error {
	switch t.Kind {
	case event.StatusChanged:
		r.dependencyImproved(t.Transition, o.now)
		r.statusChanged(o, t.Transition)
		return nil
	case event.ProblemOpened:
		r.open[t.problem.ID] = sourceOnNode{t.Node, t.Source}
		if len(r.of[t.problem.ID]) > 0 {
			return nil // the opening was derived from the journal again, and was routed before
		}
		o.opened[t.problem.ID] = t.Transition
		var now []*escalation
		for _, e := range r.openEscalations(t.Transition, &t.problem, o.now) {
			e.Late = t.late
			if o.writeEscalation(e); e.index >= 0 && !e.at.After(o.now) {
				now = append(now, e)
			}
		}
		return r.evaluate(o, now)
	case event.ProblemClosed:
		delete(r.open, t.problem.ID)
		return o.closeProblem(t.Transition, &t.problem)
	default:
		return o.notifyAcknowledged(t.Transition, &t.problem)
	}
}

// reevaluateAll decides again about all waiting messages, because a silence or maintenance window may have
// ended. It also evaluates escalations whose route has other steps.
func (r *router) reevaluateAll(now time.Time) {
	for _, e := range r.all {
		if e.Closing != nil {
			continue
		}
		switch to := r.routeOf(e); {
		case to == nil: // see moveFromDeletedRoutes
		case e.Hold != nil:
			r.reevaluate(e, now)
		case len(e.Next) != len(to.Steps):
			e.Next = e.Next.AdaptToRoute(to, e.Opened)
			r.schedule(e)
		}
	}
}

// reevaluate decides again about the waiting messages of one problem on one route. Messages that were dropped
// for good stay dropped.
func (r *router) reevaluate(e *escalation, now time.Time) {
	if e.Hold != nil && !e.Hold.Drop && e.Closing == nil {
		e.Due = now
		r.schedule(e)
	}
}

// statusChanged decides anew, after a change of status, whom to notify of an open problem. Other silences or routes
// may match now.
func (r *router) statusChanged(o *deliveryBatch, t *event.Transition) {
	if t.First || t.Status == model.OK {
		return
	}
	s := r.Present(t.Node, t.Source)
	if s == nil || s.Problem == nil || !s.Problem.Opened.Before(time.Unix(0, t.Received)) {
		return // the transition that opens or closes the problem follows
	}
	for _, e := range r.of[s.Problem.ID] {
		r.notifyChangedProblem(e, o.now)
		r.reevaluate(e, o.now)
		o.notifyHigherSeverity(e, s.Problem.Severity)
	}
	for _, e := range r.openEscalations(t, &history.Problem{Problem: *s.Problem}, o.now) {
		o.writeEscalation(e)
	}
}

// shiftTimes corrects all scheduled times after the system clock was set back
func (r *router) shiftTimes(o *deliveryBatch, by time.Duration) {
	for _, e := range r.all {
		for i, at := range e.Next {
			if !at.IsZero() {
				e.Next[i] = at.Add(-by)
			}
		}
		if e.Opened = e.Opened.Add(-by); e.Closing != nil {
			e.Due = e.Due.Add(-by)
		}
		if e.heldByRate() || e.Hold != nil && e.Hold.Kind == route.ManySilent {
			held := *e.Hold
			held.Until = held.Until.Add(-by)
			e.Hold, e.Due = &held, held.Until
		}
		r.schedule(e)
		o.writeEscalation(e)
	}
	for _, g := range r.groups {
		g.flush, g.ends = g.flush.Add(-by), g.ends.Add(-by)
	}
	for key, p := range r.rates {
		p.Ends = p.Ends.Add(-by)
		o.rates[key] = p
	}
}

// schedule puts a problem on a route into the heap, sorted by the time of the next decision. The heap is
// ordered by the time of the next message or decision. An escalation without due time waits for a change.
func (r *router) schedule(e *escalation) {
	at := e.Due
	if e.Closing == nil && e.Hold == nil {
		if _, at, _ = e.Next.Due(); !e.AckEnds.IsZero() && (at.IsZero() || e.AckEnds.Before(at)) {
			at = e.AckEnds
		}
	}
	r.scheduleAt(e, at)
}

// scheduleAt sets the time of the router's next decision about a problem on a route. Zero means no planned decision.
func (r *router) scheduleAt(e *escalation, at time.Time) {
	if e.index >= 0 {
		heap.Remove(&r.due, e.index)
	}
	if e.at = at; !at.IsZero() {
		heap.Push(&r.due, e)
	}
}

// nextDue returns the earliest time of a decision of the router, or zero without a planned decision.
func (r *router) nextDue() time.Time {
	if len(r.due) == 0 {
		return time.Time{}
	}
	return r.due[0].at
}

// directRoute returns a route without a name, for handlers that a check or namespace names directly.
func directRoute(handlers []history.HandlerRef) *route.Route {
	names := make([]route.Name, len(handlers))
	for i, h := range handlers {
		names[i] = route.Name(h)
	}
	return route.NewDirectRoute(names)
}

// routeOf returns the present declaration of the route of a problem's progress, or nil for a deleted route.
func (r *router) routeOf(e *escalation) *route.Route {
	if e.Route == "" {
		return directRoute(e.Direct)
	}
	ns, name := model.SplitRef("", e.Route)
	found, _ := r.Table.Route(route.Name{Namespace: ns, Name: name})
	return found
}

// describeProblem returns a problem with the node's labels, facts and groups, as input for routing conditions
func (r *router) describeProblem(node model.NodeID, source model.Source, p *model.Problem) *route.Problem {
	return route.NewProblem(r.names, node, source, p.Status, p.Severity, p.Labels)
}

// chooseRoutes returns the routes whose conditions match a problem, and the problem data for the conditions.
func (r *router) chooseRoutes(t *event.Transition, p *history.Problem) (*route.Problem, []*route.Route) {
	m := r.describeProblem(t.Node, t.Source, &p.Problem)
	namespace, _ := r.names.NamespaceName(t.Namespace)
	routes, _ := route.Choose(r.Table, r.names, m, presentDefinition(r.names, t), namespace)
	return m, routes
}

// openEscalations begins to track a problem on each matching route, except routes already tracked. Such
// progress is an escalation.
func (r *router) openEscalations(t *event.Transition, p *history.Problem, now time.Time) (list []*escalation) {
	m, routes := r.chooseRoutes(t, p)
	opened := p.Opened
	if opened.After(now) {
		opened = now // the clock was set back after the problem opened; times of the journal are not
	}
	shadow := r.isShadowed(p.ID, m.Node.Namespace)
	for _, to := range routes {
		e := escalationOf(p.ID, to)
		e.NodeID, e.Source, e.Opened, e.Lead, e.Shadow = t.Node, t.Source, opened, p.ID, shadow
		if e.Group = p.ID; e.Route != "" {
			e.Group = to.Group(m)
		}
		if shadow { // problems of a shadow namespace share no message with others
			e.Group += "\x00shadow"
		}
		if r.all[e.EscalationKey] != nil {
			continue
		}
		e.Next = to.Escalate(opened, r.nextGroupMessage(e, to, now))
		r.addEscalation(e)
		list = append(list, e)
	}
	return list
}

// escalationOf returns the initial progress of a problem on a route (escalation), before any message was sent.
// Handlers without a route count as a route, too.
func escalationOf(problem string, to *route.Route) *escalation {
	e := &escalation{index: -1, Escalation: history.Escalation{EscalationKey: history.EscalationKey{Problem: problem}}}
	if to.Name != (route.Name{}) {
		e.Route = to.Name.String()
		return e
	}
	for _, name := range to.Steps[0].To {
		e.Direct = append(e.Direct, history.HandlerRef(name))
	}
	return e
}

// isShadowed reports whether messages about a problem are recorded but not sent, because of its namespace's
// shadow mode. Its namespace then sets notifications to shadow. A problem keeps the mode of its opening until
// it closes, so that no handler gets a closing without an opening.
func (r *router) isShadowed(problem, namespace string) bool {
	if of := r.of[problem]; len(of) > 0 {
		return of[0].Shadow
	}
	return r.Shadow != nil && r.Shadow(namespace)
}

// nextGroupMessage returns the time at which a problem's message group may send its next message. The time is
// at most the route's groupWait from now.
func (r *router) nextGroupMessage(e *escalation, to *route.Route, now time.Time) time.Time {
	g := r.findOrCreateGroup(e.groupKey(), e.Problem)
	e.Lead = g.lead
	if !g.flush.After(now) {
		g.flush = now.Add(to.GroupWait)
	}
	return g.flush
}

// dueHeap is a heap of problems on routes, ordered by the time of the next decision. An escalation is the progress of
// one problem on one route.
type dueHeap []*escalation

// Len returns the number of problems on routes in the heap (heap.Interface).
func (h dueHeap) Len() int { return len(h) }

// Less orders problems on routes by the time of the next decision, then by problem and route.
func (h dueHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Problem, b.Problem), cmp.Compare(a.Route, b.Route)) < 0
}

// Swap swaps two problems on routes in the heap, and updates their recorded indexes (heap.Interface).
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

// Push appends a problem on a route to the heap, and records its index (heap.Interface).
func (h *dueHeap) Push(x any) { e := x.(*escalation); e.index = len(*h); *h = append(*h, e) }

// Pop removes and returns the last problem on a route in the heap (heap.Interface).
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1], e.index = nil, -1
	*h = old[:len(old)-1]
	return e
}
