package v1

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Status is the state of the whole server, with the worst checks first. It has more than 25 fields because it is the
// flat JSON object of one screen.
type Status struct {
	Server      string            `json:"server"` // version
	Started     time.Time         `json:"started"`
	Now         time.Time         `json:"now"`
	Incarnation string            `json:"incarnation,omitempty" doc:"Incarnation of the journal; it changes when the data is restored from a copy."`
	Nodes       int               `json:"nodes"`
	Connected   int               `json:"connected"` // agents with a session now
	Pending     int               `json:"pending,omitempty" doc:"Number of machines that wait for an operator to accept them."`
	Events      uint64            `json:"events"`
	ByStatus    ByStatus          `json:"byStatus"`
	Namespaces  []NamespaceEvents `json:"namespaces,omitempty" doc:"The same by namespace if several have events: at most 5, most events that are not OK first."`
	NoChecks    bool              `json:"noChecks,omitempty" doc:"No namespace has a check: only keepalives are evaluated."`
	NoResults   bool              `json:"noResults,omitempty" doc:"The server has nodes and checks but no result of a check yet, in any namespace."`
	Problems    uint64            `json:"problems"`
	LastHour    LastHour          `json:"lastHour"`
	Unhandled   ByStatus          `json:"unhandled" doc:"Number of open problems that nobody handles, by present status; without silent nodes."`
	NoProblem   uint64            `json:"noProblem,omitempty" doc:"Number of events that are not OK and have no problem, because too few results failed (alert.failAfter)."`
	Handled     Handled           `json:"handled" doc:"Number of the other open problems, by the first reason."`
	Unnotified  Unnotified        `json:"unnotified" doc:"Open problems of which nobody is notified."`
	Wrong       []FailingCheck    `json:"wrong,omitempty" doc:"Open problems that nobody handles, by check, worst first, at most 10; without silent nodes."`
	WrongMore   int               `json:"wrongMore,omitempty" doc:"Number of further checks."`
	Silent      uint64            `json:"silent" doc:"Number of nodes whose last heartbeat is older than their keepalive allows, and whose problem nobody handles."`
	SilentNow   []SilentNode      `json:"silentNodes,omitempty" doc:"Some of them, the latest first."`
	Stopped     int               `json:"stopped,omitempty" doc:"Number of nodes whose agent somebody stopped, for example by a shutdown: no alarm. Without ephemeral nodes."`
	StoppedNow  []string          `json:"stoppedNodes,omitempty" doc:"Some of them."`
	Faulty      int               `json:"faulty,omitempty" doc:"Number of nodes with a fault in their assignment: a property without value or with two values, or a too large assignment."`
	Faults      []NodeFault       `json:"faults,omitempty" doc:"Faults, most nodes first, at most 5."`
	Spooling    int               `json:"spooling,omitempty" doc:"Number of agents whose oldest result has waited for more than a minute."`
	SpoolingNow []Agent           `json:"spoolingAgents,omitempty" doc:"Some of them, longest wait first."`
	Journal     Journal           `json:"journal"`
	Reactions   Reactions         `json:"reactions"`
	Unsent      []Unsent          `json:"unsent,omitempty" doc:"Messages that wait for their handlers."`
	Revision    int64             `json:"revision"`
	LastChange  []Change          `json:"lastChanges,omitempty"`
	NotReady    []string          `json:"notReady,omitempty" doc:"Reason why the server is not ready; empty: ready."`
	Warnings    []string          `json:"warnings,omitempty"`
}

// Handled counts open problems that need no attention now, such as acknowledged or silenced problems. They are
// acknowledged, silenced, in maintenance, or caused by another problem. They do not make the fleet unwell.
type Handled struct {
	Acknowledged uint64 `json:"acknowledged,omitempty"`
	Silenced     uint64 `json:"silenced,omitempty"`
	Maintenance  uint64 `json:"maintenance,omitempty" doc:"In a maintenance window."`
	Dependent    uint64 `json:"dependent,omitempty" doc:"A dependency has a problem, such as the switch in front of the node."`
}

