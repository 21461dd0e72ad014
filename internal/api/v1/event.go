package v1

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Names are status and severity as words, beside their numbers: programs compare numbers, people
// read words.
type Names struct {
	StatusName   string `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN" doc:"What status 0, 1, 2 and 3 mean."`
	SeverityName string `json:"severityName" enum:"not classified,information,warning,average,high,disaster" doc:"What severity 0 to 5 means."`
}

// NamesOf returns the words of both.
func NamesOf(status model.Status, severity model.Severity) Names {
	return Names{status.String(), severity.String()}
}

// Event is the present state of one check on one node.
type Event struct {
	model.Event
	Names
	Problem *OpenProblem `json:"problem,omitempty" doc:"The open one."`
	History []int        `json:"history" doc:"Statuses, oldest first, at most 21."` // numbers: JSON would write bytes as base64
	// Notes are errors in expressions of pipelines about the event.
	Notes []string `json:"notes,omitempty" doc:"Expressions of filters kept from Sensu that could not be evaluated at its last result, with why; in answers about one event alone."`
}

// OpenProblem is the problem of an event.
type OpenProblem struct {
	model.Problem
	Names
	Source Source             `json:"source"`
	Holds  []NotificationHold `json:"holds,omitempty" doc:"What keeps back that people are told of it now: silences, windows, mutes of its routes. An acknowledgement is ack."`
}

// EventList is a page of events, worst first.
type EventList struct {
	Items   []Event           `json:"items"`
	Next    string            `json:"next,omitempty" doc:"Pass it as after to get the next page."`
	Partial bool              `json:"partial,omitempty" doc:"The search was ended by time, not by the limit: go on with next."`
	Match   uint64            `json:"match,omitempty" doc:"Events that match, on all pages; left out where to count them would cost too much."`
	Total   uint64            `json:"total,omitempty" doc:"All events of the namespace asked for, whatever the other filters."`
	Wrong   uint64            `json:"wrong,omitempty" doc:"Those of them that are not OK."`
	Others  []NamespaceEvents `json:"others,omitempty" doc:"On the first page: other namespaces that have events, at most 5, those with the most that is not OK first."`
}

// NamespaceEvents counts the events of a namespace.
type NamespaceEvents struct {
	Namespace string `json:"namespace"`
	Events    uint64 `json:"events"`
	Wrong     uint64 `json:"wrong" doc:"Those of them that are not OK."`
}

// EventFilter selects events; empty fields select everything.
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

// Narrow filters the rows of a list; empty fields match all.
type Narrow struct {
	Selector string // labels of the row's node, or of the row
	Where    string // CEL over row, and over node where the row has one
}

// Problem is a problem with the names of its time.
type Problem struct {
	OpenProblem
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Check     string `json:"check,omitempty" doc:"The source's name, where it is a check."`
}

// Source is the source of a problem.
type Source struct {
	Kind     string `json:"kind" doc:"check"`
	Name     string `json:"name"`
	ID       uint32 `json:"id"`
	Instance string `json:"instance,omitempty" doc:"Of several that one source finds on one node; checks have none."`
}

// String formats the source for people: disk, or trigger disk-full[/var].
func (s Source) String() string {
	name := s.Name
	if s.Instance != "" {
		name += "[" + s.Instance + "]"
	}
	if s.Kind == model.SourceCheck.String() {
		return name
	}
	return s.Kind + " " + name
}

// ProblemList is a page of problems, newest first.
type ProblemList struct {
	Items []Problem `json:"items"`
	Next  string    `json:"next,omitempty"`
}

