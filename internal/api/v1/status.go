package v1

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Status is the state of the whole server, worst first. It has more than 25 fields because it is the flat JSON object of
// one screen.
type Status struct {
	Server      string            `json:"server"` // version
	Started     time.Time         `json:"started"`
	Now         time.Time         `json:"now"`
	Incarnation string            `json:"incarnation,omitempty" doc:"Of the journal: which life of the data this is."`
	Nodes       int               `json:"nodes"`
	Connected   int               `json:"connected"` // agents with a session now
	Pending     int               `json:"pending,omitempty" doc:"Machines that want to join and wait for somebody to accept them."`
	Events      uint64            `json:"events"`
	ByStatus    ByStatus          `json:"byStatus"`
	Namespaces  []NamespaceEvents `json:"namespaces,omitempty" doc:"What of it is where, if more than one namespace has events: at most 5, those with the most that is not OK first."`
	NoChecks    bool              `json:"noChecks,omitempty" doc:"No check is declared: of nodes only their keepalives are judged. Of all namespaces."`
	NoResults   bool              `json:"noResults,omitempty" doc:"There are nodes and checks, and no result of a check has come in yet. Of all namespaces."`
	Problems    uint64            `json:"problems"`
	LastHour    LastHour          `json:"lastHour"`
	Wrong       []Wrong           `json:"wrong,omitempty" doc:"What is not OK, check by check, the worst first, at most 10; silent nodes are left out."`
	WrongMore   int               `json:"wrongMore,omitempty" doc:"How many more there are."`
	Silent      uint64            `json:"silent" doc:"Nodes of which nothing was heard for longer than their keepalive allows."`
	SilentNow   []Event           `json:"silentNodes,omitempty" doc:"The keepalive events of some of them."`
	Stopped     int               `json:"stopped,omitempty" doc:"Nodes whose agent somebody stopped in order, as a machine does that goes down: no alarm comes of it. Ephemeral ones are left out."`
	StoppedNow  []string          `json:"stoppedNodes,omitempty" doc:"Some of them."`
	Faulty      int               `json:"faulty,omitempty" doc:"Nodes that cannot do what they should: a property is not set, or set differently by two groups; an assignment is too large."`
	Faults      []NodeFault       `json:"faults,omitempty" doc:"Why, that of the most nodes first, at most 5."`
	Spooling    int               `json:"spooling,omitempty" doc:"Agents with results that have waited for longer than a minute."`
	SpoolingNow []Agent           `json:"spoolingAgents,omitempty" doc:"Some of them, the longest wait first."`
	Journal     Journal           `json:"journal"`
	Reactions   Reactions         `json:"reactions"`
	Unsent      []Unsent          `json:"unsent,omitempty" doc:"Messages that wait for their handlers."`
	Revision    int64             `json:"revision"`
	LastChange  []Change          `json:"lastChanges,omitempty"`
	NotReady    []string          `json:"notReady,omitempty" doc:"Why the server is not ready; empty: it is."`
	Warnings    []string          `json:"warnings,omitempty"`
}

// Wrong is a check that is not OK, with its nodes.
type Wrong struct {
	Check     string         `json:"check"`
	Namespace string         `json:"namespace,omitempty" doc:"Of the nodes; empty: of several."`
	Status    model.Status   `json:"status"`
	Severity  model.Severity `json:"severity" doc:"Of the worst."`
	Names
	Nodes    uint64    `json:"nodes"`
	Problems uint64    `json:"problems" doc:"Open ones."`
	Since    time.Time `json:"since" doc:"Since when, on the first node …"`
	Last     time.Time `json:"last" doc:"… and on the last."`
	Examples []string  `json:"examples" doc:"Some of the nodes."`
	Output   string    `json:"output,omitempty" doc:"Of the first of them."`
}

// NodeFault is an error in the assignments of nodes.
type NodeFault struct {
	Text     string   `json:"text"`
	Nodes    int      `json:"nodes"`
	Examples []string `json:"examples" doc:"Some of the nodes."`
}

// Unsent counts the deliveries that wait for one handler.
type Unsent struct {
	Namespace string    `json:"namespace"`
	Handler   string    `json:"handler"`
	Waiting   int       `json:"waiting"`
	Failing   int       `json:"failing,omitempty" doc:"Those of them that were tried in vain, and are tried again."`
	Since     time.Time `json:"since" doc:"Of the oldest."`
	LastError string    `json:"lastError,omitempty"`
}

