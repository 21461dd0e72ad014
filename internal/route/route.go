package route

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
)

// DefaultName is the name of the route for problems that no other route takes.
const DefaultName = "default"

// DefaultGroupWait is how long the first message of a group waits for more problems of the group.
const DefaultGroupWait = 10 * time.Second

// Route is a Route resource in compiled form, from a model.RouteSpec. Immutable.
type Route struct {
	Name      Name
	GroupWait time.Duration
	Steps     []Step // ascending by Step.After
	Rate      *model.RouteRate

	groupBy []string
	mutes   []mute
	matches bool // the route has a selector (spec.match)
}

// Step is one step of a route, which notifies handlers some time after a problem's start. It may repeat after
// an interval.
type Step struct {
	To            []Name // handlers to notify
	After, Repeat time.Duration
}

// mute is the compiled mute calendar of a route, the times at which the route sends no messages. It has a
// selector of problems, and the times at which their messages wait.
type mute struct {
	selector *selector
	calendar *window.Calendar // nil: the mute names a Window, whose calendar applies
	window   Name
	during   string
}

// newRoute compiles the spec of a Route.
func newRoute(name Name, zone string, spec *model.RouteSpec) (*Route, error) {
	r := &Route{Name: name, GroupWait: DefaultGroupWait, Rate: spec.Rate, groupBy: spec.GroupBy, matches: spec.Match != nil}
	if spec.GroupWait != nil {
		r.GroupWait = time.Duration(*spec.GroupWait)
	}
	if len(r.groupBy) == 0 {
		r.groupBy = []string{"check"}
	}
	for _, s := range spec.Steps {
		step := Step{After: time.Duration(s.After), Repeat: time.Duration(s.Repeat)}
		for _, to := range s.To {
			ns, handler := model.SplitRef(name.Namespace, to)
			step.To = append(step.To, Name{ns, handler})
		}
		r.Steps = append(r.Steps, step)
	}
	slices.SortStableFunc(r.Steps, func(a, b Step) int { return cmp.Compare(a.After, b.After) })
	for _, s := range spec.Mute {
		m := mute{during: s.During}
		var err error
		if m.selector, err = compileSelector(name.Namespace, &s.Selector); err != nil {
			return nil, err
		}
		if s.Window != "" {
			ns, of := model.SplitRef(name.Namespace, s.Window)
			m.window = Name{ns, of}
		} else if m.calendar, err = window.ParseDuring(s.During, zone); err != nil {
			return nil, err
		}
		r.mutes = append(r.mutes, m)
	}
	return r, nil
}

// Group returns the grouping key of a problem, because one message reports all problems with equal keys. One
// message reports all problems with the same key.
func (r *Route) Group(m *Problem) string {
	parts := make([]string, len(r.groupBy))
	for i, by := range r.groupBy {
		switch by {
		case "node":
			parts[i] = m.Node.String()
		case "check":
			if parts[i] = m.Source.Name.String(); m.Source.Kind != model.SourceCheck {
				parts[i] = m.Source.Kind.String() + ":" + parts[i]
			}
		case "namespace":
			parts[i] = m.Node.Namespace
		case "severity":
			parts[i] = m.Severity.String()
		default:
			parts[i] = by + "=" + m.label(strings.TrimPrefix(by, "label:"))
		}
	}
	return strings.Join(parts, "\x00")
}

// GroupBy returns the names of the fields by which the route groups problems into one message.
func (r *Route) GroupBy() []string { return r.groupBy }

// NewDirectRoute returns a route without a name that notifies handlers at once, with one message per problem.
func NewDirectRoute(handlers []Name) *Route {
	return &Route{Steps: []Step{{To: handlers}}, groupBy: []string{"node", "check"}}
}

// Escalation has the time at which each step of a route is due for one problem. The time of a step that sends nothing
// more is zero.
type Escalation []time.Time

// Escalate returns the times at which the steps of a route are due for a new problem. No step is due before first, the
// time of the first message of the problem's group.
func (r *Route) Escalate(opened, first time.Time) Escalation {
	c := make(Escalation, len(r.Steps))
	for i, s := range r.Steps {
		if c[i] = opened.Add(s.After); c[i].Before(first) {
			c[i] = first
		}
	}
	return c
}

// Due returns the next step of a problem's escalation along a route, and its due time. If no step is left, ok
// is false.
func (c Escalation) Due() (step int, at time.Time, ok bool) {
	for i, t := range c {
		if !t.IsZero() && (!ok || t.Before(at)) {
			step, at, ok = i, t, true
		}
	}
	return step, at, ok
}

// MarkSent records that a step was sent, and schedules its repetition.
func (c Escalation) MarkSent(r *Route, step int, now time.Time) {
	c[step] = time.Time{}
	if repeat := r.Steps[step].Repeat; repeat > 0 {
		c[step] = now.Add(repeat)
	}
}

// AdaptToRoute adapts the due times of the steps to a changed route. New steps get their regular time, and removed steps are
// dropped.
func (c Escalation) AdaptToRoute(r *Route, opened time.Time) Escalation {
	if len(c) >= len(r.Steps) {
		return slices.Clip(c[:len(r.Steps)])
	}
	return append(c, r.Escalate(opened, time.Time{})[len(c):]...)
}

// Choice is the rule that chose a problem's routes, such as a matching route or a default. Examples are the
// handlers of its check, a matching route, or a default.
type Choice int

const (
	NoRecipient Choice = iota // no rule applies: the problem has no recipients
	ByHandlers                // the check names handlers
	ByRoute                   // the check names the route
	ByMatch                   // routes match
	ByDefault                 // no other route matches; the route default takes it
	ByNamespace               // no route takes the problem; the node's namespace names handlers
	ByPipelines               // no route and no handler: the check's pipelines notify
)

// Namespaces is the interface that returns the names and default handlers of namespaces.
type Namespaces interface {
	NamespaceName(id model.NamespaceID) (name string, ok bool)
	// NamespaceHandlers returns the handlers for problems on the namespace's nodes that no route
	// takes.
	NamespaceHandlers(namespace string) []string
}

// Routes is the interface that finds the routes of a problem. Type Table implements it.
type Routes interface {
	Routes(m *Problem, ref string) []*Route
	Matching(m *Problem) []*Route
}

// Choose returns the routes for a problem, and tells by which rule the routes were chosen. The dispatcher, the API and
// explanations all use Choose. The handlers that a check or namespace names are returned as one route without a name.
func Choose(t Routes, namespaces Namespaces, m *Problem, c *model.CheckDefinition, namespace string) ([]*Route, Choice) {
	ref, piped := "", false
	if c != nil {
		if owner, ok := namespaces.NamespaceName(c.Namespace); ok {
			if len(c.Handlers) > 0 {
				return []*Route{directRoute(owner, c.Handlers)}, ByHandlers
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
		if handlers := namespaces.NamespaceHandlers(namespace); len(handlers) > 0 {
			return []*Route{directRoute(namespace, handlers)}, ByNamespace
		}
		return nil, NoRecipient
	case ref != "" && routes[0].Name == (Name{ns, name}):
		return routes, ByRoute
	case len(routes) == 1 && routes[0].Name.Name == DefaultName && !routes[0].matches:
		return routes, ByDefault
	}
	return routes, ByMatch
}

// directRoute returns a route without a name that notifies the handlers named by a check or namespace. A
// handler without a namespace belongs to the given namespace.
func directRoute(namespace string, handlers []string) *Route {
	names := make([]Name, len(handlers))
	for i, h := range handlers {
		names[i].Namespace, names[i].Name = model.SplitRef(namespace, h)
	}
	return NewDirectRoute(names)
}
