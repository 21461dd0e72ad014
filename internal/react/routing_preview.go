package react

import (
	"context"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// RoutingPreview has changed routes and handler lists whose effect is computed and not applied
type RoutingPreview struct {
	Routes     []route.Declaration // the spec of a deleted route is nil
	Checks     map[route.Name]*model.CheckSpec
	Nodes      map[route.Name]*model.NodeSpec
	Namespaces map[string]*model.NamespaceSpec
	Sees       func(namespace string) bool // whether the caller sees problems of a namespace
}

// PreviewRouting returns the open problems that changed routes and handler lists would newly notify, and changes
// nothing. Problems count as held while a silence, a window or an acknowledgement holds them. late is true if history
// is behind.
func (r *Reactor) PreviewRouting(ctx context.Context, c RoutingChange, preview *RoutingPreview) (taken []RoutedProblems, late bool) {
	r.changes.Lock()
	defer r.changes.Unlock()
	return r.changes.await(ctx, r.opts.Routing.Table, &rerouting{RoutingChange: c, preview: preview})
}

// previewOpenProblems returns the open problems that routeOpenProblems would notify after the previewed change
func (o *deliveryBatch) previewOpenProblems(c *rerouting) (out []RoutedProblems) {
	table, err := o.Table.WithRoutes(c.preview.Routes)
	if err != nil {
		return nil // intent refuses such a route
	}
	byRoute := map[string]*RoutedProblems{}
	for _, id := range slices.Sorted(maps.Keys(o.open)) {
		at := o.open[id]
		t := o.Present(at.node, at.source)
		namespace := ""
		if t != nil {
			namespace, _ = o.names.NamespaceName(t.Namespace)
		}
		if t == nil || t.Problem == nil || t.Problem.ID != id || !c.preview.Sees(namespace) {
			continue
		}
		p := t.Problem
		m := o.describeProblem(t.Node, t.Source, p.Status, p.Severity)
		routes, _ := route.Choose(table, previewNamespaces{o.names, c.preview.Namespaces}, m, c.preview.receivers(m, t, receivers(o.names, t)), namespace)
		for _, to := range routes {
			e := escalationOf(id, to)
			if known := o.all[e.EscalationKey]; known != nil {
				changed := *known
				changed.Next, changed.Skipped = slices.Clone(known.Next), slices.Clone(known.Skipped)
				if known.Closing != nil || len(known.Notified) == 0 || !o.addStepHandlers(c, &changed, to) {
					continue
				}
			}
			one := byRoute[e.routeKey()]
			if one == nil {
				one = &RoutedProblems{Route: e.Route}
				for _, name := range to.Steps[0].To {
					one.Handlers = append(one.Handlers, history.HandlerRef(name))
				}
				byRoute[e.routeKey()] = one
			}
			one.Problems++
			if c.OnlyNew || p.Ack.Active(o.now) || decidingHold(o.Table.Holds(m, to, o.now)) != nil {
				one.Held++
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byRoute)) {
		out = append(out, *byRoute[key])
	}
	return out
}

// receivers returns the check definition whose handlers, route and pipelines would apply to a problem after the
// change; c is the present one
func (p *RoutingPreview) receivers(m *route.Problem, t *event.Transition, c *model.CheckChunk) *model.CheckChunk {
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

// previewNamespaces is a Names in which namespaces have the handlers that a previewed change gives them
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
