package v1

import (
	"encoding/json"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// State is the server's knowledge of a resource besides its declaration.
type State struct {
	Nodes    int       `json:"nodes" doc:"Where it lands: nodes that run the check, are members of the group, read the property, live in the namespace."`
	Checks   int       `json:"checks" doc:"Checks that use it."`
	Note     string    `json:"note,omitempty" doc:"The same in words."`
	UsedBy   string    `json:"usedBy,omitempty" doc:"Of a handler, pipeline, secret or asset: who names it, in words."`
	Events   *ByStatus `json:"events,omitempty" doc:"Of a check: its events by status."`
	Problems uint64    `json:"problems,omitempty" doc:"Of a check: open ones."`

	Limits []LimitUse `json:"limits,omitempty" doc:"Of a namespace: those in force."`

	Stream *HandlerStream `json:"stream,omitempty" doc:"Of a handler that is told of every result: how far it is."`

	Holds   int       `json:"holds,omitempty" doc:"Of a silence, and of a window that is on: open problems that it keeps back."`
	InForce bool      `json:"inForce,omitempty" doc:"Of a silence or window: it is on now."`
	Begins  time.Time `json:"begins,omitzero" doc:"Of a window: when it is on next."`
	Ends    time.Time `json:"ends,omitzero" doc:"Of a silence or window that is on: until when; none: nobody knows."`
}

// LimitUse is a limit of a namespace with its use, and the number of times that it was reached.
type LimitUse struct {
	Name   string    `json:"name" doc:"As under limits of a Namespace."`
	Limit  float64   `json:"limit"`
	Used   *uint64   `json:"used,omitempty" doc:"Of states: all; of statesPerNode: of the node that has most."`
	Met    uint64    `json:"met,omitempty" doc:"How often something was refused, or waited, since the server started."`
	Last   time.Time `json:"last,omitzero" doc:"When that was last."`
	Node   string    `json:"node,omitempty" doc:"Of which node, that last time."`
	Reason string    `json:"reason,omitempty"`
}

// NodeState is the state of a node.
type NodeState struct {
	Namespace    string            `json:"namespace"`
	Name         string            `json:"name"`
	ID           model.NodeID      `json:"id"`
	Groups       []string          `json:"groups,omitempty" doc:"All it is in: listed, said by itself, by condition, by other groups."`
	Labels       map[string]string `json:"labels,omitempty" doc:"Of all owners: server over agent over facts."`
	Proxy        bool              `json:"proxy,omitempty" doc:"It has no agent: others run the checks that are about it."`
	OS           string            `json:"os,omitempty"`
	Agent        string            `json:"agent,omitempty" doc:"The agent's version."`
	Checks       []string          `json:"checks,omitempty" doc:"That it runs; only where one node is asked for."`
	Events       ByStatus          `json:"events"`
	Problems     uint64            `json:"problems"`
	Severity     model.Severity    `json:"severity" doc:"Of its worst event."`
	SeverityName string            `json:"severityName" enum:"not classified,information,warning,average,high,disaster"`
	Connected    bool              `json:"connected" doc:"It has a session now."`
	Silent       bool              `json:"silent,omitempty" doc:"Nothing was heard of it for longer than its keepalive allows."`
	Stopped      bool              `json:"stopped,omitempty" doc:"Its agent was stopped on purpose: nothing is expected of it."`
	Heard        time.Time         `json:"heard,omitzero" doc:"Last sign of life; none: never."`
	Origins      *NodeOrigins      `json:"origins,omitempty" doc:"Only where one node is asked for."`
}

// NodeOrigins explains where groups, labels and properties of a node come from.
type NodeOrigins struct {
	Groups     []Link          `json:"groups" doc:"Each group that it is in, and under it why."`
	Asked      []GroupAsked    `json:"asked,omitempty" doc:"Groups that its agent asked to be in."`
	Labels     []LabelOrigin   `json:"labels"`
	Properties []PropertyValue `json:"properties" doc:"All that are said of it, also those that no check reads."`
	Limits     []LimitUse      `json:"limits,omitempty" doc:"Those of its namespace that are held against each node."`
}

// GroupAsked is a group that an agent asked to be in.
type GroupAsked struct {
	Group    string `json:"group"`
	Accepted bool   `json:"accepted"`
	Why      string `json:"why"`
}

// LabelOrigin is a label with its owner.
type LabelOrigin struct {
	Name  string        `json:"name"`
	Value string        `json:"value"`
	Owner string        `json:"owner" enum:"server,agent,facts" doc:"Server wins over agent over facts."`
	Hides []LabelOrigin `json:"hides,omitempty" doc:"What other owners say."`
}

// PropertyValue is a property of a node with all its declarations.
type PropertyValue struct {
	Name     string           `json:"name"`
	Value    json.RawMessage  `json:"value,omitempty"`
	Conflict string           `json:"conflict,omitempty" doc:"Why it has no value here."`
	From     []PropertyOrigin `json:"from" doc:"In the order in which later ones win."`
}

// PropertyOrigin is one declaration of a property.
type PropertyOrigin struct {
	Level  string          `json:"level" enum:"global,namespace,group,node"`
	From   string          `json:"from"`
	Value  json.RawMessage `json:"value"`
	Effect string          `json:"effect" enum:"in force,partly in force,overridden,in conflict"`
}

// ResourceFilter selects resources of a kind; empty fields select everything.
type ResourceFilter struct {
	Selector string // of labels
	Where    string // CEL over metadata and spec, of nodes over the node
}

// NodeFilter selects nodes; empty fields select everything. A name or group without a namespace is
// in namespace default.
type NodeFilter struct {
	Namespace string
	Name      string
	Group     string // or shared/GROUP
	Selector  string
	Where     string // CEL over the node
	Limit     int
}

// NodeStateList is nodes, worst first.
type NodeStateList struct {
	Items  []NodeState `json:"items"`
	Total  int         `json:"total" doc:"Nodes that match."`
	Wrong  int         `json:"wrong" doc:"Those of them that have an event that is not OK."`
	Others int         `json:"others,omitempty" doc:"Nodes of other namespaces, where one was asked for and nothing else."`
}
