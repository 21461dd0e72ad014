package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/queue"
)

// Position is a place in the journal, identified by the number of the commit before the place. Only the journal
// interprets it. The zero Position is before all commits.
type Position struct {
	Log    uint64 // the incarnation's number; a restored copy starts a new one
	Number uint64 // of the commit, from 1 without holes
}

// Compare reports which of two positions of one log comes first. For positions of different logs ok is false.
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

// Section is the number of an entry's partition, or All for every partition. A commit groups its entries by section.
type Section uint16

// All is the section that every reader reads, for any partitions that it follows.
const All Section = 256

// Entry is one record to append to the journal, with its partition and a callback. The journal copies Data before
// Append returns.
type Entry struct {
	Section Section
	Data    []byte // the commit stores its length
	Waiter  Waiter // nil: none
	Token   uint64 // passed to the Waiter
	Signals int    // signals in it; counted for CommitStats
	Patient bool   // its commit may wait for Options.PatientLinger
	// Aged marks data that states its age at the Append. If the process or the disk stalls before the commit, that age is
	// wrong: the entry is refused with ErrStalled, and the source asks for it again. All entries of one Append have the same value.
	Aged bool
	// Stall is the value of Stalled before the source read the aged data. A later stall refuses the entry, however long it
	// waited for its commit: a source may have later data behind it, which may not be kept without it.
	Stall *time.Time
}

// Waiter is the callback that the journal calls after an entry was committed or rejected. It is called on the
// journal's goroutine and must not block. err is nil when the entry is durable and delivered to the views.
// After an error the entry is not kept.
type Waiter interface {
	Committed(token uint64, at Position, err error)
}

// Commit is a group of entries that the journal syncs to disk together and passes to readers. It is valid until
// Release; copy the data that must live longer.
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

// Journal is an append-only log that syncs many entries to disk together (group commit). Log implements it in segment
// files. Every implementation passes TestConformance.
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
	// Cut allows the journal to delete all commits up to and including position p.
	Cut(p Position) error
	// Incarnation identifies this life of the data; a restored copy starts a new one.
	Incarnation() Incarnation
	Stats() Stats
	Close() error
}

// Incarnation is the random id of a journal, renewed by a restore or repair. A restored backup or a repaired log gets
// a new id. Epoch orders lives: a later one (restored copy) has a higher Epoch.
type Incarnation struct {
	ID    uint64 // random
	Epoch uint64 // Unix seconds at birth, higher than any before
}

// Times has the time of day of a commit, and the server's total listening (receiving) time until then.
type Times struct {
	Received  int64         // Unix nanoseconds
	Listening time.Duration // since the creation of the journal
}

// CommitStats has the duration of one commit and the number of its entries, signals and bytes
type CommitStats struct {
	Duration time.Duration // from the start of the commit until it was durable
	Entries  int
	Signals  int
	Bytes    int // on disk
}

// Stats has counters since the opening of a log, and gauges of its present state
type Stats struct {
	Commits, Entries uint64
	RawBytes         uint64 // before compression
	WrittenBytes     uint64 // to disk
	Syncs            uint64
	SizeBytes        int64 // on disk now
	BudgetBytes      int64
	QueuedBytes      int64 // waiting to be committed
	TornCommits      uint64
	// ClockAhead is how far the journal's time is ahead of the machine's clock, because that clock was ahead before. The journal's
	// time never goes back: it runs at half speed until the clock has caught up, after twice this time.
	ClockAhead time.Duration
	Blocked    error // the reason why nothing is committed now, such as a full disk; else nil
}

// FillRatio returns how full the journal is, from 0 (empty) to 1 (at its size limit). While commits are blocked it is
// 1.
func (s *Stats) FillRatio() float64 {
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
	// ErrStalled reports an entry whose age is wrong, because the process or the disk stood still before its commit.
	ErrStalled = errors.New("the journal was paused, and the age of waiting results is unknown")
	// ErrTrimmed reports a position below the oldest commit of the log, or of another incarnation.
	ErrTrimmed = errors.New("journal position is no longer in the journal")
	// ErrAhead reports a position above the head: it is of another log.
	ErrAhead = errors.New("journal position is ahead of the journal")
)

// Consumer is a reader of the journal, for which the journal stores all unread commits. The unread commits of a
// consumer are not deleted. It has applied all commits up to At, and reads the later ones again after a
// restart.
type Consumer struct {
	Name string
	At   Position
}

// Consumers is the registry of all readers of a journal (consumers), with their positions. Commits below its
// Floor may be cut. Any goroutine may call its methods; sources are called with no lock held, and must not
// block.
type Consumers struct {
	mu      sync.Mutex
	sources []func() []Consumer
}

// Add registers a function that lists readers of the journal (consumers) with their positions. Call it before the
// first Cut: the journal does not wait for consumers that it does not know.
func (c *Consumers) Add(source func() []Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = append(c.sources, source)
}

// List returns all consumers with their positions, the lowest position first
func (c *Consumers) List() (list []Consumer) {
	c.mu.Lock()
	sources := slices.Clone(c.sources)
	c.mu.Unlock()
	for _, source := range sources {
		list = append(list, source()...)
	}
	slices.SortStableFunc(list, func(a, b Consumer) int { return cmp.Compare(a.At.Number, b.At.Number) })
	return list
}