// LastHour counts the changes of the last hour.
type LastHour struct {
	Opened  int `json:"opened"` // problems
	Closed  int `json:"closed"`
	Changes int `json:"changes" doc:"Of resources, by people."`
}

// ByStatus counts events.
type ByStatus struct {
	OK       uint64 `json:"ok"`
	Warning  uint64 `json:"warning"`
	Critical uint64 `json:"critical"`
	Unknown  uint64 `json:"unknown"`
}

// ByStatusOf returns counts that are indexed by status.
func ByStatusOf(n [4]uint64) ByStatus {
	return ByStatus{OK: n[model.OK], Warning: n[model.Warning], Critical: n[model.Critical], Unknown: n[model.Unknown]}
}

// Journal is the state of the journal.
type Journal struct {
	SizeBytes     int64  `json:"sizeBytes"`
	FreeBytes     int64  `json:"freeBytes,omitempty" doc:"Of the disk it lies on."`
	DataFreeBytes int64  `json:"dataFreeBytes,omitempty" doc:"Of the disk with the data folder, where that is another."`
	BudgetBytes   int64  `json:"budgetBytes"`
	QueuedBytes   int64  `json:"queuedBytes"`
	BehindCommits uint64 `json:"behindCommits,omitempty" doc:"Commits that the event view has not applied yet."`
	Blocked       string `json:"blocked,omitempty"`
}

// Reactions is the delay of history and delivery.
type Reactions struct {
	Waiting       int64   `json:"waiting" doc:"Changes in memory that history has not recorded yet."`
	BehindSeconds float64 `json:"behindSeconds,omitempty" doc:"How long ago the oldest change was received that history does not hold."`
	BehindBytes   int64   `json:"behindBytes,omitempty" doc:"Journal from that change on, about; it cannot be cut."`
	BehindCommits uint64  `json:"behindCommits,omitempty" doc:"Commits of it."`
	Rederiving    bool    `json:"rederiving,omitempty" doc:"The queue of changes overflowed: they are made again from the journal."`
	Lagging       bool    `json:"lagging,omitempty" doc:"So long that people should know."`
}

// Queue is one bounded queue.
type Queue struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Depth    int64  `json:"depth"`
	Unit     string `json:"unit"`
	Policy   string `json:"policy"`
	Passed   uint64 `json:"passed"`
	Overflow uint64 `json:"overflow"`
}

// QueueList is all queues, by name.
type QueueList struct {
	Items []Queue `json:"items"`
}

// NotOK counts the events that are not OK.
func (b ByStatus) NotOK() uint64 { return b.Critical + b.Unknown + b.Warning }

// Failing formats the failing share: 2 of 9.
func (b ByStatus) Failing() string {
	if all := b.OK + b.NotOK(); all > 0 {
		return fmt.Sprintf("%d of %d", b.NotOK(), all)
	}
	return "-"
}

// ReportQuery selects a namespace (empty: all) and a period.
type ReportQuery struct {
	Namespace    string
	Since, Until time.Time
	After        string
	Where        string // over row; for lists
}

// ShadowMessage is a notification that was not sent because its namespace is a shadow.
type ShadowMessage struct {
	At        time.Time `json:"at" doc:"When it would have been sent."`
	Handler   string    `json:"handler" doc:"NAMESPACE/NAME of who would have been told."`
	Route     string    `json:"route,omitempty" doc:"NAMESPACE/NAME; none: the handler is named by the check or the namespace."`
	Tells     string    `json:"tells" doc:"What it says of its problems: opened, reminder, closed or acknowledged."`
	Namespace string    `json:"namespace"`
	Node      string    `json:"node" doc:"Of the worst problem, where it tells of several."`
	Check     string    `json:"check"`
	Status    string    `json:"status"`
	Severity  string    `json:"severity"`
	Problem   string    `json:"problem"`
	Opened    time.Time `json:"opened"`
	Count     int       `json:"count" doc:"Of problems that it tells of."`
	Summary   string    `json:"summary" doc:"What would have been read."`
}

// ShadowList is a page of notifications, newest first.
type ShadowList struct {
	Since time.Time       `json:"since"`
	Until time.Time       `json:"until"`
	Items []ShadowMessage `json:"items"`
	Notes []string        `json:"notes,omitempty" doc:"What the report cannot know, in words."`
	Next  string          `json:"next,omitempty"`
}

