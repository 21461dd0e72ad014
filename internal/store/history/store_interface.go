package history

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Store stores history (changes of events, problems and deliveries) on SQLite or PostgreSQL. It is safe for
// concurrent use.
type Store interface {
	// Record writes a batch and its places in one transaction. Recording the same batch again changes nothing.
	Record(ctx context.Context, b Batch) error
	// Positions returns for each partition the place of its last recorded transition.
	Positions(ctx context.Context) (map[model.Partition]ChangePosition, error)
	// PipelinePositions returns for each partition the place of the last event that pipelines have evaluated.
	PipelinePositions(ctx context.Context) (map[model.Partition]ChangePosition, error)

	// Identity returns the random number that the store got at its creation, and Recorded the number of transactions
	// that changed messages to handlers.
	Identity() uint64
	Recorded() uint64
	// Incarnation returns the incarnation of the last RecordIncarnation; zero: there was none.
	Incarnation(ctx context.Context) (uint64, error)
	// RecordIncarnation records the incarnation of the journal that the rows belong to from now on, and returns the time up to
	// which history does not know the messages to handlers. lost is that time for a new incarnation, if history is new or
	// older than the journal; zero: it is not. Deliveries that wait then are withheld: they may have been sent.
	RecordIncarnation(ctx context.Context, incarnation uint64, lost time.Time) (unknownUntil time.Time, err error)

	// Problems lists problems by opening time, newest first.
	Problems(ctx context.Context, q ProblemQuery) ([]Problem, error)
	// Problem returns one problem; model.NotFound if no row has the id.
	Problem(ctx context.Context, id string) (Problem, error)
	// KnownProblems returns which of the ids have a row, open or closed.
	KnownProblems(ctx context.Context, ids []string) (map[string]bool, error)
	// CountProblems counts the problems of a namespace (empty: all) that opened, and that closed, at a time or
	// later.
	CountProblems(ctx context.Context, namespace string, since time.Time) (opened, closed int, err error)
	// Entries lists changes, newest first.
	Entries(ctx context.Context, q EntryQuery) ([]Entry, error)
	// Marks lists the entries of the kinds Acknowledged and FlappingStarted, newest first.
	FlappingAndAcknowledgements(ctx context.Context, q EntryQuery) ([]Entry, error)
	// Oldest returns the time of the oldest entry or problem; zero: there is neither.
	Oldest(ctx context.Context) (time.Time, error)

	// Escalations lists the escalations of open problems, and of closed ones whose closing is not yet sent.
	Escalations(ctx context.Context) ([]Escalation, error)
	// EscalationsOf lists the escalations of one problem, by route.
	EscalationsOf(ctx context.Context, problem string) ([]Escalation, error)
	// Rates lists the rates of all routes that ever had one.
	Rates(ctx context.Context) ([]RouteRate, error)

	// Due returns n pending deliveries that are due, oldest first: of one problem and handler only the oldest, and
	// none of the handlers in except. next is the time at which another delivery is due; zero: none waits.
	Due(ctx context.Context, now time.Time, limit int, except []HandlerRef) (due []Delivery, next time.Time, err error)
	// ClampDue makes pending deliveries due now that would wait beyond latest, because the clock was set back
	// since their last attempt.
	ClampDue(ctx context.Context, now, latest time.Time) error
	// MakeDue makes the pending deliveries with these ids due now.
	MakeDue(ctx context.Context, ids []int64, now time.Time) error
	// Pending counts the pending deliveries of each handler.
	Pending(ctx context.Context) (map[HandlerRef]int, error)
	// Unsent sums up, by handler, the pending deliveries and those that became dead letters at a time or later.
	Unsent(ctx context.Context, deadSince time.Time) ([]Unsent, error)
	// RecordAttempts records attempts in one transaction.
	RecordAttempts(ctx context.Context, list ...DeliveryAttempt) error
	// DeadLetters lists the dead letters of a handler, newest first, before an id (zero: all).
	DeadLetters(ctx context.Context, handler HandlerRef, before int64, limit int) ([]Delivery, error)
	// Revive makes dead letters of a handler pending again, so that they are sent, oldest first.
	Revive(ctx context.Context, handler HandlerRef, now time.Time, q ReplayQuery) (ReplayCounts, error)
	// HandlersOfOpenProblems lists the handlers that were notified of the opening of a problem that is still open.
	HandlersOfOpenProblems(ctx context.Context) ([]HandlerRef, error)
	// OpenDeliveries lists the delivered openings of open problems for a handler, sorted by id, from behind an id.
	OpenDeliveries(ctx context.Context, handler HandlerRef, after int64, limit int) ([]Delivery, error)
	// Deliveries lists the deliveries of a problem, oldest first.
	Deliveries(ctx context.Context, problem string) ([]Delivery, error)
	// AlsoProblems lists the ids of the further problems that a delivery reports.
	LinkedProblems(ctx context.Context, key string) ([]string, error)
	// Messages lists deliveries that ended, newest first.
	Messages(ctx context.Context, q MessageQuery) ([]Message, error)

	// ForgetChanges removes the entries behind a position of each partition, and sets its place there, so that a replay
	// of the journal from these positions records the entries again. No other method may run meanwhile.
	ForgetChanges(ctx context.Context, after [model.Partitions]journal.Position) error
	// Clean removes rows that ended before a time, at most limit of each kind, and returns how many. The
	// rows of open problems stay.
	Clean(ctx context.Context, before time.Time, limit int) (int, error)
	// CurrentUsage returns the size of history, its bound, and the rows that were removed for lack of room.
	CurrentUsage() Usage
	// Trouble returns the reason why the database did not answer the last request; nil: the database did.
	Trouble() error
	// Close closes the database.
	Close() error
}

