package route

import "github.com/muster-fleet/muster/internal/model"

// Choice is what chose who is told of a problem.
type Choice int

const (
	ByNobody    Choice = iota // there is nobody to be told
	ByHandlers                // the check names handlers
	ByRoute                   // the check names the route
	ByMatch                   // routes match
	ByDefault                 // no other route matches, and one is called default
	ByNamespace               // no route takes it; the node's namespace names handlers
	ByPipelines               // nobody: its pipelines say whom they pass it on to
)

// Rooms are namespaces (the planner).
type Rooms interface {
	NamespaceName(id model.NamespaceID) (name string, ok bool)
	// NamespaceHandlers are told of what names nobody on the namespace's nodes.
	NamespaceHandlers(namespace string) []string
}

// Routes finds the routes in force (*Table).
type Routes interface {
	Routes(m *Problem, ref string) []*Route
	Matching(m *Problem) []*Route
}

// Choose says who is told of a problem of a check with this definition (nil: none is known) on a
// node of this namespace: whoever asks, tells or explains asks here. Handlers without a route come
// as one without a name.
func Choose(t Routes, rooms Rooms, m *Problem, c *model.CheckChunk, namespace string) ([]*Route, Choice) {
	ref, piped := "", false
	if c != nil {
		if room, ok := rooms.NamespaceName(c.Namespace); ok {
			if len(c.Handlers) > 0 {
				return []*Route{direct(room, c.Handlers)}, ByHandlers
			}
			ref, piped = c.Route, len(c.Pipelines) > 0
		}
	}
	if piped && ref == "" { // else each page came twice
		if routes := t.Matching(m); len(routes) > 0 {
			return routes, ByMatch
		}
		return nil, ByPipelines
	}
	routes := t.Routes(m, ref)
	ns, name := model.SplitRef(m.Source.Name.Namespace, ref)
	switch {
	case len(routes) == 0:
		if handlers := rooms.NamespaceHandlers(namespace); len(handlers) > 0 {
			return []*Route{direct(namespace, handlers)}, ByNamespace
		}
		return nil, ByNobody
	case ref != "" && routes[0].Name == (Name{ns, name}):
		return routes, ByRoute
	case len(routes) == 1 && routes[0].Name.Name == DefaultName && !routes[0].matches:
		return routes, ByDefault
	}
	return routes, ByMatch
}

func direct(namespace string, handlers []string) *Route {
	names := make([]Name, len(handlers))
	for i, h := range handlers {
		names[i].Namespace, names[i].Name = model.SplitRef(namespace, h)
	}
	return Direct(names)
}
