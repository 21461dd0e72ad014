package history

import (
	"encoding/json"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Rate is the used part of a route's rate.
type Rate struct {
	Route  string    // NAMESPACE/NAME
	Shadow bool      // of shadow deliveries
	Ends   time.Time // of the span in which Sent counts
	Sent   int       // messages, with those beyond the rate
}

// EscalationKey identifies an escalation.
type EscalationKey struct {
	Problem string
	Route   string // NAMESPACE/NAME; empty: handlers named without a route
}

// Escalation is the state of a problem on one route: handlers notified so far, and the next steps.
type Escalation struct {
	EscalationKey `json:"-"`

	NodeID   model.NodeID      `json:"node"`
	Source   model.Source      `json:"source"`
	Group    string            `json:"group"`
	Lead     string            `json:"lead"` // the problem whose id is the group's first incident
	Opened   time.Time         `json:"opened"`
	Direct   []HandlerRef      `json:"direct,omitempty"` // handlers, where there is no route
	Next     route.Escalation  `json:"next"`
	Notified []NotifiedHandler `json:"told,omitempty"` // of the opening
	Held     *route.Hold       `json:"held,omitempty"` // why a due step was withheld
	// Severity is the highest that a notification had.
	Severity model.Severity `json:"severity,omitempty"`
	Shadow   bool           `json:"shadow,omitempty"` // its messages are recorded and not sent
	Late     bool           `json:"late,omitempty"`   // its opening was lost, and found when the server started
	// Closing is the notification of the closing, as JSON, while it waits for others of its group, until Due.
	Closing json.RawMessage `json:"closing,omitempty"`
	Due     time.Time       `json:"due,omitzero"`
	// AckEnds is the end of the acknowledgement that handlers were notified of; zero: none ends.
	AckEnds time.Time `json:"ackEnds,omitzero"`
}

// NotifiedHandler is a handler that was notified of a problem.
type NotifiedHandler struct {
	HandlerRef
	// Incident is the id under which the handler knows the problem: a problem's id, and behind that .1, .2, …
	// where acknowledgements ended.
	Incident string `json:"under,omitempty"`
	// Acked means that the handler was notified of the acknowledgement of all open problems of the incident, or
	// that the incident ended acknowledged.
	Acked bool `json:"acked,omitempty"`
}

// EntryKind is the kind of a change, as a word.
type EntryKind string

// The kinds of entries. Output of an acknowledgement names the person, with their note.
const (
	StatusChanged    EntryKind = "status"
	ResultsLost      EntryKind = "lost"
	LateResult       EntryKind = "late"
	Acknowledged     EntryKind = "acknowledged"
	Unacknowledged   EntryKind = "unacknowledged"
	FlappingStarted  EntryKind = "flapping"
	FlappingEnded    EntryKind = "steady"
	TextChanged      EntryKind = "text"      // of an open problem, the first few
	NodeDeregistered EntryKind = "forgotten" // an ephemeral node was away for too long
)

// Entry is one change of an event, with the names of its time.
type Entry struct {
	At         time.Time       `json:"at"` // received
	Executed   time.Time       `json:"executed"`
	Kind       EntryKind       `json:"kind"`
	Namespace  string          `json:"namespace"`
	Node       string          `json:"node"`
	NodeID     model.NodeID    `json:"nodeId"`
	Source     model.Source    `json:"source"`
	SourceName string          `json:"sourceName"`
	Status     model.Status    `json:"status"`
	Previous   model.Status    `json:"previous"`
	First      bool            `json:"first,omitempty"` // no status before: Previous means nothing
	Output     string          `json:"output,omitempty"`
	Count      uint64          `json:"count,omitempty"` // results lost
	Expired    bool            `json:"expired,omitempty"`
	Partition  model.Partition `json:"-"`
	Place      Place           `json:"-"`
	ID         int64           `json:"-"` // assigned by the store, ascending
}

// Problem is one problem with the names of its time.
type Problem struct {
	model.Problem
	Namespace  string `json:"namespace"`
	Node       string `json:"node"`
	SourceName string `json:"sourceName"`
}

// HandlerRef names a handler.
type HandlerRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// DeliveryState is the state of a delivery, as a word.
type DeliveryState string

// The states of deliveries.
const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	Dead      DeliveryState = "dead"     // given up: a dead letter
	Withheld  DeliveryState = "withheld" // never sent; LastError has the reason
	Shadow    DeliveryState = "shadow"   // recorded only, because its namespace has notifications: shadow
)

// Delivery is one message to one handler.
type Delivery struct {
	ID      int64      `json:"id"`
	Key     string     `json:"key"` // idempotency key: the same on every attempt
	Problem string     `json:"problem"`
	Also    []string   `json:"also,omitempty"` // further problems of the message; Store.AlsoProblems reads them
	Handler HandlerRef `json:"handler"`
	Kind    string     `json:"kind"`            // the form: opened, closed, reminder, summary …
	Route   string     `json:"route,omitempty"` // NAMESPACE/NAME; empty: handlers named without a route
	// Tells is the meaning, for reports: opened, reminder, closed or acknowledged.
	Tells     string        `json:"tells,omitempty"`
	Count     int           `json:"count,omitempty"` // problems in the message
	Payload   []byte        `json:"-"`
	Created   time.Time     `json:"created"`
	State     DeliveryState `json:"state"` // empty in a Batch: pending
	Attempts  int           `json:"attempts"`
	NextAt    time.Time     `json:"nextAt,omitzero"`
	LastError string        `json:"lastError,omitempty"`
	Ended     time.Time     `json:"ended,omitzero"`
	Replayed  time.Time     `json:"replayed,omitzero"` // when a person replayed it
}

// Since returns the time from which on attempts of a delivery are counted.
func (d *Delivery) Since() time.Time {
	if d.Replayed.After(d.Created) {
		return d.Replayed
	}
	return d.Created
}

// Revival selects the dead letters to replay.
type Revival struct {
	IDs   []int64 // only these; none: all
	Ended bool    // also of closed problems, with their closings
	Limit int
}

// Revived counts the deliveries that are pending again, the dead letters of closed problems that stay
// (Over), and those beyond the limit (More).
type Revived struct{ Revived, Over, More int }

// Unsent sums up the pending deliveries of one handler.
type Unsent struct {
	Handler   HandlerRef
	Waiting   int       // deliveries
	Failing   int       // of them, with an attempt that failed
	Since     time.Time // creation of the oldest
	LastError string    // of a failing one
}

// Attempt is the outcome of one try.
type Attempt struct {
	At     time.Time
	State  DeliveryState // Pending: the next try is at NextAt
	NextAt time.Time
	Error  string
}

// Outcome is the attempt of one delivery.
type Outcome struct {
	ID int64
	Attempt
}

// ProblemQuery selects problems. Zero fields select everything.
type ProblemQuery struct {
	Namespace  string
	Namespaces []string // bounds Namespace; nil: all
	Node       string
	NodeID     model.NodeID // by any name
	Check      string
	Open       bool
	Since      time.Time // opened then or later
	Limit      int
	Before     time.Time // page: opened before this
	BeforeID   string    // … or at it, with a smaller id
}

// EntryQuery selects entries. Zero fields select everything.
type EntryQuery struct {
	Namespace  string
	Namespaces []string // bounds Namespace; nil: all
	Node       string
	NodeID     model.NodeID // by any name
	Check      string
	Kind       EntryKind
	Since      time.Time
	Limit      int
	Before     time.Time // page: before this
	BeforeID   int64     // … or at it, with a smaller ID
}