// ChangePosition locates one change of an event in the journal, by commit and index within the commit. It has a
// commit position and an index within the commit.
type ChangePosition struct {
	At    journal.Position
	Index uint32
}

// Includes reports whether history up to the recorded position already contains the change at a given journal
// position.
func (p ChangePosition) Includes(at journal.Position, index uint32) bool {
	if at.Log != p.At.Log {
		return false // positions of another incarnation of the journal do not compare
	}
	return at.Number < p.At.Number || at.Number == p.At.Number && index <= p.Index
}

// Translate converts a position from before a journal restore to a position in the present journal. shared maps
// a position of an earlier incarnation to the last position that both incarnations have; nil: there was no
// earlier one.
func (p ChangePosition) Translate(shared func(journal.Position) journal.Position) ChangePosition {
	if shared == nil {
		return p
	}
	at := shared(p.At)
	if at.Number < p.At.Number {
		p.Index = math.MaxUint32 // the place lay behind this commit, so all of the commit is recorded
	}
	p.At = at
	return p
}

// Batch has the changes of events, problems and deliveries to record in one transaction.
type Batch struct {
	Entries        []Entry
	Opened         []Problem
	Closed         []Problem // complete, because the row of the opening may have been deleted
	Deliveries     []Delivery
	Places         map[model.Partition]ChangePosition
	PipelinePlaces map[model.Partition]ChangePosition // last events that pipelines have evaluated
	Escalations    []Escalation                       // to replace as a whole
	Finished       []EscalationKey                    // deleted
	Rates          []RouteRate                        // to replace as a whole
}

// RouteRate counts the messages that a route has sent in the current time span of its rate limit.
type RouteRate struct {
	Route  string    // NAMESPACE/NAME
	Shadow bool      // of shadow deliveries
	Ends   time.Time // end of the span in which Sent counts
	Sent   int       // messages in the span, including those that exceeded the rate
}

// EscalationKey identifies an escalation by problem and route.
type EscalationKey struct {
	Problem string
	Route   string // NAMESPACE/NAME; empty: handlers named without a route
}

