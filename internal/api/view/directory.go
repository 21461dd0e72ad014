package view

import (
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
)

// Directory finds names, nodes and units, and explains where and why they land.
type Directory interface {
	directory.Reader
	Explainer
}

// Explainer explains the planner's decisions from the definitions (plan.Explainer).
type Explainer interface {
	// Select returns the nodes of targets that a namespace would declare; an error where a condition
	// does not compile.
	Select(namespace string, t *model.Targets) ([]model.NodeID, error)
	// Placement counts the users of a declared resource; zero: it is not declared.
	Placement(key intent.Key) intent.Placement
	// ExplainCheck explains why a check is on a node or not; false: one of them does not exist.
	ExplainCheck(node model.NodeID, check model.CheckID) (e plan.Explanation, ok bool)
	ExplainGroups(node model.NodeID) []plan.Explanation
	JoinRequests(node model.NodeID) []plan.JoinRequest
	PropertyOrigins(node model.NodeID) []plan.PropertyOrigins
	// Faults lists the faults of the nodes of a namespace (empty: of all), the most nodes first,
	// and the number of nodes that have one.
	Faults(namespace string) (list []plan.Fault, nodes int)
	NodeFaults(node model.NodeID) []plan.Fault
}
