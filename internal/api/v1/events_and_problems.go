// Package v1 has the types of the API's requests and answers. The OpenAPI document is generated
// from them, and the Go client uses them. It imports no engine of the server, so that the command
// line builds everywhere. Start reading at resource.go and events_and_problems.go.
package v1

import (
	"encoding/json"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Names has a status and a severity as words, such as CRITICAL and high. Answers contain the names in addition
// to the numbers.
type Names struct {
	StatusName   string `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN" doc:"Names of status 0, 1, 2 and 3."`
	SeverityName string `json:"severityName" enum:"not classified,information,warning,average,high,disaster" doc:"Names of severity 0 to 5."`
}

// NamesOf returns the names of a status and a severity, such as CRITICAL and high
func NamesOf(status model.Status, severity model.Severity) Names {
	return Names{status.String(), severity.String()}
}

// Event is the current state of one check on one node
type Event struct {
	model.Event
	Names
	Problem *OpenProblem `json:"problem,omitempty" doc:"The open problem."`
	History []int        `json:"history" doc:"Statuses, oldest first, at most 21."` // numbers: JSON would write bytes as base64
	// Notes are errors in expressions of pipelines about the event.
	Notes []string `json:"notes,omitempty" doc:"Filter expressions kept from Sensu that failed on the last result, with the error; only in answers about one event."`
	// Definition has the texts that the check or trigger declares.
	Definition *Definition `json:"definition,omitempty" doc:"Texts of the check or trigger for people; only in answers about one event."`
}

// Definition has the display name, runbook and other texts for people that a check or trigger declares.
type Definition struct {
	DisplayName string `json:"displayName,omitempty"`
	Runbook     string `json:"runbook,omitempty" doc:"Link to the steps to take when it fails."`
	Expression  string `json:"expression,omitempty" doc:"For a trigger: its problem opens when this is true."`
	Recovery    string `json:"recovery,omitempty" doc:"For a trigger: its problem closes when this is true; absent: when expression is false."`
}

// OpenProblem is the open problem of an event, as a part of the API type Event
type OpenProblem struct {
	model.Problem
	Names
	Source Source             `json:"source"`
	Holds  []NotificationHold `json:"holds,omitempty" doc:"Silences, windows and route mutes that hold its notifications now. The field ack has an acknowledgement."`
}

// EventList is a page of events, worst first.
type EventList struct {
	Items           []Event           `json:"items"`
	Next            string            `json:"next,omitempty" doc:"Value for after to get the next page; absent on the last page."`
	Partial         bool              `json:"partial,omitempty" doc:"The search stopped at its time limit: continue with next."`
	Match           uint64            `json:"match,omitempty" doc:"Number of matching events on all pages; absent where counting costs too much."`
	Total           uint64            `json:"total,omitempty" doc:"Number of events in the requested namespace, without filters."`
	Wrong           uint64            `json:"wrong,omitempty" doc:"Number of those events that are not OK."`
	OtherNamespaces []NamespaceEvents `json:"otherNamespaces,omitempty" doc:"On the first page: other namespaces with events, at most 5, most events that are not OK first."`
}

// NamespaceEvents has the number of events, and of failing events, in one namespace.
type NamespaceEvents struct {
	Namespace string `json:"namespace"`
	Events    uint64 `json:"events"`
	Wrong     uint64 `json:"wrong" doc:"Number of events that are not OK."`
}

// EventFilter selects events by status, node, check and labels. Empty fields select everything.
type EventFilter struct {
	Namespace string
	Node      string
	Check     string
	Status    string // names or digits, comma-separated
	Group     string
	Selector  string
	Where     string
	Problem   bool
	Limit     int
	After     string
}

// RowFilter selects the rows of a list by a label selector and a condition (CEL expression).
type RowFilter struct {
	Selector string // label selector, over the labels of the row's node or of the row
	Where    string // CEL over row, and over node where the row has one
}

// Problem is an open or closed problem, with the names of node and check at its opening.
type Problem struct {
	OpenProblem
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Check     string `json:"check,omitempty" doc:"Name of the source if it is a check."`
}

// Source identifies the check, trigger or alert that opened a problem. A component of a directive and an alert
// rule are sources, too.
type Source struct {
	Kind     string `json:"kind" doc:"check, trigger, directive or rule"`
	Name     string `json:"name" doc:"Name of the Check, Template, Directive or RuleGroup."`
	ID       uint32 `json:"id"`
	Instance string `json:"instance,omitempty" doc:"Name of the trigger, component or alert; checks have none."`
}

// String formats a problem's source for the arguments of commands. A check is written disk, a trigger linux:load is
// high.
func (s Source) String() string { return model.Source{Instance: s.Instance}.CommandName(s.Name) }

// ProblemList is a page of problems, newest first.
type ProblemList struct {
	Items []Problem `json:"items"`
	Next  string    `json:"next,omitempty"`
}

// Entry is one entry in the history of an event, such as a change of its status.
type Entry struct {
	At         time.Time     `json:"at"`
	Executed   time.Time     `json:"executed"`
	Kind       string        `json:"kind" enum:"status,lost,late,acknowledged,unacknowledged,flapping,steady,text"`
	Namespace  string        `json:"namespace"`
	Node       string        `json:"node"`
	Source     Source        `json:"source"`
	Check      string        `json:"check,omitempty" doc:"Name of the source if it is a check."`
	Status     model.Status  `json:"status"`
	StatusName string        `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Previous   *model.Status `json:"previous,omitempty" doc:"Status before this change; absent: the first result."`
	Output     string        `json:"output,omitempty"`
	Count      uint64        `json:"count,omitempty"`
	Expired    bool          `json:"expired,omitempty"`
}

// EntryList is a page of history entries, newest first.
type EntryList struct {
	Items []Entry `json:"items"`
	Next  string  `json:"next,omitempty"`
}

// HistoryQuery selects history entries by node, check and time. Zero fields select every entry.
type HistoryQuery struct {
	Namespace, Node, Check string
	Since, Until           time.Time
	Limit                  int
	RowFilter
	After string
}

// Availability has the number of seconds in a period that an event spent in each status
type Availability struct {
	Namespace   string  `json:"namespace"`
	Node        string  `json:"node"`
	Check       string  `json:"check"`
	Source      Source  `json:"source,omitzero"`
	OK          float64 `json:"ok"`
	Warning     float64 `json:"warning"`
	Critical    float64 `json:"critical"`
	Unknown     float64 `json:"unknown"`
	WithoutData float64 `json:"withoutData" doc:"Time without data: no result yet, or older than the history."`
	Changes     int     `json:"changes"`

	DeletedAt time.Time `json:"deletedAt,omitzero" doc:"Time of the node's deletion; the calculation ends there."`
}

// Covered returns the seconds of the period in which the status of the event is known. Available returns the seconds
// in which the status was OK or WARNING.
func (a Availability) Covered() float64 { return a.OK + a.Warning + a.Critical + a.Unknown }

// Available returns the seconds of the event in status OK or WARNING.
func (a Availability) Available() float64 { return a.OK + a.Warning }

// Add adds the seconds of another event, per status, to the receiver's seconds.
func (a *Availability) Add(b Availability) {
	a.OK, a.Warning, a.Critical, a.Unknown = a.OK+b.OK, a.Warning+b.Warning, a.Critical+b.Critical, a.Unknown+b.Unknown
	a.WithoutData, a.Changes = a.WithoutData+b.WithoutData, a.Changes+b.Changes
}

// AvailabilityList is a page with the availability of events in one period
type AvailabilityList struct {
	Since time.Time      `json:"since"`
	Until time.Time      `json:"until"`
	Items []Availability `json:"items"`
	Next  string         `json:"next,omitempty"`
}

// AvailabilityQuery selects the events and the period of an availability report.
type AvailabilityQuery struct {
	Namespace, Node, Check, Group, Selector, Where string
	Since, Until                                   time.Time
	After                                          string
}

// PastEvent is an event with the status that the event had at a past time.
type PastEvent struct {
	Namespace  string       `json:"namespace"`
	Node       string       `json:"node"`
	Check      string       `json:"check"`
	Source     Source       `json:"source"`
	Status     model.Status `json:"status"`
	StatusName string       `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Changed    time.Time    `json:"changed,omitzero" doc:"Time of the last change; absent if history does not reach back that far."`
	Output     string       `json:"output,omitempty" doc:"Output of that time, as far as history keeps it: of the last change before. Absent: history keeps none."`
	DeletedAt  time.Time    `json:"deletedAt,omitzero" doc:"Time of the node's later deletion."`
}

// PastEventList is a page of events at a past time.
type PastEventList struct {
	At    time.Time   `json:"at"`
	Items []PastEvent `json:"items"`
	Next  string      `json:"next,omitempty"`
}

// Delivery is one notification to one handler, with its state and attempts.
type Delivery struct {
	ID        int64     `json:"id"`
	Problem   string    `json:"problem"`
	Namespace string    `json:"namespace"`
	Handler   string    `json:"handler"`
	Kind      string    `json:"kind" enum:"opened,closed,acknowledged,reminder,summary"`
	State     string    `json:"state" enum:"pending,delivered,dead,withheld,shadow"`
	Attempts  int       `json:"attempts"`
	Created   time.Time `json:"created"`
	NextAt    time.Time `json:"nextAt,omitzero"`
	LastError string    `json:"lastError,omitempty"`
	Ended     time.Time `json:"ended,omitzero"`
	Replayed  time.Time `json:"replayed,omitzero" doc:"Time of the last replay of the dead letter."`
	Summary   string    `json:"summary,omitempty" doc:"For a dead letter: summary of the message."`
}

// DeliveryList is the list of deliveries about a problem, oldest first, or a page of dead letters.
type DeliveryList struct {
	Items []Delivery `json:"items"`
	Next  string     `json:"next,omitempty" doc:"Value for after to get the next page of dead letters; absent on the last page."`
}

// Acknowledgement is the request body of an acknowledgement, by which a person takes responsibility for a problem
type Acknowledgement struct {
	Note  string    `json:"note,omitempty" maxLength:"1000"`
	Until time.Time `json:"until,omitzero" doc:"When it ends; it ends with the problem in any case."`
}

// Action is the request body for an action such as resolve on an event, with the person's reason.
type Action struct {
	Note string `json:"note,omitempty" maxLength:"1000"`
}

// GroupAvailability is the availability of a group of nodes in a period, in per cent. A node is up while all its
// selected events are OK or WARNING. Time without a status counts for neither.
type GroupAvailability struct {
	Namespace string  `json:"namespace"`
	Group     string  `json:"group"`
	Nodes     int     `json:"nodes" doc:"Number of nodes with data."`
	Events    int     `json:"events"`
	Worst     float64 `json:"worst" doc:"Lowest share of uptime of one node, 0 to 1."`
	WorstNode string  `json:"worstNode,omitempty"`
	Mean      float64 `json:"mean" doc:"Mean share of uptime of the nodes."`
	AllUp     float64 `json:"allUp" doc:"Share of time with every node up."`
	AnyUp     float64 `json:"anyUp" doc:"Share of time with at least one node up."`
	WithData  float64 `json:"withData" doc:"Seconds with data of at least one node."`
}

// GroupAvailabilityList is the list of group availabilities, the worst first.
type GroupAvailabilityList struct {
	Since time.Time           `json:"since"`
	Until time.Time           `json:"until"`
	Items []GroupAvailability `json:"items"`
}

// BulkRequest is a request to act on all events that match every filter field of the request.
type BulkRequest struct {
	Namespace   string    `json:"namespace,omitempty" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Node        string    `json:"node,omitempty" maxLength:"253"`
	Check       string    `json:"check,omitempty" maxLength:"253"`
	Group       string    `json:"group,omitempty" maxLength:"253" doc:"Only nodes of this group."`
	Status      string    `json:"status,omitempty" maxLength:"64" doc:"Names or digits, comma-separated: critical,unknown"`
	Selector    string    `json:"selector,omitempty" maxLength:"4096" doc:"Labels of the node: env=prod,tier!=db"`
	Where       string    `json:"where,omitempty" maxLength:"4096" doc:"CEL over event.* and node.*"`
	All         bool      `json:"all,omitempty" doc:"Confirms a request without any filter."`
	Note        string    `json:"note,omitempty" maxLength:"1000"`
	Until       time.Time `json:"until,omitzero" doc:"For an acknowledgement: its end; the end of the problem ends it too."`
	MaxAffected int       `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse a selection of more events; 0: a fifth of all, at least 50."`
	Yes         bool      `json:"yes,omitempty" doc:"Confirm the action for any number of events."`
	DryRun      bool      `json:"dryRun,omitempty" doc:"Report the selection without changing anything."`
}

// BulkDone is the result of an action on many events
type BulkDone struct {
	Matched int           `json:"matched" doc:"Number of selected events."`
	First   []BulkEvent   `json:"first" doc:"The first ten selected events, worst first."`
	Done    int           `json:"done"`
	Skipped []BulkSkipped `json:"skipped,omitempty" doc:"Skipped events, by reason."`
	DryRun  bool          `json:"dryRun,omitempty"`
}

// BulkEvent names one event in the result of an action on many events
type BulkEvent struct {
	Namespace  string       `json:"namespace"`
	Node       string       `json:"node"`
	Check      string       `json:"check"`
	Source     Source       `json:"source"`
	Status     model.Status `json:"status"`
	StatusName string       `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
}

// BulkSkipped lists the events that a bulk action left unchanged for one reason.
type BulkSkipped struct {
	Reason string      `json:"reason"`
	Failed bool        `json:"failed,omitempty" doc:"The action failed; false: it was no longer necessary."`
	Count  int         `json:"count"`
	First  []BulkEvent `json:"first" doc:"The first ten of these events."`
}

// Trace is the explanation that the command "muster why" shows. It has the steps from the declaration of a check to
// its notifications.
type Trace struct {
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Check     string `json:"check,omitempty"`
	Links     []Link `json:"links"`

	Definition *Definition `json:"definition,omitempty" doc:"Texts of the check or trigger for people."`
}

// Link is one step of the trace that muster why shows, such as "the agent is connected". The first link with Holds
// false explains why later steps did not happen.
type Link struct {
	Name  string    `json:"name,omitempty" enum:"assigned,declared,grace,waiver,agent,assignment,property,schedule,result,excepted,late,limit,event,streamed,pipelines,problem,on hold,notified,next,group,checks,templates,error" doc:"Step of the chain; empty for a step under another one."`
	Holds bool      `json:"holds" doc:"The condition of this step is met; the chain continues."`
	Text  string    `json:"text"`
	At    time.Time `json:"at,omitzero" doc:"Time of the step; absent: now."`
	Steps []Link    `json:"steps,omitempty" doc:"Steps that explain this one."`
}

// State has the numbers of nodes, checks, events and problems of a declared resource. For a namespace it has the
// limits, too.
type State struct {
	Nodes    int       `json:"nodes" doc:"Number of nodes: they run the check, are members of the group, read the property, or belong to the namespace."`
	Checks   int       `json:"checks" doc:"Number of checks that use the resource."`
	Note     string    `json:"note,omitempty" doc:"The same in words."`
	UsedBy   string    `json:"usedBy,omitempty" doc:"For a handler, pipeline, secret or asset: the resources that name it, in words."`
	Events   *ByStatus `json:"events,omitempty" doc:"For a check: number of its events by status."`
	Problems uint64    `json:"problems,omitempty" doc:"For a check: number of its open problems."`

	Limits []LimitUse `json:"limits,omitempty" doc:"For a namespace: its limits and their use."`

	Stream *HandlerStream `json:"stream,omitempty" doc:"For a handler that gets every result: its position."`
	Unsent *Unsent        `json:"unsent,omitempty" doc:"For one handler: its messages that wait or were given up; not in lists."`

	Holds     int       `json:"holds,omitempty" doc:"For an active silence or window: number of open problems that it holds."`
	InForce   bool      `json:"inForce,omitempty" doc:"For a silence or window: it is active now."`
	NextStart time.Time `json:"nextStart,omitzero" doc:"For a window: its next start."`
	Ends      time.Time `json:"ends,omitzero" doc:"For an active silence or window: its end; absent: unknown."`
}

// LimitUse is one limit of a namespace with its present use. It also has the number of refusals and delays by the
// limit.
type LimitUse struct {
	Name    string    `json:"name" doc:"Name as in limits of a Namespace."`
	Limit   float64   `json:"limit"`
	Used    *uint64   `json:"used,omitempty" doc:"For states: total number; for statesPerNode: the largest number of one node."`
	Reached uint64    `json:"reached,omitempty" doc:"Number of refusals and delays by this limit since the server started."`
	Last    time.Time `json:"last,omitzero" doc:"Time of the last one."`
	Node    string    `json:"node,omitempty" doc:"Node of the last one."`
	Reason  string    `json:"reason,omitempty"`
}

// NodeState is the state of a node, with its events, problems, agent, groups and labels.
type NodeState struct {
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name"`
	ID            model.NodeID      `json:"id"`
	Groups        []string          `json:"groups,omitempty" doc:"All groups of the node: listed, requested by the agent, by condition, through other groups."`
	Labels        map[string]string `json:"labels,omitempty" doc:"Labels of all owners; server wins over agent, agent over facts."`
	Proxy         bool              `json:"proxy,omitempty" doc:"The node has no agent; other nodes run its checks."`
	OS            string            `json:"os,omitempty"`
	Agent         string            `json:"agent,omitempty" doc:"Version of the agent."`
	Checks        []string          `json:"checks,omitempty" doc:"Checks of the node; only in answers about one node."`
	Directives    []string          `json:"directives,omitempty" doc:"Directives of the node; only in answers about one node."`
	Events        ByStatus          `json:"events"`
	Problems      uint64            `json:"problems"`
	Severity      model.Severity    `json:"severity" doc:"Severity of its worst event."`
	SeverityName  string            `json:"severityName" enum:"not classified,information,warning,average,high,disaster"`
	Connected     bool              `json:"connected" doc:"The agent has a session now."`
	Silent        bool              `json:"silent,omitempty" doc:"The last heartbeat is older than the keepalive timeout."`
	Stopped       bool              `json:"stopped,omitempty" doc:"Somebody stopped the agent; its silence raises no alarm."`
	LastHeartbeat time.Time         `json:"lastHeartbeat,omitzero" doc:"Time of the last heartbeat; absent: never."`
	Origins       *NodeOrigins      `json:"origins,omitempty" doc:"Only in answers about one node."`
}

// NodeOrigins explains from where a node got its groups, labels and property values.
type NodeOrigins struct {
	Groups          []Link           `json:"groups" doc:"Each group of the node with the reason."`
	RequestedGroups []RequestedGroup `json:"requestedGroups,omitempty" doc:"Groups that the agent requests."`
	Labels          []LabelOrigin    `json:"labels"`
	Properties      []PropertyValue  `json:"properties" doc:"All values for the node, also those that no check reads."`
	Limits          []LimitUse       `json:"limits,omitempty" doc:"Limits of the namespace that apply to each node."`
}

// RequestedGroup is a group that an agent asked to join, with the server's decision.
type RequestedGroup struct {
	Group    string `json:"group"`
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason"`
}

// LabelOrigin is a label of a node with its owner, the program or person who declared the label.
type LabelOrigin struct {
	Name  string        `json:"name"`
	Value string        `json:"value"`
	Owner string        `json:"owner" enum:"server,agent,facts" doc:"server wins over agent, agent over facts."`
	Hides []LabelOrigin `json:"hides,omitempty" doc:"Values of other owners."`
}

// PropertyValue is the value of a node property, which checks can read, with all declarations of the property.
type PropertyValue struct {
	Name     string           `json:"name"`
	Value    json.RawMessage  `json:"value,omitempty"`
	Conflict string           `json:"conflict,omitempty" doc:"Reason why the property has no value here."`
	From     []PropertyOrigin `json:"from" doc:"Sources of the value; later ones win."`
}

// PropertyOrigin is one declaration of a node property, with its scope, such as a group or a namespace.
type PropertyOrigin struct {
	Level  string          `json:"level" enum:"global,namespace,group,node"`
	From   string          `json:"from"`
	Value  json.RawMessage `json:"value"`
	Effect string          `json:"effect" enum:"in force,partly in force,overridden,in conflict"`
}

// ResourceFilter selects the resources of one kind by labels and by a CEL condition. Empty fields select
// everything.
type ResourceFilter struct {
	Selector string // label selector
	Where    string // CEL condition over metadata and spec of the resource; for nodes, over labels and facts
}

// NodeFilter selects nodes in a list of nodes, such as by group or labels. Empty fields select everything. A
// name or group without a namespace is in namespace default.
type NodeFilter struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Empty: of all."`
	Name      string `query:"name" maxLength:"253" doc:"Only the node of this name."`
	Group     string `query:"group" maxLength:"253" doc:"Only members of this group."` // or shared/GROUP
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels: env=prod,tier!=db"`
	Where     string `query:"where" maxLength:"4096" doc:"CEL over node.name, node.labels, node.facts and node.groups."`
	Limit     int    `query:"limit" minimum:"1" maximum:"100000" default:"100"`
}

// NodeStateList is a list of node states, worst first.
type NodeStateList struct {
	Items           []NodeState `json:"items"`
	Total           int         `json:"total" doc:"Number of matching nodes."`
	Wrong           int         `json:"wrong" doc:"Number of those nodes with an event that is not OK."`
	OtherNamespaces int         `json:"otherNamespaces,omitempty" doc:"Number of nodes in other namespaces; only for a request that names a namespace and nothing else."`
}

// Timeline lists everything that happened to a problem, from notifications to silences
type Timeline struct {
	Problem Problem  `json:"problem"`
	Items   []Moment `json:"items" doc:"Oldest first."`

	Definition *Definition `json:"definition,omitempty" doc:"Texts of the check or trigger for people, as declared now."`
}

// Moment is one entry in the timeline of a problem, such as a notification, with its time.
type Moment struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind" doc:"In words: opened, notified, escalated, reminded, not notified, waits, silenced, silence ended, acknowledged, closed, …"`
	Text string    `json:"text"`
}