// Sum adds up the problems that are acknowledged, silenced, in maintenance, or dependent on others.
func (h Handled) Sum() uint64 { return h.Acknowledged + h.Silenced + h.Maintenance + h.Dependent }

// Unnotified counts the open problems for which no route or handler notifies anybody.
type Unnotified struct {
	Problems int      `json:"problems,omitempty"`
	Examples []string `json:"examples,omitempty" doc:"Some of them: NODE/CHECK, or NAMESPACE/NODE/CHECK outside the requested namespace."`
}

// SilentNode is a node whose agent sends nothing
type SilentNode struct {
	Namespace     string    `json:"namespace"`
	Node          string    `json:"node"`
	LastHeartbeat time.Time `json:"lastHeartbeat,omitzero" doc:"Last heartbeat; absent: never."`
	Since         time.Time `json:"since" doc:"Start of the problem."`
}

// FailingCheck is a check with open problems, and the number of nodes with such problems.
type FailingCheck struct {
	Check     string         `json:"check"`
	Source    Source         `json:"source"`
	Namespace string         `json:"namespace,omitempty" doc:"Namespace of the nodes; empty: several."`
	Status    model.Status   `json:"status"`
	Severity  model.Severity `json:"severity" doc:"Highest severity."`
	Names
	Nodes    uint64    `json:"nodes"`
	Since    time.Time `json:"since" doc:"Start on the first node."`
	Last     time.Time `json:"last" doc:"Start on the last node."`
	Examples []string  `json:"examples" doc:"Some of the nodes."`
	Output   string    `json:"output,omitempty" doc:"Output of the first example."`
}

// NodeFault is one reason why assigned checks cannot run, such as a missing property, with the affected nodes.
type NodeFault struct {
	Text     string   `json:"text"`
	Nodes    int      `json:"nodes"`
	Examples []string `json:"examples" doc:"Some of the nodes."`
}

// Unsent has the number of notifications to one handler that are not sent yet.
type Unsent struct {
	Namespace string    `json:"namespace"`
	Handler   string    `json:"handler"`
	Waiting   int       `json:"waiting"`
	Failing   int       `json:"failing,omitempty" doc:"Number of those messages with failed attempts; the server tries again."`
	Dead      int       `json:"dead,omitempty" doc:"Number of further messages that were given up in the last 24 hours."`
	Since     time.Time `json:"since" doc:"Time of the oldest message."`
	LastError string    `json:"lastError,omitempty"`
}

// LastHour counts problems opened and closed, and resources changed, during the last hour.
type LastHour struct {
	Opened  int `json:"opened"` // problems
	Closed  int `json:"closed"`
	Changes int `json:"changes" doc:"Number of changes of resources by people."`
}

// ByStatus has one number of events for each status, such as OK and CRITICAL.
type ByStatus struct {
	OK       uint64 `json:"ok"`
	Warning  uint64 `json:"warning"`
	Critical uint64 `json:"critical"`
	Unknown  uint64 `json:"unknown"`
}

// ByStatusOf converts event counts indexed by status to ByStatus.
func ByStatusOf(n [4]uint64) ByStatus {
	return ByStatus{OK: n[model.OK], Warning: n[model.Warning], Critical: n[model.Critical], Unknown: n[model.Unknown]}
}

// Journal is the state of the journal, the server's append-only log, for muster status.
type Journal struct {
	SizeBytes     int64  `json:"sizeBytes"`
	FreeBytes     int64  `json:"freeBytes,omitempty" doc:"Free space on the journal's disk."`
	DataFreeBytes int64  `json:"dataFreeBytes,omitempty" doc:"Free space on the disk of the data folder, if that is another one."`
	BudgetBytes   int64  `json:"budgetBytes"`
	QueuedBytes   int64  `json:"queuedBytes"`
	BehindCommits uint64 `json:"behindCommits,omitempty" doc:"Commits that the event view has not applied yet."`
	Blocked       string `json:"blocked,omitempty"`
}

