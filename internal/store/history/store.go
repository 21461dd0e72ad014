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

// Store keeps what happened. Implementations: SQLite and PostgreSQL. Safe for
// concurrent use.
type Store interface {
	// Record writes everything of one batch, with the places it brings the reactor
	// to, in one transaction. Written twice, it changes nothing the second time.
	Record(ctx context.Context, b Batch) error
	// Places is how far each partition was recorded.
	Places(ctx context.Context) (map[model.Partition]Place, error)
	// PipelinePlaces returns how far deliveries of pipelines are recorded, by partition.
	PipelinePlaces(ctx context.Context) (map[model.Partition]Place, error)

	// RecordAlive notes up to when history was there and had all that happened, and Attended says it; zero: it
	// was never noted. A copy of history says what was so when it was made.
	RecordAlive(ctx context.Context, until time.Time) error
	AliveUntil(ctx context.Context) (time.Time, error)

	// Problems lists by opening time, newest first.
	Problems(ctx context.Context, q ProblemQuery) ([]Problem, error)
	Problem(ctx context.Context, id string) (Problem, error)
	// KnownProblems are those of these problems that are kept, open or closed.
	KnownProblems(ctx context.Context, ids []string) (map[string]bool, error)
	// Since counts the problems of a namespace (empty: of all) that opened, and that
	// closed, at a time or later.
	Since(ctx context.Context, namespace string, t time.Time) (opened, closed int, err error)
	// Entries lists what happened, newest first.
	Entries(ctx context.Context, q EntryQuery) ([]Entry, error)

	// Escalations are those of open problems, and of closed ones whose end is still to be told.
	Escalations(ctx context.Context) ([]Escalation, error)
	// EscalationsOf are those of one problem, by route.
	EscalationsOf(ctx context.Context, problem string) ([]Escalation, error)
	// Paces are those of all routes that ever had a rate.
	Paces(ctx context.Context) ([]Pace, error)
	// Due returns pending deliveries whose time has come, oldest first, but none of
	// the handlers in except; of one problem and handler only the oldest. next is when
	// the next one comes due, zero: none waits.
	Due(ctx context.Context, now time.Time, limit int, except []HandlerRef) (due []Delivery, next time.Time, err error)
	// ClampDue makes pending deliveries due now that would wait until after latest: the
	// clock was set back since their last attempt.
	ClampDue(ctx context.Context, now, latest time.Time) error
	// MakeDue makes those of these deliveries due now that are pending.
	MakeDue(ctx context.Context, ids []int64, now time.Time) error
	// Pending counts the pending deliveries of each handler.
	Pending(ctx context.Context) (map[HandlerRef]int, error)
	// Unsent is what waits for each handler, by handler.
	Unsent(ctx context.Context) ([]Unsent, error)
	// Tried records an attempt, and TriedAll many in one transaction.
	Tried(ctx context.Context, id int64, a Attempt) error
	TriedAll(ctx context.Context, list []Outcome) error
	// Dead lists the dead letters of a handler, newest first, before an id (zero: all).
	Dead(ctx context.Context, handler HandlerRef, before int64, limit int) ([]Delivery, error)
	// Revive makes dead letters of a handler pending again, oldest first.
	Revive(ctx context.Context, handler HandlerRef, now time.Time, q Revival) (Revived, error)
	// HandlersWithOpen names the handlers that were told of the opening of a problem that is open.
	HandlersWithOpen(ctx context.Context) ([]HandlerRef, error)
	// OpenDeliveries lists the openings that such a handler was told of, by id, after one.
	OpenDeliveries(ctx context.Context, handler HandlerRef, after int64, limit int) ([]Delivery, error)
	// Deliveries lists those of a problem, oldest first.
	Deliveries(ctx context.Context, problem string) ([]Delivery, error)
	// AlsoProblems lists the problems that a delivery tells of beside its own, in their order.
	AlsoProblems(ctx context.Context, key string) ([]string, error)

	// Messages lists what was sent, or would have been, newest first; of the watchdog's none.
	Messages(ctx context.Context, q MessageQuery) ([]Message, error)
	// Marks lists what people and flapping left in a time, newest first: entries of the kinds
	// Acknowledged and FlappingStarted.
	Marks(ctx context.Context, q EntryQuery) ([]Entry, error)
	// Oldest is the time of the oldest change or problem that is still kept; zero: there is none.
	Oldest(ctx context.Context) (time.Time, error)

	// Clean removes rows that ended before the time, at most limit of each kind, and
	// says how many. What belongs to an open problem stays.
	Clean(ctx context.Context, before time.Time, limit int) (int, error)
	// Trouble says why the store did not answer when it was last asked; nil: it did.
	Trouble() error
	Close() error
}