// Escalation is the state of a problem's notifications on one route, such as notified handlers and next steps.
// It has the handlers notified so far, and the due times of the next steps.
type Escalation struct {
	EscalationKey `json:"-"`

	NodeID   model.NodeID      `json:"node"`
	Source   model.Source      `json:"source"`
	Group    string            `json:"group"`
	Lead     string            `json:"lead"`             // id of the problem that is the first incident of the message group
	Opened   time.Time         `json:"opened"`           // time from which the steps count: the opening, or when a later route took the problem
	Direct   []HandlerRef      `json:"direct,omitempty"` // handlers, where there is no route
	Next     route.Escalation  `json:"next"`
	Notified []NotifiedHandler `json:"notified,omitempty"` // handlers that were notified of the opening
	Skipped  []HandlerRef      `json:"skipped,omitempty"`  // handlers that a change with --only-new added to a step which was sent
	Hold     *route.Hold       `json:"hold,omitempty"`     // why a due step was withheld
	// Severity is the highest severity that a notification of the problem had.
	Severity model.Severity `json:"severity,omitempty"`
	Shadow   bool           `json:"shadow,omitempty"` // its messages are recorded and not sent
	Late     bool           `json:"late,omitempty"`   // history had lost the opening; the server found it at its start
	// Closing is the notification of the closing, as JSON, while it waits for other problems of its message group until
	// the time Due.
	Closing json.RawMessage `json:"closing,omitempty"`
	Due     time.Time       `json:"due,omitzero"`
	// AckEnds is the end of the acknowledgement that the handlers were notified of; zero: the acknowledgement has no end.
	AckEnds time.Time `json:"ackEnds,omitzero"`
}

// NotifiedHandler records that a handler was notified of a problem.
type NotifiedHandler struct {
	HandlerRef
	// Incident is the id under which the handler knows the problem: the id of a problem, with .1, .2, … appended
	// each time an acknowledgement ended.
	Incident string `json:"incident,omitempty"`
	// Acked is true after the handler was notified that all open problems of the incident are acknowledged, or that the
	// incident ended while it was acknowledged.
	Acked bool `json:"acked,omitempty"`
}

// EntryKind is the kind of a history entry, such as status or acknowledged.
type EntryKind string

// The kinds of entries. In an acknowledgement, Output holds the person and their note.
const (
	StatusChanged    EntryKind = "status"
	ResultsLost      EntryKind = "lost"
	LateResult       EntryKind = "late"
	Acknowledged     EntryKind = "acknowledged"
	Unacknowledged   EntryKind = "unacknowledged"
	FlappingStarted  EntryKind = "flapping"
	FlappingEnded    EntryKind = "steady"
	TextChanged      EntryKind = "text"      // the output of an open problem changed; only the first few changes
	NodeDeregistered EntryKind = "forgotten" // an ephemeral node was away for too long
)

// Entry is a history entry about one change of an event. It has the names that node and check had at that time.
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
	Since      time.Time       `json:"since,omitzero"`  // start of the status Previous; zero: no status changed, or First
	First      bool            `json:"first,omitempty"` // the event's first status: Previous is not set
	Output     string          `json:"output,omitempty"`
	Count      uint64          `json:"count,omitempty"` // results lost
	Expired    bool            `json:"expired,omitempty"`
	Partition  model.Partition `json:"-"`
	Place      ChangePosition  `json:"-"`
	ID         int64           `json:"-"` // assigned by the store, ascending
}

// Problem is one problem, with the names of node and check at its opening.
type Problem struct {
	model.Problem
	Namespace  string `json:"namespace"`
	Node       string `json:"node"`
	SourceName string `json:"sourceName"`
}

// HandlerRef identifies a handler by namespace and name.
type HandlerRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// DeliveryState is the state of a delivery, such as pending, delivered or dead (given up). The others are withheld and
// shadow (simulated).
type DeliveryState string

// The states of deliveries.
const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	Dead      DeliveryState = "dead"     // given up: a dead letter
	Withheld  DeliveryState = "withheld" // never sent; LastError has the reason
	Shadow    DeliveryState = "shadow"   // recorded only, because its namespace has notifications: shadow
)