// Reactions shows how far history and notifications are behind the journal, the server's append-only log.
type Reactions struct {
	Waiting       int64   `json:"waiting" doc:"Changes in memory that history has not recorded yet."`
	BehindSeconds float64 `json:"behindSeconds,omitempty" doc:"Age of the oldest change that history has not recorded."`
	BehindBytes   int64   `json:"behindBytes,omitempty" doc:"Bytes of journal from that change on, about; the journal cannot drop them."`
	BehindCommits uint64  `json:"behindCommits,omitempty" doc:"Commits of journal from that change on."`
	Rederiving    bool    `json:"rederiving,omitempty" doc:"The queue of changes overflowed; the server derives them again from the journal."`
	Late          bool    `json:"late,omitempty" doc:"History is so late that people should know."`
}

// Queue is the state of one bounded queue of the server.
type Queue struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Depth    int64  `json:"depth"`
	Unit     string `json:"unit"`
	Policy   string `json:"policy"`
	Passed   uint64 `json:"passed"`
	Overflow uint64 `json:"overflow"`
}

// QueueList is the list of all queues, sorted by name.
type QueueList struct {
	Items []Queue `json:"items"`
}

// NotOK returns the number of events with a status other than OK.
func (b ByStatus) NotOK() uint64 { return b.Critical + b.Unknown + b.Warning }

// Failing formats the number of events that are not OK, such as "2 of 9"
func (b ByStatus) Failing() string {
	if all := b.OK + b.NotOK(); all > 0 {
		return fmt.Sprintf("%d of %d", b.NotOK(), all)
	}
	return "-"
}

// ReportQuery selects the namespace and the period of a report. An empty namespace means all.
type ReportQuery struct {
	Namespace    string
	Since, Until time.Time
	After        string
	Where        string // CEL condition over the variable row, for lists
}

// ShadowMessage is a notification that was recorded but not sent, because its namespace is in shadow mode
type ShadowMessage struct {
	At        time.Time `json:"at" doc:"Time at which it would have been sent."`
	Handler   string    `json:"handler" doc:"NAMESPACE/NAME of the handler."`
	Route     string    `json:"route,omitempty" doc:"NAMESPACE/NAME; absent: the check or namespace names the handler."`
	Event     string    `json:"event" doc:"Event of the problems: opened, reminder, closed or acknowledged."`
	Namespace string    `json:"namespace"`
	Node      string    `json:"node" doc:"Node of the worst problem, if there are several."`
	Check     string    `json:"check" doc:"Name of the source for people."`
	Source    Source    `json:"source" doc:"Source of that problem."`
	Status    string    `json:"status"`
	Severity  string    `json:"severity"`
	Problem   string    `json:"problem"`
	Opened    time.Time `json:"opened"`
	Count     int       `json:"count" doc:"Number of problems in the message."`
	Summary   string    `json:"summary" doc:"Summary of the message."`
}

// ShadowList is a page of notifications that namespaces in shadow mode would have sent, newest first
type ShadowList struct {
	Since time.Time       `json:"since"`
	Until time.Time       `json:"until"`
	Items []ShadowMessage `json:"items"`
	Notes []string        `json:"notes,omitempty" doc:"Limits of the report, in words."`
	Next  string          `json:"next,omitempty"`
}

// Noise is the noise report about checks and routes that paged people in a period. It also lists checks that never
// fail.
type Noise struct {
	Since time.Time   `json:"since"`
	Until time.Time   `json:"until"`
	Notes []string    `json:"notes,omitempty" doc:"Limits of the report, in words."`
	Weeks []time.Time `json:"weeks" doc:"Start of each week, oldest first, counted back from until; the oldest may be partial."`
	// Pages counts openings, reminders and summaries; an end or an acknowledgement pages nobody.
	Pages      int            `json:"pages" doc:"Messages about opened problems and the last reminders."`
	Failed     int            `json:"failed" doc:"Number of those messages that no handler accepted."`
	Shadow     int            `json:"shadow" doc:"Number of those messages that were only recorded, not sent."`
	Checks     []NoisyCheck   `json:"checks" doc:"Checks with pages, problems or flaps, most pages first."`
	Routes     []NoisyRoute   `json:"routes" doc:"Most pages first."`
	Quiet      []QuietCheck   `json:"quiet" doc:"Checks without a problem in the period."`
	Unassigned []QuietCheck   `json:"unassigned" doc:"Checks that run on no node."`
	Silences   []StaleSilence `json:"silences" doc:"Silences older than 30 days or without a match."`
}

