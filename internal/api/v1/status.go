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
