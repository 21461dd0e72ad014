package route

import (
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Kinds of holds by a dependency.
const (
	Unreachable HoldKind = "unreachable" // the node in front of the problem's node is down
	Dependent   HoldKind = "dependent"   // a check that the problem's check depends on fails
)

// Dependency is an event that problems of other events depend on.
type Dependency struct {
	Node   model.NodeID
	Check  model.CheckID
	Name   Name          // its namespace, and NODE/CHECK
	Behind bool          // the event is the keepalive of the node in front; false: another check on the same node
	Settle time.Duration // the longest time until a failure of the check is detected
}

// Hold returns the hold by this dependency.
func (m *Dependency) Hold(reason string, until time.Time) *Hold {
	h := &Hold{Kind: Dependent, By: m.Name, Reason: reason, Until: until}
	if m.Behind {
		h.Kind = Unreachable
	}
	return h
}

// DependencyHold returns the hold by the first dependency with a CRITICAL or UNKNOWN problem, and
// that problem; nil without one. problem returns the open problem of an event with its present
// status.
func DependencyHold(masters []Dependency, problem func(model.NodeID, model.CheckID) *model.Problem) (*Hold, *model.Problem) {
	for i := range masters {
		m := &masters[i]
		if p := problem(m.Node, m.Check); p != nil && p.Status >= model.Critical {
			first, _, _ := strings.Cut(p.Output, "\n")
			return m.Hold(first, time.Time{}), p
		}
	}
	return nil, nil
}

// Declaration is a resource that the planner puts in force, such as a route or a window.
type Declaration struct {
	Kind string
	Name
	Zone string     // of the namespace, for times without a zone
	Spec model.Spec // nil: the resource was deleted
}