// Entry is one entry in the history of an event.
type Entry struct {
	At         time.Time     `json:"at"`
	Executed   time.Time     `json:"executed"`
	Kind       string        `json:"kind" enum:"status,lost,late,acknowledged,unacknowledged,flapping,steady,text"`
	Namespace  string        `json:"namespace"`
	Node       string        `json:"node"`
	Source     Source        `json:"source"`
	Check      string        `json:"check,omitempty" doc:"The source's name, where it is a check."`
	Status     model.Status  `json:"status"`
	StatusName string        `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Previous   *model.Status `json:"previous,omitempty" doc:"Status before this change; none: there was no result before."`
	Output     string        `json:"output,omitempty"`
	Count      uint64        `json:"count,omitempty"`
	Expired    bool          `json:"expired,omitempty"`
}

// EntryList is a page of entries, newest first.
type EntryList struct {
	Items []Entry `json:"items"`
	Next  string  `json:"next,omitempty"`
}

// HistoryQuery selects entries; zero fields select everything.
type HistoryQuery struct {
	Namespace, Node, Check string
	Since, Until           time.Time
	Limit                  int
	Narrow
	After string
}

// Availability is the seconds for which an event had each status in a period.
type Availability struct {
	Namespace string  `json:"namespace"`
	Node      string  `json:"node"`
	Check     string  `json:"check"`
	OK        float64 `json:"ok"`
	Warning   float64 `json:"warning"`
	Critical  float64 `json:"critical"`
	Unknown   float64 `json:"unknown"`
	Nothing   float64 `json:"nothing" doc:"There was no result yet, or history does not reach back so far."`
	Changes   int     `json:"changes"`

	Gone time.Time `json:"gone,omitzero" doc:"When its node was deleted: it counts until then."`
}

// Covered returns the seconds in which there was a status. Available returns the part of them that
// was OK or WARNING.
func (a Availability) Covered() float64   { return a.OK + a.Warning + a.Critical + a.Unknown }
func (a Availability) Available() float64 { return a.OK + a.Warning }

// Add adds the seconds of another event.
func (a *Availability) Add(b Availability) {
	a.OK, a.Warning, a.Critical, a.Unknown = a.OK+b.OK, a.Warning+b.Warning, a.Critical+b.Critical, a.Unknown+b.Unknown
	a.Nothing, a.Changes = a.Nothing+b.Nothing, a.Changes+b.Changes
}

// AvailabilityList is a page of events over one period.
type AvailabilityList struct {
	Since time.Time      `json:"since"`
	Until time.Time      `json:"until"`
	Items []Availability `json:"items"`
	Next  string         `json:"next,omitempty"`
}

// AvailabilityQuery selects events and a period.
type AvailabilityQuery struct {
	Namespace, Node, Check, Group, Selector, Where string
	Since, Until                                   time.Time
	After                                          string
}

// PastEvent is an event at a past time.
type PastEvent struct {
	Namespace  string       `json:"namespace"`
	Node       string       `json:"node"`
	Check      string       `json:"check"`
	Status     model.Status `json:"status"`
	StatusName string       `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Changed    time.Time    `json:"changed,omitzero" doc:"Since when; not known where history does not reach back so far."`
	Output     string       `json:"output,omitempty" doc:"At that change."`
	Gone       time.Time    `json:"gone,omitzero" doc:"When its node was deleted since."`
}

// PastEventList is a page of events at a past time.
type PastEventList struct {
	At    time.Time   `json:"at"`
	Items []PastEvent `json:"items"`
	Next  string      `json:"next,omitempty"`
}

// Delivery is one notification to one handler.
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
	Replayed  time.Time `json:"replayed,omitzero" doc:"When somebody sent it again after it was given up."`
	Summary   string    `json:"summary,omitempty" doc:"Of a dead letter: what it was to say."`
}

// DeliveryList is the deliveries of a problem, oldest first; or a page of dead letters.
type DeliveryList struct {
	Items []Delivery `json:"items"`
	Next  string     `json:"next,omitempty" doc:"Pass it as after to get the next page of dead letters."`
}

// Acknowledgement declares that the caller takes care of a problem.
type Acknowledgement struct {
	Note  string    `json:"note,omitempty" maxLength:"1000"`
	Until time.Time `json:"until,omitzero" doc:"When it ends; it ends with the problem in any case."`
}

// Action is the reason of an action.
type Action struct {
	Note string `json:"note,omitempty" maxLength:"1000"`
}

// GroupAvailability is the part of a time in which the nodes of a group were up. A node is up while
// all its selected events are OK or WARNING. Time without a status counts for neither.
type GroupAvailability struct {
	Namespace string  `json:"namespace"`
	Group     string  `json:"group"`
	Nodes     int     `json:"nodes" doc:"Of which something is known."`
	Events    int     `json:"events"`
	Worst     float64 `json:"worst" doc:"Share of the time (0 to 1) in which the node was up that was up least."`
	WorstNode string  `json:"worstNode,omitempty"`
	Mean      float64 `json:"mean" doc:"Mean of the shares of all nodes."`
	AllUp     float64 `json:"allUp" doc:"Share of the time in which every node was up."`
	AnyUp     float64 `json:"anyUp" doc:"Share of the time in which at least one node was up."`
	Known     float64 `json:"known" doc:"Seconds in which something is known of at least one node."`
}

// GroupAvailabilityList is the selected groups, the worst first.
type GroupAvailabilityList struct {
	Since time.Time           `json:"since"`
	Until time.Time           `json:"until"`
	Items []GroupAvailability `json:"items"`
}