// NoisyCheck counts the problems of one check on the nodes of one namespace, for the noise report
type NoisyCheck struct {
	Namespace string  `json:"namespace" doc:"Namespace of the nodes."`
	Check     string  `json:"check" doc:"Name of the source for people."`
	Source    Source  `json:"source" doc:"Without id and instance: the row counts all that have the name."`
	Pages     int     `json:"pages" doc:"Messages; one about several problems counts for the check of its first problem."`
	Reminders int     `json:"reminders" doc:"Number of those messages that are reminders."`
	PerWeek   []int   `json:"perWeek"`
	Problems  int     `json:"problems" doc:"Number of problems opened in the period."`
	Nodes     int     `json:"nodes" doc:"Number of nodes with these problems."`
	Closed    int     `json:"closed" doc:"Number of these problems that have closed."`
	Unacked   int     `json:"unacked" doc:"Number of problems closed without an acknowledgement."`
	Typical   float64 `json:"typical" doc:"Median seconds from opening to closing."`
	Flaps     int     `json:"flaps" doc:"Number of times that an event started to flap."`
}

// NoisyRoute counts the notifications that one route sent to one handler, for the noise report
type NoisyRoute struct {
	Route     string `json:"route,omitempty" doc:"NAMESPACE/NAME; absent: the check or namespace names the handler."`
	Handler   string `json:"handler"`
	Pages     int    `json:"pages"`
	Reminders int    `json:"reminders"`
	PerWeek   []int  `json:"perWeek"`
}

// QuietCheck is a check that opened no problem in the period of a noise report.
type QuietCheck struct {
	Namespace string    `json:"namespace"`
	Check     string    `json:"check"`
	Source    Source    `json:"source"`
	Nodes     int       `json:"nodes"`
	CreatedAt time.Time `json:"createdAt"`
}

// StaleSilence is a silence that is older than 30 days or matches nothing any more
type StaleSilence struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Creator   string     `json:"creator,omitempty"`
	Reason    string     `json:"reason"`
	CreatedAt time.Time  `json:"createdAt"`
	Until     model.Time `json:"until,omitzero"`
	Nodes     int        `json:"nodes" doc:"Number of nodes that it covers now."`
	Reasons   []string   `json:"reasons" doc:"Reason for the listing, in words."`
}

// ErrorType is the beginning of the type URI of every error; the label of the error's class follows.
const ErrorType = "https://muster-fleet.github.io/errors/"

// Error is the JSON error format of the API (RFC 9457). Its hint names the command to type.
type Error struct {
	Type   string       `json:"type" doc:"URI that ends with the class: invalid, not_found, conflict, …"`
	Title  string       `json:"title" doc:"The class in words."`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty" doc:"Failed operation, its object and the reason."`
	Hint   string       `json:"hint,omitempty" doc:"Command to type or change to make."`
	Errors []FieldError `json:"errors,omitempty"`
	// Of an apply or a preview of one.
	Resource string `json:"resource,omitempty" doc:"Declared resource that is wrong, such as directive/sshd."`
	Field    string `json:"field,omitempty" doc:"Its wrong field, if known."`
}

// FieldError is the error in one field of a request.
type FieldError struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"For example query.limit or body.resources."`
}

// Error returns the text of the error
func (e *Error) Error() string { return e.Detail }

// GetStatus returns the HTTP status of the error.
func (e *Error) GetStatus() int { return e.Status }

// ContentType returns the media type of errors.
func (e *Error) ContentType(string) string { return "application/problem+json" }

// AsModel converts an API error to an error of package model with the same class, such as NotFound.
func (e *Error) AsModel() *model.Error {
	class := model.ClassOfHTTP(e.Status)
	text := e.Detail
	for _, f := range e.Errors {
		text += "\n  " + f.Location + ": " + f.Message
	}
	return &model.Error{Class: class, Message: text, Hint: e.Hint, Resource: e.Resource, Field: e.Field}
}
