package route

import (
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Kinds of holds of what hangs on something else.
const (
	Unreachable HoldKind = "unreachable" // the node in front is down
	Dependent   HoldKind = "dependent"   // a check that it cannot pass without fails
)

// Dependency is a check on a node that problems of others hang on.
type Dependency struct {
	Node   model.NodeID
	Check  model.CheckID
	Name   Name          // its namespace, and NODE/CHECK
	Behind bool          // the node is in front of the other; else a check on the same node
	Settle time.Duration // how long it takes until it is noticed that the check fails
}

// Hold is one by the master, for a reason.
func (m *Dependency) Hold(reason string, until time.Time) *Hold {
	h := &Hold{Kind: Dependent, By: m.Name, Reason: reason, Until: until}
	if m.Behind {
		h.Kind = Unreachable
	}
	return h
}

// DependencyHold is what keeps back what hangs on these, and the problem that does: the first master
// with a problem that is critical or unknown: problem gives it with the status of now. Nil: there is none.
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