// Delivery is one notification to one handler, with its state and attempts.
type Delivery struct {
	ID              int64    `json:"id"`
	Key             string   `json:"key"` // idempotency key: the same on every attempt
	Problem         string   `json:"problem"`
	FurtherProblems []string `json:"furtherProblems,omitempty"` // ids of further problems that the message reports; Store.AlsoProblems reads them
	// Of the problem: the node, with its names at that time; node 0: the message is of no node.
	NodeID    model.NodeID `json:"-"`
	Namespace string       `json:"-"`
	Node      string       `json:"-"`
	Handler   HandlerRef   `json:"handler"`
	Kind      string       `json:"kind"`            // the form: opened, closed, reminder, summary …
	Route     string       `json:"route,omitempty"` // NAMESPACE/NAME; empty: handlers named without a route
	// Event is the meaning of the message for reports: opened, reminder, closed or acknowledged.
	Event     string        `json:"event,omitempty"`
	Count     int           `json:"count,omitempty"` // problems in the message
	Payload   []byte        `json:"-"`
	Created   time.Time     `json:"created"`
	State     DeliveryState `json:"state"` // empty in a Batch: pending
	Attempts  int           `json:"attempts"`
	NextAt    time.Time     `json:"nextAt,omitzero"`
	LastError string        `json:"lastError,omitempty"`
	Answer    string        `json:"answer,omitempty"` // of the handler that accepted it, one line
	Ended     time.Time     `json:"ended,omitzero"`
	Replayed  time.Time     `json:"replayed,omitzero"` // when a person replayed it
}

// AttemptsStart returns when the attempts of a delivery began, at its creation or its replay.
func (d *Delivery) AttemptsStart() time.Time {
	if d.Replayed.After(d.Created) {
		return d.Replayed
	}
	return d.Created
}

// ReplayQuery selects dead letters of a handler (deliveries given up) to send again.
type ReplayQuery struct {
	IDs   []int64 // only these; none: all
	Ended bool    // also of closed problems, with their closings
	Limit int
}

// ReplayCounts counts the dead letters that were sent again or skipped. Letters are skipped because their problem is
// closed or the limit is reached.
type ReplayCounts struct{ Revived, SkippedClosed, More int }

// Unsent counts one handler's waiting deliveries and its dead letters (deliveries given up).
type Unsent struct {
	Handler   HandlerRef
	Waiting   int       // number of pending deliveries
	Failing   int       // pending deliveries with a failed attempt
	Dead      int       // recent dead letters
	Since     time.Time // creation of the oldest of them
	LastError string    // error of one of them
}

// Attempt is the result of one attempt to send a delivery.
type Attempt struct {
	At     time.Time
	State  DeliveryState // Pending: the next try is at NextAt
	NextAt time.Time
	Error  string
	Answer string // one line of the answer of a handler that accepted the message
}

// DeliveryAttempt is one attempt to send a message, with the id of its delivery.
type DeliveryAttempt struct {
	ID int64
	Attempt
}

// ProblemQuery selects problems by namespace, node, check and time. Zero fields select everything.
type ProblemQuery struct {
	Namespace  string
	Namespaces []string // bounds Namespace; nil: all
	Node       string
	NodeID     model.NodeID // of the node, whatever names it had
	Check      string
	Open       bool
	Since      time.Time // problems that opened at this time or later
	Limit      int
	Before     time.Time // next page: problems that opened before this time
	BeforeID   string    // … or at this time, with a smaller id
}

// EntryQuery selects history entries by namespace, node, check, kind and time. Zero fields select everything.
type EntryQuery struct {
	Namespace  string
	Namespaces []string // bounds Namespace; nil: all
	Node       string
	NodeID     model.NodeID // of the node, whatever names it had
	Check      string
	Kind       EntryKind
	Since      time.Time
	Limit      int
	Before     time.Time // next page: entries before this time
	BeforeID   int64     // … or at this time, with a smaller ID
}
