package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

func (s *server) routeRoutes() {
	handle(s, operation("testRoute", http.MethodGet, "/api/v1/routetest/{namespace}/{node}/{check}", "routes", "Who would hear of a problem, when, and what would hold it"), s.testRoute)
}

func (s *server) testRoute(ctx context.Context, in *struct {
	EventPath
	At       time.Time `query:"at" doc:"When it would open; default now."`
	Status   string    `query:"status" maxLength:"64" doc:"Default critical."`
	Severity string    `query:"severity" maxLength:"64" doc:"Default: what the status means."`
}) (*body[v1.RouteTest], error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.noNode(ctx, in.Namespace, in.Node)
	}
	check, err := s.checkOn(ctx, node, in.EventPath)
	if err != nil {
		return nil, err
	}
	status, ok := model.ParseStatus(cmp.Or(in.Status, "critical"))
	if !ok || status == model.OK {
		return nil, model.Errorf(model.Invalid, "%q is no status of a problem", in.Status).WithHint("warning, critical or unknown")
	}
	c := routeCase{server: s, ctx: ctx, chunk: s.chunkOf(node, check), at: in.At}
	if c.at.IsZero() {
		c.at = s.Now()
	}
	severity := model.DefaultSeverity(status)
	if c.chunk != nil {
		severity = c.chunk.Severities[status]
	}
	if in.Severity != "" {
		if severity, ok = model.ParseSeverity(in.Severity); !ok {
			return nil, model.Errorf(model.Invalid, "%q is no severity", in.Severity).WithHint("information, warning, average, high or disaster")
		}
	}
	c.matter = route.About(s.Directory, node, check, status, severity)
	out := v1.RouteTest{Namespace: in.Namespace, Node: in.Node, Check: in.Check, At: c.at.UTC(), Status: status, StatusName: status.String(), SeverityName: severity.String()}
	routes, why, err := c.routes()
	if err != nil {
		return nil, err
	}
	out.Why, out.Routes = why, []v1.RouteTestOne{}
	for _, r := range routes {
		out.Routes = append(out.Routes, c.play(r))
	}
	return &body[v1.RouteTest]{out}, nil
}

// chunkOf is the definition that a node holds of a check; nil: none.
func (s *server) chunkOf(node model.NodeID, check model.CheckID) *model.Chunk {
	if chunk := model.BuiltinChunkOf(model.BuiltinChunk(check)); chunk != nil {
		return chunk
	}
	if s.Assigned == nil {
		return nil
	}
	return s.Assigned(node, check)
}

// routeCase is a problem that somebody thinks up.
type routeCase struct {
	*server
	ctx    context.Context
	chunk  *model.Chunk
	matter *route.Matter
	at     time.Time
}

// routes are those that would take the problem, and what chose them.
func (c *routeCase) routes() ([]*route.Route, string, error) {
	ref := ""
	if c.chunk != nil {
		if names := c.chunk.Handlers; len(names) > 0 {
			return []*route.Route{c.direct(c.matter.Check.Namespace, names)}, "the check names handlers (alert.handlers)", nil
		}
		ref = c.chunk.Route
	}
	routes := c.Routing.Routes(c.matter, ref)
	ns, name := model.SplitRef(c.matter.Check.Namespace, ref)
	switch {
	case len(routes) == 0:
		return c.ofNamespace()
	case ref != "" && routes[0].Name == (route.Name{Namespace: ns, Name: name}):
		return routes, "the check names the route (alert.route)", nil
	case len(routes) == 1 && routes[0].Name.Name == route.DefaultName:
		return routes, "no other route matches", nil
	}
	return routes, plural(len(routes), "route") + " matching (match)", nil
}

func (c *routeCase) direct(namespace string, handlers []string) *route.Route {
	names := make([]route.Name, len(handlers))
	for i, h := range handlers {
		names[i].Namespace, names[i].Name = model.SplitRef(namespace, h)
	}
	return route.Direct(names)
}

// ofNamespace are the handlers that a node's namespace names.
func (c *routeCase) ofNamespace() ([]*route.Route, string, error) {
	namespace := c.matter.Node.Namespace
	r, err := c.Intent.Get(c.ctx, intent.Key{Kind: "Namespace", Name: namespace})
	if err != nil {
		return nil, "", err
	}
	if spec, ok := r.Spec.(*model.NamespaceSpec); ok && len(spec.Handlers) > 0 {
		return []*route.Route{c.direct(namespace, spec.Handlers)}, "no route matches and none is called default: the handlers of namespace " + namespace, nil
	}
	return nil, "nobody is told: the check names nobody (alert.route), no route matches, none is called default, and namespace " + namespace + " names no handlers", nil
}

// play is what a route would do with the problem if nobody acknowledged it.
func (c *routeCase) play(r *route.Route) v1.RouteTestOne {
	out := v1.RouteTestOne{GroupWait: model.Duration(r.GroupWait)}
	if r.Name.Name != "" {
		out.Route, out.GroupBy = r.Name.String(), strings.Join(r.GroupBy(), ", ")
	}
	for i, due := range r.Begin(c.at, c.at.Add(r.GroupWait)) {
		step := v1.RouteTestStep{Due: due.UTC(), Repeat: model.Duration(r.Steps[i].Repeat)}
		for _, to := range r.Steps[i].To {
			_, there := c.Directory.Handler(to.Namespace, to.Name)
			step.Handlers = append(step.Handlers, v1.RouteHandler{Name: to.String(), Missing: !there})
		}
		step.At, step.Holds = c.held(r, due)
		out.Steps = append(out.Steps, step)
	}
	return out
}

// maxHeld is how many holds one after the other are followed.
const maxHeld = 20

// held is when a step would be told that is due at a time; zero: nobody knows, or never.
func (c *routeCase) held(r *route.Route, due time.Time) (time.Time, []v1.Hold) {
	var holds []route.Hold
	for range maxHeld {
		now := c.Routing.Holds(c.matter, r, due)
		if len(now) == 0 {
			return due.UTC(), holdsShown(holds)
		}
		for _, h := range now {
			if !slices.Contains(holds, h) {
				holds = append(holds, h)
			}
			if h.Drop || h.Until.IsZero() {
				return time.Time{}, holdsShown(holds)
			}
			if h.Until.After(due) {
				due = h.Until
			}
		}
	}
	return time.Time{}, holdsShown(holds)
}
