package journal

import (
	"context"
	"errors"
	"time"
)

// Position is a place in one log: everything up to and including commit Number.
// It is opaque to everybody but the journal; the zero Position is before all.
// (With several servers it becomes one of these per log.)
type Position struct {
	Log    uint64 // the incarnation's number; a restored copy starts a new one
	Number uint64 // of the commit, from 1 without holes
}

// Compare orders two positions of one log; ok is false for different logs.
func (p Position) Compare(q Position) (order int, ok bool) {
	if p.Number == 0 || q.Number == 0 || p.Log == q.Log {
		switch {
		case p.Number < q.Number:
			return -1, true
		case p.Number > q.Number:
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// Section is where in a commit an entry stands: a partition's number, or All.
type Section uint16

// All is the section that every reader sees, whatever partitions it follows.
const All Section = 256

// Entry is something to be kept. The journal copies Data before Append returns.
type Entry struct {
	Section Section
	Data    []byte // self-delimiting is not needed: a commit keeps entries apart
	Waiter  Waiter // nil: nobody waits
	Token   uint64 // handed back to the Waiter
	Signals int    // how many it carries; only counted, for CommitStats
}

// Waiter hears what became of its entry, on the journal's goroutine: it must not
// block. err is nil once the entry is on disk and delivered to the views; after an
// error the entry is not kept and will not be.
type Waiter interface {
	Committed(token uint64, at Position, err error)
}

// Commit is one durable group of entries. It is valid until Release: copy what
// you keep.
type Commit interface {
	Position() Position
	// Received is the journal's clock in Unix nanoseconds; it never goes back.
	Received() int64
	// Listening is nanoseconds during which this journal was able to accept
	// entries, since its beginning. It stands still while the process is down,
	// stopped or stalled.
	Listening() time.Duration
	// Entries calls fn for each entry of the section, in the order appended.
	// A section that is not there costs a look at a table.
	Entries(s Section, fn func(data []byte) error) error
	// Sections lists those present, ascending.
	Sections() []Section
	// Retain and Release count users; the last Release gives the buffers back.
	Retain()
	Release()
}

// Journal is what keeps signals. Implementations: Log (one server, segment files);
// a replicated one later. All pass the suite in journaltest.
type Journal interface {
	// Append queues entries to be committed together, in order. It waits while the
	// queue is full (ctx ends the wait) and returns ErrClosed after Close. An error
	// means none of the entries was queued.
	Append(ctx context.Context, entries ...Entry) error
	// Read calls fn for each commit after from, oldest first, up to the head at the
	// time of the call. It returns ErrTrimmed where from is below the cut.
	Read(ctx context.Context, from Position, fn func(Commit) error) error
	// Head is the last durable commit, Tail the oldest still held.
	Head() Position
	Tail() Position
	// Cut allows everything up to and including p to be deleted.
	Cut(p Position) error
	// Incarnation names this life of the data; a restored copy starts a new one.
	Incarnation() Incarnation
	Stats() Stats
	Close() error
}

// Incarnation names one life of a data folder. Epoch orders lives: a later one
// (restored copy) has a higher Epoch.
type Incarnation struct {
	ID    uint64 // random
	Epoch uint64 // Unix seconds at birth, higher than any before
}

// CommitStats is what one commit cost.
type CommitStats struct {
	Took    time.Duration // from taking the entries to their being on disk
	Entries int
	Signals int
	Bytes   int // on disk
}

// Stats are counters since opening and gauges now.
type Stats struct {
	Commits, Entries uint64
	RawBytes         uint64 // before compression
	WrittenBytes     uint64 // to disk
	Syncs            uint64
	SizeBytes        int64 // on disk now
	BudgetBytes      int64
	QueuedBytes      int64 // waiting to be committed
	TornCommits      uint64
	Blocked          error // why nothing is being committed now (disk full), else nil
}

// Pressure is how full the journal is, from 0 to 1: what it uses of its budget, and 1
// while it commits nothing.
func (s *Stats) Pressure() float64 {
	switch {
	case s.Blocked != nil:
		return 1
	case s.BudgetBytes <= 0:
		return 0
	}
	return min(1, float64(s.SizeBytes)/float64(s.BudgetBytes))
}

var (
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal is closed")
	// ErrTrimmed: the position is below what is still held, or of another incarnation.
	ErrTrimmed = errors.New("journal position is gone")
	// ErrAhead: the position is above the head: what it came from is not of this log.
	ErrAhead = errors.New("journal position is ahead of the journal")
)