// Noise counts pages to people in a period, and lists checks that never fail.
type Noise struct {
	Since time.Time   `json:"since"`
	Until time.Time   `json:"until"`
	Notes []string    `json:"notes,omitempty" doc:"What the report cannot know, in words."`
	Weeks []time.Time `json:"weeks" doc:"When each week of pages begins, the oldest first; they are counted back from until, so that the oldest may be a part of one."`
	// Pages counts openings, reminders and summaries; an end or an acknowledgement pages nobody.
	Pages    int            `json:"pages" doc:"Messages of problems that opened (or, repeated, last)."`
	Failed   int            `json:"failed" doc:"Those of them that no handler took."`
	Shadow   int            `json:"shadow" doc:"Those of them that were only shown, not sent."`
	Checks   []NoisyCheck   `json:"checks" doc:"Those with pages, problems or flaps, the loudest first."`
	Routes   []NoisyRoute   `json:"routes" doc:"The loudest first."`
	Quiet    []QuietCheck   `json:"quiet" doc:"Checks that opened no problem in the period."`
	Nowhere  []QuietCheck   `json:"nowhere" doc:"Checks that run on no node."`
	Silences []StaleSilence `json:"silences" doc:"Silences that are older than 30 days, or that match nothing any more."`
}

// NoisyCheck counts the problems of one check in a namespace of nodes.
type NoisyCheck struct {
	Namespace string  `json:"namespace" doc:"Of the nodes."`
	Check     string  `json:"check"`
	Pages     int     `json:"pages" doc:"A message of several problems counts for the check under whose problem it was told."`
	Reminders int     `json:"reminders" doc:"Those of the pages that repeat."`
	PerWeek   []int   `json:"perWeek"`
	Problems  int     `json:"problems" doc:"That opened in the period."`
	Nodes     int     `json:"nodes" doc:"That had them."`
	Closed    int     `json:"closed" doc:"Those of them that have closed."`
	Unacked   int     `json:"unacked" doc:"Those that closed without an acknowledgement."`
	Typical   float64 `json:"typical" doc:"Seconds from opening to closing: half of those that closed were shorter."`
	Flaps     int     `json:"flaps" doc:"How often an event of it began to flap."`
}

// NoisyRoute counts the pages of one route to one handler.
type NoisyRoute struct {
	Route     string `json:"route,omitempty" doc:"NAMESPACE/NAME; none: the handler is named by the check or the namespace."`
	Handler   string `json:"handler"`
	Pages     int    `json:"pages"`
	Reminders int    `json:"reminders"`
	PerWeek   []int  `json:"perWeek"`
}

// QuietCheck is a check that opened no problem.
type QuietCheck struct {
	Namespace string    `json:"namespace"`
	Check     string    `json:"check"`
	Nodes     int       `json:"nodes"`
	Made      time.Time `json:"made"`
}

// StaleSilence is a silence that needs a look.
type StaleSilence struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Creator   string     `json:"creator,omitempty"`
	Reason    string     `json:"reason"`
	Made      time.Time  `json:"made"`
	Until     model.Time `json:"until,omitzero"`
	Nodes     int        `json:"nodes" doc:"That it covers now."`
	Why       []string   `json:"why" doc:"Why it is listed, in words."`
}

// ErrorType begins the type of every error; the class's label ends it.
const ErrorType = "https://muster-fleet.github.io/errors/"

// Error is an error of RFC 9457 with a hint: the command to type.
type Error struct {
	Type   string       `json:"type" doc:"Ends with the class: invalid, not_found, conflict, …"`
	Title  string       `json:"title" doc:"The class in words."`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty" doc:"What happened, and where."`
	Hint   string       `json:"hint,omitempty" doc:"What to type or change."`
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is one fault of the input.
type FieldError struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"For example query.limit or body.resources."`
}

// Error implements error.
func (e *Error) Error() string { return e.Detail }

// GetStatus returns the HTTP status.
func (e *Error) GetStatus() int { return e.Status }

// ContentType returns the media type of errors.
func (e *Error) ContentType(string) string { return "application/problem+json" }

// AsModel converts the error to its class.
func (e *Error) AsModel() *model.Error {
	class := model.ClassOfHTTP(e.Status)
	text := e.Detail
	for _, f := range e.Errors {
		text += "\n  " + f.Location + ": " + f.Message
	}
	return &model.Error{Class: class, Message: text, Hint: e.Hint}
}