// Slowest returns the reader of the journal (consumer) that is farthest behind. The journal may delete all commits
// below. ok is false where there is no consumer, so that nothing may be cut.
func (c *Consumers) Slowest() (lowest Consumer, ok bool) {
	list := c.List()
	if len(list) == 0 {
		return Consumer{}, false
	}
	return list[0], true
}

// ServerLinger is the Linger of a server's journal: fewer and fuller commits, for latency that the
// goal leaves room for (docs/decisions/0006-journal-linger.md).
const ServerLinger = 20 * time.Millisecond

// ServerPatientLinger is the PatientLinger of a server's journal (docs/decisions/0027-patient-values.md).
const ServerPatientLinger = 250 * time.Millisecond

// Options has the settings and dependencies of a Log. The zero value suits the server's journal.
type Options struct {
	FS    disk.FS   // default disk.OS{}
	Clock Clock     // default SystemClock()
	Rand  io.Reader // for the incarnation; default crypto/rand

	// Deliver receives every commit once it is durable, in order, before the Waiters are called. It runs
	// on the committer: while it runs nothing is committed.
	Deliver func(Commit)

	// VerifyFrom is the position of the oldest snapshot: Open verifies every byte after it. The zero
	// Position verifies the whole log.
	VerifyFrom Position

	// KnownPositions are the positions that other stores (snapshots, reactions) have applied. Open refuses a
	// log that ends before one of them, because it lost its end or is an older copy, and a log that has none of
	// them, because it belongs to other data. Repair and NewIncarnation put one empty commit in place of the lost
	// end, so that the snapshots ahead of it stay usable.
	KnownPositions []Position
	// KnownTimes are the times of the newest snapshot: a log whose end is lost continues from them.
	KnownTimes Times
	renew      bool // see NewIncarnation
	mendEnd    bool // see Repair

	Budget      int64         // bytes on disk; default 4 GiB; at the budget commits wait for a Cut
	Reserve     int64         // bytes held back, released when the disk is full; default 256 MiB, negative: none
	MaxCommit   int           // raw bytes in one commit; default 2 MiB
	QueueBytes  int64         // raw bytes waiting before Append waits; default 32 MiB
	SegmentSize int64         // bytes of one file; default 64 MiB, at most an eighth of Budget
	Tick        time.Duration // an empty commit after so much silence; default 1 s, negative: none
	Linger      time.Duration // delay of a commit for more entries, unless it is full; default none
	Retry       time.Duration // between attempts while the disk refuses; default 1 s

	// PatientLinger is the delay of a commit that has patient entries alone. An entry that is not patient takes them with it after
	// Linger. Default Linger.
	PatientLinger time.Duration

	// Partitions and Stores are written to FORMAT: the format versions of the other stores in the data
	// folder. Open refuses a folder that a newer version wrote.
	Partitions int // default 256
	Stores     map[string]int

	// RepairCommand is the command that goes on without damaged commits; errors show it.
	RepairCommand string

	// ObserveCommit receives the measurements of each commit, before Deliver. It runs on the committer
	// and must not block; may be nil. (Counters and gauges are in Stats.)
	ObserveCommit func(CommitStats)
	Queues        *queue.Registry // lists the queue of entries; may be nil
	Name          string          // of that queue; default "journal"
	Logger        *slog.Logger    // default: discard
}

// Clock provides the journal with the time of day (wall) and with monotonic time.
type Clock interface {
	// Wall returns Unix nanoseconds; it may jump.
	Wall() int64
	// Mono never jumps; only differences have a meaning.
	Mono() time.Duration
}

// SystemClock returns the machine's clock. In a testing/synctest bubble it returns the clock of the bubble.
func SystemClock() Clock { return systemClock{start: time.Now()} }

// systemClock is the machine's clock.
type systemClock struct{ start time.Time }

// Wall returns the wall clock in nanoseconds since 1970.
func (systemClock) Wall() int64 { return time.Now().UnixNano() }

// Mono returns the time since the clock was made.
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

// Defaults of Options.
const (
	DefaultBudget      = 4 << 30
	DefaultReserve     = 256 << 20
	DefaultMaxCommit   = 2 << 20  // a slow fsync carries more
	DefaultQueueBytes  = 32 << 20 // a disk may stall for a second without back-pressure
	DefaultSegmentSize = 64 << 20
)

// MaxAppend is the largest Append in raw bytes.
const MaxAppend = 8 << 20

// withDefaults returns the options with defaults filled in, and limits made consistent.
func (o Options) withDefaults(dir string) Options {
	or := func(value *int64, preset int64) { *value = max(0, cmp.Or(*value, preset)) }
	o.FS, o.Clock, o.Rand = cmp.Or[disk.FS](o.FS, disk.OS{}), cmp.Or(o.Clock, SystemClock()), cmp.Or(o.Rand, rand.Reader)
	or(&o.Budget, DefaultBudget)
	or(&o.Reserve, DefaultReserve)
	or(&o.QueueBytes, DefaultQueueBytes)
	or(&o.SegmentSize, DefaultSegmentSize)
	or((*int64)(&o.Tick), int64(time.Second))
	or((*int64)(&o.Retry), int64(time.Second))
	if o.MaxCommit <= 0 {
		o.MaxCommit = DefaultMaxCommit
	}
	o.Partitions = cmp.Or(o.Partitions, 256)
	o.SegmentSize = min(o.SegmentSize, o.Budget/8)
	o.RepairCommand = cmp.Or(o.RepairCommand, "muster doctor repair --data "+filepath.Dir(dir))
	o.Name, o.Logger = cmp.Or(o.Name, "journal"), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}
