package api

import (
	"context"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// Routing is the windows, routes and silences in force (*route.Table).
type Routing interface {
	Routes(m *route.Problem, ref string) []*route.Route
	Matching(m *route.Problem) []*route.Route
	Holds(m *route.Problem, r *route.Route, now time.Time) []route.Hold
	Window(name route.Name, now time.Time) (route.WindowNow, bool)
	Maintained(name route.Name) func(*route.Problem) bool
}

// holdsOf is what keeps back that people are told of an open problem now.
func (s *server) holdsOf(p *model.Problem) []v1.Hold {
	if !p.Closed.IsZero() {
		return nil
	}
	m, now := route.Describe(s.Directory, p.NodeID, p.Source, p.Status, p.Severity), s.Now()
	list := s.Routing.Holds(m, nil, now)
	if hold, _ := route.DependencyHold(s.Directory.Dependencies(p.NodeID, p.Source.Check()), s.nowOpen); hold != nil {
		list = append(list, *hold)
	}
	routes, _ := s.routesOf(m, s.openedBy(p))
	for _, r := range routes {
		for _, h := range s.Routing.Holds(m, r, now) {
			if h.Kind == route.Muted {
				list = append(list, h)
			}
		}
	}
	return holdsShown(list)
}

// nowOpen is the open problem of a check on a node, as bad as it is now; nil: there is none.
func (s *server) nowOpen(node model.NodeID, check model.CheckID) *model.Problem {
	st, _ := s.Events.Get(node, check)
	return st.ProblemNow()
}

// routesOf are the routes of a problem that opened under a definition of its check, and what chose them.
func (s *server) routesOf(m *route.Problem, c *model.CheckChunk) ([]*route.Route, route.Choice) {
	return route.Choose(s.Routing, s.Directory, m, c, m.Node.Namespace)
}

func holdsShown(list []route.Hold) (out []v1.Hold) {
	for _, h := range list {
		one := v1.Hold{Kind: string(h.Kind), During: h.During, Reason: h.Reason, Creator: h.Creator, Until: h.Until, Drop: h.Drop, UntilResolved: h.UntilResolved}
		if h.By.Name != "" {
			one.By = h.By.String()
		}
		out = append(out, one)
	}
	return out
}

// holdCounter counts what silences and windows keep back, once for a request that asks of many.
type holdCounter struct {
	*server
	counted bool
	by      map[route.Name]int
	err     error
}

// of is how many open problems one keeps back now.
func (h *holdCounter) of(name route.Name) int {
	if !h.counted {
		h.counted, h.by = true, map[route.Name]int{}
		h.err = h.problems(context.Background(), func(m *route.Problem) {
			for _, hold := range h.Routing.Holds(m, nil, h.Now()) {
				h.by[hold.By]++
			}
		})
	}
	return h.by[name]
}

// problems shows each open problem to fn.
func (s *server) problems(ctx context.Context, fn func(*route.Problem)) error {
	q := event.Query{Problems: true, Limit: 1000}
	for {
		page, err := s.Events.List(ctx, q)
		if err != nil {
			return err
		}
		for _, st := range page.States {
			if st.Problem != nil {
				fn(route.Describe(s.Directory, st.Node, st.Problem.Source, st.Problem.Status, st.Problem.Severity))
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

// routingState is what is so now of a silence or a window.
func (s *server) routingState(out *v1.State, r *model.Resource, held *holdCounter) {
	name, now := route.Name{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}, s.Now()
	switch spec := r.Spec.(type) {
	case *model.SilenceSpec:
		if out.InForce = silences(spec, now); out.InForce {
			out.Ends, out.Holds = spec.Until.Time, held.of(name)
		}
	case *model.WindowSpec:
		if at, ok := s.Routing.Window(name, now); ok {
			if out.InForce, out.Begins, out.Ends = at.Inside, at.Begins, at.Ends; at.Inside && spec.Maintenance != nil {
				out.Holds = held.of(name)
			}
		}
	}
}

// silences says whether a silence is in force.
func silences(s *model.SilenceSpec, now time.Time) bool {
	return !now.Before(s.Begin.Time) && (s.Until.IsZero() || now.Before(s.Until.Time))
}

// firstCovered is how many nodes a silence names of those that it covers.
const firstCovered = 10

// covers counts the nodes that a selector of a namespace names, and those that there are, and names the first.
func (s *server) covers(namespace string, selector *model.Selector) (covered, all int, first []string, err error) {
	names, err := route.Nodes(namespace, selector)
	if err != nil {
		return 0, 0, nil, err
	}
	of := namespace
	if of == model.SharedNamespaceName {
		of = ""
	}
	for _, id := range s.Directory.Nodes(of) {
		if !names(route.Describe(s.Directory, id, model.Source{}, 0, 0)) {
			continue
		}
		covered++
		if in, name, ok := s.Directory.NodeName(id); ok {
			if in != namespace {
				name = in + "/" + name
			}
			at, _ := slices.BinarySearch(first, name)
			first = slices.Insert(first, at, name)
			first = first[:min(len(first), firstCovered)]
		}
	}
	return covered, len(s.Directory.Nodes("")), first, nil
}

func (s *server) noNamespaceOf(ctx context.Context, namespace string) error {
	if _, err := s.Intent.Get(ctx, intent.Key{Kind: "Namespace", Name: namespace}); err != nil {
		return s.noNamespace(ctx, namespace)
	}
	return nil
}
