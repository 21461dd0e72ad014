package journal

import (
	"context"
	"errors"
	"time"
)

// Position is a place in one log: all commits up to and including Number. Only the journal interprets
// it. The zero Position is before all commits.
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

// Section is the part of a commit that an entry belongs to: a partition's number, or All.
type Section uint16

// All is the section that every reader reads, whatever partitions it follows.
const All Section = 256

// Entry is one record to commit. The journal copies Data before Append returns.
type Entry struct {
	Section Section
	Data    []byte // the commit stores its length
	Waiter  Waiter // nil: none
	Token   uint64 // passed to the Waiter
	Signals int    // signals in it; counted for CommitStats
}

// Waiter is called with the outcome of its entry, on the journal's goroutine: it must not block. err
// is nil when the entry is durable and delivered to the views. After an error the entry is not kept.
type Waiter interface {
	Committed(token uint64, at Position, err error)
}

// Commit is one durable group of entries. It is valid until Release; copy the data that must live
// longer.
type Commit interface {
	Position() Position
	// Received is the journal's clock in Unix nanoseconds; it never goes back.
	Received() int64
	// Listening is the time in which this journal was able to accept entries, since its creation. It
	// stands still while the process is down, stopped or stalled.
	Listening() time.Duration
	// Entries calls fn for each entry of the section, in the order appended.
	// A section without entries costs a table look-up.
	Entries(s Section, fn func(data []byte) error) error
	// Sections returns the sections with entries, ascending.
	Sections() []Section
	// Retain and Release count users; the last Release frees the buffers for reuse.
	Retain()
	Release()
}

// Journal is an append-only log with group commit. Log implements it in segment files. Every
// implementation passes the suite in journaltest.
type Journal interface {
	// Append queues entries to be committed together, in order. It waits while the queue is full, until
	// ctx ends, and returns ErrClosed after Close. After an error none of the entries is queued.
	Append(ctx context.Context, entries ...Entry) error
	// Read calls fn for each commit after from, oldest first, up to the head at the
	// time of the call. It returns ErrTrimmed where from is below the cut.
	Read(ctx context.Context, from Position, fn func(Commit) error) error
	// Head returns the last durable commit, Tail the oldest one in the log.
	Head() Position
	Tail() Position
	// Cut allows everything up to and including p to be deleted.
	Cut(p Position) error
	// Incarnation identifies this life of the data; a restored copy starts a new one.
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

// CommitStats measures one commit.
type CommitStats struct {
	Took    time.Duration // from the start of the commit until it was durable
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
	Blocked          error // the reason why nothing is committed now, such as a full disk; else nil
}

// Pressure returns the used share of the journal's budget, from 0 to 1, and 1 while it commits nothing.
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
	// ErrClosed reports that the journal was closed.
	ErrClosed = errors.New("journal is closed")
	// ErrTrimmed reports a position below the oldest commit of the log, or of another incarnation.
	ErrTrimmed = errors.New("journal position is no longer in the journal")
	// ErrAhead reports a position above the head, which is of another log.
	ErrAhead = errors.New("journal position is ahead of the journal")
)
