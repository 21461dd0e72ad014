package dispatch

import (
	"context"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// ReceiverEdits has the routes and lists of handlers that a planned change would create, edit or delete.
type ReceiverEdits struct {
	Routes     []route.Declaration // the spec of a deleted route is nil
	Checks     map[route.Name]*model.CheckSpec
	Nodes      map[route.Name]*model.NodeSpec
	Namespaces map[string]*model.NamespaceSpec
	Sees       func(namespace string) bool // whether the caller sees problems of a namespace
}

// affects reports whether the planned edits change a route or handler list of the given problem. It does if it
// edits a route of the problem, or the handler list of its check, node or namespace.
func (p *ReceiverEdits) affects(m *route.Problem, to *route.Route) bool {
	switch {
	case p == nil:
		return false
	case to.Name != (route.Name{}):
		return slices.ContainsFunc(p.Routes, func(d route.Declaration) bool { return d.Name == to.Name })
	}
	return p.Checks[m.Source.Name] != nil || p.Nodes[m.Node] != nil && m.Source.Name.Name == model.KeepaliveCheckName || p.Namespaces[m.Node.Namespace] != nil
}

// PreviewRouting counts, by route, the open problems that a planned change of routes would affect. It changes nothing;
// another handler list counts like a route. Problems count as held while a silence, a window or an acknowledgement
// holds them. late is true if history is behind.
func (r *Dispatcher) PreviewRouting(ctx context.Context, c RoutingChange, edits *ReceiverEdits) (taken []AffectedProblems, late bool) {
	r.changes.Lock()
	defer r.changes.Unlock()
	return r.changes.await(ctx, r.opts.Routing.Table, &rerouteRequest{RoutingChange: c, edits: edits, preview: true})
}

// previewOpenProblems returns the open problems that a planned change of routes would move to another route.
func (o *deliveryBatch) previewOpenProblems(c *rerouteRequest) (out []AffectedProblems) {
	table, err := o.Table.WithRoutes(c.edits.Routes)
	if err != nil {
		return nil // intent refuses such a route
	}
	byRoute := map[string]*AffectedProblems{}
	for _, id := range slices.Sorted(maps.Keys(o.open)) {
		at := o.open[id]
		t := o.Present(at.node, at.source)
		namespace := ""
		if t != nil {
			namespace, _ = o.names.NamespaceName(t.Namespace)
		}
		if t == nil || t.Problem == nil || t.Problem.ID != id || !c.edits.Sees(namespace) {
			continue
		}
		p := t.Problem
		m := o.describeProblem(t.Node, t.Source, p)
		before := presentDefinition(o.names, t)
		after := c.edits.definitionAfterChange(m, t, before)
		routes, _ := route.Choose(table, previewNamespaces{o.names, c.edits.Namespaces}, m, after, namespace)
		sameList := before == nil || slices.Equal(before.Handlers, after.Handlers) && c.edits.Namespaces[namespace] == nil
		for _, to := range routes {
			e := escalationOf(id, to)
			known := o.all[e.EscalationKey]
			if known != nil {
				*e = *known
				e.Next, e.Skipped = slices.Clone(known.Next), slices.Clone(known.Skipped)
				added := known.Closing == nil && len(known.Notified) > 0 && o.addStepHandlers(c, e, to)
				if known.Closing != nil || !added && (!c.edits.affects(m, to) || e.Route == "" && sameList) {
					continue
				}
			} else {
				o.inheritFromDeleted(e, table)
			}
			one := byRoute[e.routeKey()]
			if one == nil {
				one = &AffectedProblems{Route: e.Route}
				for _, name := range to.Steps[0].To {
					one.Handlers = append(one.Handlers, history.HandlerRef(name))
				}
				byRoute[e.routeKey()] = one
			}
			one.count(e, to, c.OnlyNew || p.Ack.Active(o.now) || mostImportantHold(o.Table.Holds(m, to, o.now)) != nil)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byRoute)) {
		out = append(out, *byRoute[key])
	}
	return out
}

// inheritFromDeleted copies, from the problem's progress on deleted routes, which handlers were already
// notified, for a preview.
func (o *deliveryBatch) inheritFromDeleted(e *escalation, table *route.Table) {
	for _, old := range o.of[e.Problem] {
		namespace, name := model.SplitRef("", old.Route)
		if _, ok := table.Route(route.Name{Namespace: namespace, Name: name}); old.Route != "" && !ok && old.Closing == nil {
			e.inheritNotified(old)
		}
	}
}

// definitionAfterChange returns a problem's check definition with the handlers and route after the change. Parameter c is the
// present definition.
func (p *ReceiverEdits) definitionAfterChange(m *route.Problem, t *event.Transition, c *model.CheckDefinition) *model.CheckDefinition {
	if c == nil || t.Source.Kind != model.SourceCheck {
		return c
	}
	after := *c
	if t.Source.Check() == model.KeepaliveCheck {
		if node := p.Nodes[m.Node]; node != nil && node.Keepalive != nil {
			after.Handlers = node.Keepalive.Handlers
		}
	} else if check := p.Checks[m.Source.Name]; check != nil {
		after.Handlers, after.Route, after.Pipelines = nil, "", check.Pipelines
		if check.Alert != nil {
			after.Handlers, after.Route = check.Alert.Handlers, check.Alert.Route
		}
	}
	return &after
}

// previewNamespaces looks up names for a preview of routes, with each namespace's handlers as after the planned
// change. All other names are the present ones.
type previewNamespaces struct {
	Names
	changed map[string]*model.NamespaceSpec
}

// NamespaceHandlers returns the handlers that a namespace would have after the previewed change
func (n previewNamespaces) NamespaceHandlers(namespace string) []string {
	if spec := n.changed[namespace]; spec != nil {
		return spec.Handlers
	}
	return n.Names.NamespaceHandlers(namespace)
}