// Place is a transition's place in the order of its partition.
type Place struct {
	At    journal.Position
	Index uint32
}

// Reached says whether a transition at (at, index) lies at or before the place.
func (p Place) Reached(at journal.Position, index uint32) bool {
	if at.Log != p.At.Log {
		return false // another life of the journal: its positions say nothing here
	}
	return at.Number < p.At.Number || at.Number == p.At.Number && index <= p.Index
}

// Of is the place in the journal's present life, in which shared finds what an earlier one had
// in common with it; nil: there was none.
func (p Place) Of(shared func(journal.Position) journal.Position) Place {
	if shared == nil {
		return p
	}
	at := shared(p.At)
	if at.Number < p.At.Number {
		p.Index = math.MaxUint32 // it went beyond: all of that commit is recorded
	}
	p.At = at
	return p
}

// Batch is what one transaction writes.
type Batch struct {
	Entries    []Entry
	Opened     []Problem
	Closed     []Problem // whole: the opening may be gone
	Deliveries []Delivery
	Places     map[model.Partition]Place
	// PipelinePlaces are the places up to which pipelines evaluated events.
	PipelinePlaces map[model.Partition]Place
	// Escalations as they are now; those of Finished are gone.
	Escalations []Escalation
	Finished    []EscalationKey
	// Paces as they are now.
	Paces []Pace
}

// Pace is how much of a route's rate is used.
type Pace struct {
	Route  string    // NAMESPACE/NAME
	Shadow bool      // of what it would have said
	Ends   time.Time // of the time for which Sent counts
	Sent   int       // messages, those counted that were one too many
}

// EscalationKey names an escalation.
type EscalationKey struct {
	Problem string
	Route   string // NAMESPACE/NAME; empty: its handlers are named without a route
}

// Escalation is how far a problem has come on one route: who was told, and what comes next.
type Escalation struct {
	EscalationKey `json:"-"`

	NodeID   model.NodeID      `json:"node"`
	Source   model.Source      `json:"source"`
	Group    string            `json:"group"`
	Lead     string            `json:"lead"` // the problem under whose id its group is told first
	Opened   time.Time         `json:"opened"`
	Direct   []HandlerRef      `json:"direct,omitempty"` // those who are told, where there is no route
	Next     route.Climb       `json:"next"`
	Notified []NotifiedHandler `json:"told,omitempty"` // they know that it is open
	Held     *route.Hold       `json:"held,omitempty"` // why what was due was not told
	// Severity is the highest that was told.
	Severity model.Severity `json:"severity,omitempty"`
	Shadow   bool           `json:"shadow,omitempty"` // nothing of it is sent
	Late     bool           `json:"late,omitempty"`   // its opening was lost, and found when the server started
	// Closing is the notification of its end, as JSON, while that waits for the rest of its
	// group until Due.
	Closing json.RawMessage `json:"closing,omitempty"`
	Due     time.Time       `json:"due,omitzero"`
	// AckEnds is when the acknowledgement ends that they were told of; zero: never, or they were told that it has.
	AckEnds time.Time `json:"ackEnds,omitzero"`
}

// NotifiedHandler is what a handler knows of a problem.
type NotifiedHandler struct {
	HandlerRef
	// Incident is the id under which it was told: a problem's, and behind that .1, .2, … where acknowledgements
	// under it ended.
	Incident string `json:"under,omitempty"`
	Acked    bool   `json:"acked,omitempty"` // it was told that somebody looks after all that is open under that id, or it ended so
}

