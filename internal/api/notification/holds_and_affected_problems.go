// Package notification finds the routes by which people are notified of a problem, and the holds
// that keep notifications back now: silences, windows, muted routes, dependencies.
//
// Start reading at ActiveHolds.
package notification

import (
	"context"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// ActiveHolds returns the reasons why nobody is notified of an open problem now, such as a silence.
func ActiveHolds(v *view.View, p *model.Problem) []v1.NotificationHold {
	if !p.Closed.IsZero() {
		return nil
	}
	m, now := route.NewProblem(v.Directory, p.NodeID, p.Source, p.Status, p.Severity, p.Labels), v.Now()
	list := v.Routing.Holds(m, nil, now)
	if hold, _ := route.DependencyHold(v.Directory.Dependencies(p.NodeID, p.Source), v.OpenProblem); hold != nil {
		list = append(list, *hold)
	}
	routes, _ := Routes(v, m, Definition(v, p.NodeID, p.Source))
	for _, r := range routes {
		for _, h := range v.Routing.Holds(m, r, now) {
			if h.Kind == route.Muted {
				list = append(list, h)
			}
		}
	}
	return ShowHolds(list)
}

// Routes returns the routes for a problem's notifications, and the rule by which the routes were chosen.
func Routes(v *view.View, m *route.Problem, c *model.CheckDefinition) ([]*route.Route, route.Choice) {
	return route.Choose(v.Routing, v.Directory, m, c, m.Node.Namespace)
}

// ShowHolds converts the reasons why notifications wait, such as silences, to the API type NotificationHold
func ShowHolds(list []route.Hold) (out []v1.NotificationHold) {
	for _, h := range list {
		one := v1.NotificationHold{Kind: string(h.Kind), During: h.During, Reason: h.Reason, Creator: h.Creator, Until: h.Until, Drop: h.Drop, UntilResolved: h.UntilResolved}
		if h.By.Name != "" {
			one.By = h.By.String()
		}
		out = append(out, one)
	}
	return out
}

// HoldCounter counts the open problems whose notifications each silence or maintenance window stops. The first call
// of Count reads all open problems.
type HoldCounter struct {
	*view.View
	counted bool
	by      map[route.Name]int
}

// NewHoldCounter returns a counter of the open problems that silences and maintenance windows hold back. It reads the
// open problems only once per request.
func NewHoldCounter(v *view.View) *HoldCounter { return &HoldCounter{View: v} }

// Count returns the number of open problems whose notifications a silence or maintenance window stops now.
func (h *HoldCounter) Count(name route.Name) int {
	if !h.counted {
		h.counted, h.by = true, map[route.Name]int{}
		_ = EachProblem(context.Background(), h.View, func(m *route.Problem) {
			for _, hold := range h.Routing.Holds(m, nil, h.Now()) {
				h.by[hold.By]++
			}
		})
	}
	return h.by[name]
}

// EachProblem calls fn with every open problem that the caller may see
func EachProblem(ctx context.Context, v *view.View, fn func(*route.Problem)) error {
	for st, err := range v.AllEvents(ctx, event.Query{Problems: true}) {
		if err != nil {
			return err
		}
		if st.Problem != nil {
			fn(route.NewProblem(v.Directory, st.Node, st.Problem.Source, st.Problem.Status, st.Problem.Severity, st.Problem.Labels))
		}
	}
	return nil
}

// SilenceActive reports whether a silence is active at the time now.
func SilenceActive(s *model.SilenceSpec, now time.Time) bool {
	return !now.Before(s.Begin.Time) && (s.Until.IsZero() || now.Before(s.Until.Time))
}

// maxNamedNodes is the number of covered nodes that an answer names.
const maxNamedNodes = 10

// maxSelectorTime is how long the condition of a selector may take over all nodes.
const maxSelectorTime = 2 * time.Second

// CountMatchingNodes counts the nodes of a namespace that a selector matches, and returns the first names. A node with an open
// problem that matches by tags of its trigger counts, too. It also returns the number of all nodes. A selector that takes
// more than maxSelectorTime is an error.
func CountMatchingNodes(v *view.View, namespace string, selector *model.Selector) (covered, all int, first []string, err error) {
	names, err := route.NodeFunc(namespace, selector)
	if err != nil {
		return 0, 0, nil, err
	}
	matches, err := route.MatchFunc(namespace, selector)
	if err != nil {
		return 0, 0, nil, err
	}
	tagged := map[model.NodeID]bool{}
	v.Events.OpenProblems(func(p *model.Problem) {
		if len(p.Labels) > 0 && !tagged[p.NodeID] && matches(route.NewProblem(v.Directory, p.NodeID, p.Source, p.Status, p.Severity, p.Labels)) {
			tagged[p.NodeID] = true
		}
	})
	of := namespace
	if of == model.SharedNamespaceName {
		of = ""
	}
	began := v.Now()
	for _, id := range v.Directory.Nodes(of) {
		if v.Now().Sub(began) > maxSelectorTime {
			return 0, 0, nil, model.Errorf(model.Limited, "where: the condition %q takes more than %s over all nodes", model.Shorten(selector.Where), maxSelectorTime).
				WithHint("compare labels and facts with == and startsWith(), in place of exists(), all() and matches()")
		}
		if !tagged[id] && !names(route.NewProblem(v.Directory, id, model.Source{}, 0, 0, nil)) {
			continue
		}
		covered++
		if in, name, ok := v.Directory.NodeName(id); ok {
			if in != namespace {
				name = in + "/" + name
			}
			at, _ := slices.BinarySearch(first, name)
			first = slices.Insert(first, at, name)
			first = first[:min(len(first), maxNamedNodes)]
		}
	}
	return covered, len(v.Directory.Nodes("")), first, nil
}

// Definition returns the settings, such as handlers, for problems of a check or trigger on a node. Its
// handlers, route and pipelines count; it is nil for an unknown source.
func Definition(v *view.View, node model.NodeID, source model.Source) *model.CheckDefinition {
	if source.Check() == model.KeepaliveCheck {
		return v.Directory.Keepalive(node)
	}
	if definition := model.BuiltinDefinitionOf(model.BuiltinDefinitionID(source.Check())); definition != nil {
		return definition
	}
	if unit := v.Directory.SourceUnit(source); unit != nil {
		return unit.Definition.EventRules(source.Instance)
	}
	return nil
}

// ShowAffectedProblems converts the open problems with changed routes or handlers to the API type
// AffectedProblems. A moved problem goes to another route or handler list. Those of namespaces that the caller
// may not see are left out.
func ShowAffectedProblems(v *view.View, list []dispatch.AffectedProblems) (out []v1.AffectedProblems) {
	for _, one := range list {
		if _, ok := v.Directory.NamespaceByName(one.Handlers[0].Namespace); !ok {
			continue
		}
		shown := v1.AffectedProblems{Route: one.Route, Problems: one.Problems, Notified: one.Notified, OnHold: one.OnHold, At: one.At}
		for _, ref := range one.Handlers {
			shown.Handlers = append(shown.Handlers, ref.Namespace+"/"+ref.Name)
		}
		out = append(out, shown)
	}
	return out
}

// DeclaringResourceText returns "the node" for keepalive events and "the check" for other events, for use in
// messages. They name the resource that declares the handlers of an event.
func DeclaringResourceText(check model.CheckID) string {
	if check == model.KeepaliveCheck {
		return "the node"
	}
	return "the check"
}
