package model

import (
	"encoding/json"
	"time"
)

// APIVersion is the one version of resources so far.
const APIVersion = "muster/v1"

// Resource is what an operator declares: the envelope and one Spec.
type Resource struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	Status     *Stored  `json:"status,omitempty"` // set by the server; ignored by apply
}

// Spec is one of the *XxxSpec types; the kind says which.
type Spec interface{ Kind() string }

// Metadata is the same in every kind.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"` // default "default"; none for Namespace itself
	DisplayName string            `json:"displayName,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Owner       string            `json:"owner,omitempty"`
}

// Stored is what the server adds to a resource that it keeps.
type Stored struct {
	ID       uint32    `json:"id"`       // numeric, never used again
	Revision int64     `json:"revision"` // of the last change; the ETag
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

// Targets says on which nodes something lands: the union of Groups, Nodes and
// Where, less Except. The same in every kind.
type Targets struct {
	Groups []string `json:"groups,omitempty"`
	Nodes  []string `json:"nodes,omitempty"`
	Where  string   `json:"where,omitempty"` // CEL over node.name, node.labels, node.facts
	Except *Targets `json:"except,omitempty"`
}

// NamespaceSpec is a team's room with its limits (zero: the server's default).
type NamespaceSpec struct {
	Limits *Limits `json:"limits,omitempty"`
}

// Limits bound what a namespace or a node may hold and send; zero is the default.
type Limits struct {
	States         int     `json:"states,omitempty"`        // event states
	StatesPerNode  int     `json:"statesPerNode,omitempty"` // default 1000
	Labels         int     `json:"labels,omitempty"`        // labels of one node
	OutputBytes    int     `json:"outputBytes,omitempty"`   // one result's output
	ResultsPerSec  float64 `json:"resultsPerSec,omitempty"` // all nodes of the namespace
	NodeResultsSec float64 `json:"nodeResultsPerSec,omitempty"`
}

// NodeSpec is a machine.
type NodeSpec struct {
	UID         string                     `json:"uid,omitempty"` // the immutable id, given at enrolment
	Groups      []string                   `json:"groups,omitempty"`
	Properties  map[string]json.RawMessage `json:"properties,omitempty"`
	Keepalive   *Keepalive                 `json:"keepalive,omitempty"`
	Facts       map[string]string          `json:"facts,omitempty"`       // measured by the agent; shown, not applied
	AgentLabels map[string]string          `json:"agentLabels,omitempty"` // from the agent's configuration; shown, not applied
}

// Keepalive says how often a node must be heard of.
type Keepalive struct {
	Interval Duration `json:"interval,omitempty"` // default 20s
	Timeout  Duration `json:"timeout,omitempty"`  // default 120s
}

// GroupSpec is a named set of nodes: listed, by CEL, or other groups.
type GroupSpec struct {
	Nodes      []string                   `json:"nodes,omitempty"`
	Groups     []string                   `json:"groups,omitempty"`
	Where      string                     `json:"where,omitempty"`
	SelfJoin   bool                       `json:"selfJoin,omitempty"`
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
}

// PropertySpec is a value with a place in the chain global → namespace → group → node.
type PropertySpec struct {
	Property string          `json:"property,omitempty"` // default: metadata.name
	Scope    string          `json:"scope,omitempty"`    // global | namespace (default) | group:<name> | node:<name>
	Value    json.RawMessage `json:"value"`
}

// CheckSpec is something judged on a node; exactly one of Command and Probe.
type CheckSpec struct {
	Targets   *Targets          `json:"targets,omitempty"`
	Command   *Command          `json:"command,omitempty"`
	Probe     *Probe            `json:"probe,omitempty"`
	Interval  Duration          `json:"interval,omitempty"`
	Cron      string            `json:"cron,omitempty"`     // five fields; exactly one of interval and cron
	TimeZone  string            `json:"timeZone,omitempty"` // IANA, for cron; default the node's
	Timeout   Duration          `json:"timeout,omitempty"`  // default min(interval, 60s)
	TTL       Duration          `json:"ttl,omitempty"`      // a result older than this is a failing event
	Env       map[string]string `json:"env,omitempty"`
	RunAs     string            `json:"runAs,omitempty"`
	MaxOutput Size              `json:"maxOutput,omitempty"` // default 64KiB
	Alert     *Alert            `json:"alert,omitempty"`
	Severity  map[string]string `json:"severity,omitempty"` // status name → severity name
	Disabled  bool              `json:"disabled,omitempty"`
}

// Command is a shell line or, as a list, a program with its arguments.
type Command struct {
	Shell string
	Argv  []string
}

// Probe names something built into the agent with its arguments.
type Probe struct {
	Name string            `json:"name"`
	Args map[string]string `json:"args,omitempty"`
}

// Alert says when a problem opens and closes, and who is told.
type Alert struct {
	FailAfter    int      `json:"failAfter,omitempty"`    // default 1
	RecoverAfter int      `json:"recoverAfter,omitempty"` // default 1
	Handlers     []string `json:"handlers,omitempty"`
}

// HandlerSpec is one way to tell; exactly one of Command and Webhook.
type HandlerSpec struct {
	Command *Command          `json:"command,omitempty"`
	Webhook *Webhook          `json:"webhook,omitempty"`
	Timeout Duration          `json:"timeout,omitempty"` // default 30s
	Env     map[string]string `json:"env,omitempty"`
}

// Webhook is an HTTP POST of the notification as JSON.
type Webhook struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	CA      string            `json:"ca,omitempty"` // PEM file on the server
}

func (*NamespaceSpec) Kind() string { return "Namespace" }
func (*NodeSpec) Kind() string      { return "Node" }
func (*GroupSpec) Kind() string     { return "Group" }
func (*PropertySpec) Kind() string  { return "Property" }
func (*CheckSpec) Kind() string     { return "Check" }
func (*HandlerSpec) Kind() string   { return "Handler" }