// EntryKind says what happened.
type EntryKind string

const (
	StatusChanged EntryKind = "status"
	ResultsLost   EntryKind = "lost"
	LateResult    EntryKind = "late"
	// Output says by whom, and their note.
	Acknowledged   EntryKind = "acknowledged"
	Unacknowledged EntryKind = "unacknowledged"

	FlappingStarted EntryKind = "flapping"
	FlappingEnded   EntryKind = "steady"
	TextChanged     EntryKind = "text" // of an open problem, the first few

	NodeDeregistered EntryKind = "forgotten" // an ephemeral node was away for too long
)

// Entry is one thing that happened to an event. Names are as they were then.
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
	ID         int64           `json:"-"` // given by the store: it grows
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

// DeliveryState says how far a delivery is.
type DeliveryState string

const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	Dead      DeliveryState = "dead"     // given up: a dead letter
	Withheld  DeliveryState = "withheld" // never sent, because LastError
	Shadow    DeliveryState = "shadow"   // not sent: its namespace only shows what it would send
)

// Delivery is one message to one handler.
type Delivery struct {
	ID      int64      `json:"id"`
	Key     string     `json:"key"` // idempotency key: the same on every attempt
	Problem string     `json:"problem"`
	Also    []string   `json:"also,omitempty"` // other problems that the message tells of; written, read by Store.Also
	Handler HandlerRef `json:"handler"`
	Kind    string     `json:"kind"`            // opened | closed
	Route   string     `json:"route,omitempty"` // NAMESPACE/NAME; empty: its handlers are named without one
	// Tells is what a message of one or several problems says of them: opened, reminder,
	// closed or acknowledged; Kind is how it says so.
	Tells     string        `json:"tells,omitempty"`
	Count     int           `json:"count,omitempty"` // of the problems that it tells of
	Payload   []byte        `json:"-"`
	Created   time.Time     `json:"created"`
	State     DeliveryState `json:"state"` // empty in a Batch: pending
	Attempts  int           `json:"attempts"`
	NextAt    time.Time     `json:"nextAt,omitzero"`
	LastError string        `json:"lastError,omitempty"`
	Ended     time.Time     `json:"ended,omitzero"`
	Replayed  time.Time     `json:"replayed,omitzero"` // put back by hand
}

// Since is from when on a delivery is tried.
func (d *Delivery) Since() time.Time {
	if d.Replayed.After(d.Created) {
		return d.Replayed
	}
	return d.Created
}

// Revival says which dead letters are to be pending again.
type Revival struct {
	IDs   []int64 // only these; none: all
	Ended bool    // also of problems that have ended, with what tells of their end
	Limit int
}

// Revived is how many are, and how many were left: of problems that have ended, and beyond
// the limit.
type Revived struct{ Revived, Over, More int }

// Unsent is what waits for one handler.
type Unsent struct {
	Handler   HandlerRef
	Waiting   int       // deliveries
	Failing   int       // those of them that were tried in vain
	Since     time.Time // of the oldest
	LastError string    // of one that is failing
}

// Attempt is the outcome of one try.
type Attempt struct {
	At     time.Time
	State  DeliveryState // Pending: try again at NextAt
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
	Namespaces []string // only of these; nil: of all
	Node       string
	NodeID     model.NodeID // whatever it was called
	Check      string
	Open       bool
	Since      time.Time // opened then or later
	Limit      int
	Before     time.Time // page: opened before this
	BeforeID   string    // … or at it, with a smaller id
}

// EntryQuery selects entries of one event, node or namespace.
type EntryQuery struct {
	Namespace  string
	Namespaces []string // only of these; nil: of all
	Node       string
	NodeID     model.NodeID // whatever it was called
	Check      string
	Kind       EntryKind // empty: of any
	Since      time.Time
	Limit      int
	Before     time.Time // page: before this
	BeforeID   int64     // … or at it, with a smaller ID
}
