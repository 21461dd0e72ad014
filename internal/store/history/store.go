package history

import (
	"context"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
)

// Store is the history of a server, on SQLite or PostgreSQL. It is safe for concurrent use.
type Store interface {
	// Record writes a batch, with the places up to which it reaches, in one transaction. Recording it again
	// changes nothing.
	Record(ctx context.Context, b Batch) error
	// Places returns how far transitions are recorded, by partition.
	Places(ctx context.Context) (map[model.Partition]Place, error)
	// PipelinePlaces returns how far deliveries of pipelines are recorded, by partition.
	PipelinePlaces(ctx context.Context) (map[model.Partition]Place, error)

	// RecordAlive records the time up to which history is complete. A copy of the database keeps the time at
	// which it was made.
	RecordAlive(ctx context.Context, until time.Time) error
	// AliveUntil returns the time of the last RecordAlive; zero: there was none.
	AliveUntil(ctx context.Context) (time.Time, error)

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
	Marks(ctx context.Context, q EntryQuery) ([]Entry, error)
	// Oldest returns the time of the oldest entry or problem; zero: there is none.
	Oldest(ctx context.Context) (time.Time, error)

	// Escalations lists the escalations of open problems, and of closed ones whose closing is not yet sent.
	Escalations(ctx context.Context) ([]Escalation, error)
	// EscalationsOf lists the escalations of one problem, by route.
	EscalationsOf(ctx context.Context, problem string) ([]Escalation, error)
	// Rates lists the rates of all routes that ever had one.
	Rates(ctx context.Context) ([]Rate, error)

	// Due returns pending deliveries whose time has come, oldest first: of one problem and handler only the
	// oldest, and none of the handlers in except. next is when the next one comes due; zero: none waits.
	Due(ctx context.Context, now time.Time, limit int, except []HandlerRef) (due []Delivery, next time.Time, err error)
	// ClampDue makes pending deliveries due now that would wait beyond latest, because the clock was set back
	// since their last attempt.
	ClampDue(ctx context.Context, now, latest time.Time) error
	// MakeDue makes pending deliveries due now, by id.
	MakeDue(ctx context.Context, ids []int64, now time.Time) error
	// Pending counts the pending deliveries of each handler.
	Pending(ctx context.Context) (map[HandlerRef]int, error)
	// Unsent sums up the pending deliveries of each handler, by handler.
	Unsent(ctx context.Context) ([]Unsent, error)
	// RecordAttempts records attempts in one transaction.
	RecordAttempts(ctx context.Context, list ...Outcome) error
	// DeadLetters lists the dead letters of a handler, newest first, before an id (zero: all).
	DeadLetters(ctx context.Context, handler HandlerRef, before int64, limit int) ([]Delivery, error)
	// Revive makes dead letters of a handler pending again, oldest first.
	Revive(ctx context.Context, handler HandlerRef, now time.Time, q Revival) (Revived, error)
	// HandlersWithOpen lists the handlers that got the opening of a problem that is open.
	HandlersWithOpen(ctx context.Context) ([]HandlerRef, error)
	// OpenDeliveries lists the openings of open problems that a handler got, by id, after one.
	OpenDeliveries(ctx context.Context, handler HandlerRef, after int64, limit int) ([]Delivery, error)
	// Deliveries lists the deliveries of a problem, oldest first.
	Deliveries(ctx context.Context, problem string) ([]Delivery, error)
	// AlsoProblems lists the further problems of a delivery, by id.
	AlsoProblems(ctx context.Context, key string) ([]string, error)
	// Messages lists deliveries that ended, newest first.
	Messages(ctx context.Context, q MessageQuery) ([]Message, error)

	// Clean removes rows that ended before a time, at most limit of each kind, and returns how many. The
	// rows of open problems stay.
	Clean(ctx context.Context, before time.Time, limit int) (int, error)
	// Trouble returns why the database did not answer the last request; nil: it did.
	Trouble() error
	// Close closes the database.
	Close() error
}

// Place is a transition's place in the order of its partition.
type Place struct {
	At    journal.Position
	Index uint32
}

// Reached reports whether a transition at (at, index) lies at or before the place.
func (p Place) Reached(at journal.Position, index uint32) bool {
	if at.Log != p.At.Log {
		return false // positions of another incarnation of the journal do not compare
	}
	return at.Number < p.At.Number || at.Number == p.At.Number && index <= p.Index
}

// Of returns the place in the journal's present incarnation. shared maps a position of an earlier one to the
// last position that both have; nil: there was none.
func (p Place) Of(shared func(journal.Position) journal.Position) Place {
	if shared == nil {
		return p
	}
	at := shared(p.At)
	if at.Number < p.At.Number {
		p.Index = math.MaxUint32 // it reached beyond, so all of that commit is recorded
	}
	p.At = at
	return p
}

// Batch is the content of one transaction.
type Batch struct {
	Entries        []Entry
	Opened         []Problem
	Closed         []Problem // with all columns: the opening's row may be gone
	Deliveries     []Delivery
	Places         map[model.Partition]Place
	PipelinePlaces map[model.Partition]Place // pipelines evaluated events up to there
	Escalations    []Escalation              // replaced whole
	Finished       []EscalationKey           // deleted
	Rates          []Rate                    // replaced whole
}
