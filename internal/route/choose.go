package route

import "github.com/muster-fleet/muster/internal/model"

// Choice names the rule that selected the recipients of a problem.
type Choice int

const (
	NoRecipient Choice = iota // no rule applies: no recipients
	ByHandlers                // the check names handlers
	ByRoute                   // the check names the route
	ByMatch                   // routes match
	ByDefault                 // no other route matches; the route default takes it
	ByNamespace               // no route takes it; the node's namespace names handlers
	ByPipelines               // no recipients of its own: the check's pipelines notify
)

// Namespaces names namespaces and their handlers (the directory).
type Namespaces interface {
	NamespaceName(id model.NamespaceID) (name string, ok bool)
	// NamespaceHandlers returns the handlers for problems on the namespace's nodes that no route
	// takes.
	NamespaceHandlers(namespace string) []string
}

// Routes finds the routes in force (*Table).
type Routes interface {
	Routes(m *Problem, ref string) []*Route
	Matching(m *Problem) []*Route
}

// Choose returns the routes for a problem of a check (c nil: its definition is unknown) on a node
// of the namespace, and the rule that selected them. Reactions, API and explanations all use it.
// Handlers that a check or namespace names come as one route without a name.
func Choose(t Routes, rooms Namespaces, m *Problem, c *model.CheckChunk, namespace string) ([]*Route, Choice) {
	ref, piped := "", false
	if c != nil {
		if room, ok := rooms.NamespaceName(c.Namespace); ok {
			if len(c.Handlers) > 0 {
				return []*Route{direct(room, c.Handlers)}, ByHandlers
			}
			ref, piped = c.Route, len(c.Pipelines) > 0
		}
	}
	if piped && ref == "" { // a pipeline and a route would notify twice
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
		return nil, NoRecipient
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
