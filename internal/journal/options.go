package journal

import (
	"crypto/rand"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/queue"
)

// ServerLinger is the Linger of a server's journal: fewer and fuller commits, for latency that the
// goal leaves room for (docs/decisions/0006-journal-linger.md).
const ServerLinger = 20 * time.Millisecond

// Options configures a Log. The zero value suits the server's journal.
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

	// KnownPositions are the positions that other stores (snapshots, reactions) have applied. A log that
	// ends before one of them has lost its end, or is an older copy. It starts a new incarnation, so
	// that its next numbers are not confused with the known ones. A folder without a log is refused.
	KnownPositions []Position
	renew          bool // see NewIncarnation

	Budget      int64         // bytes on disk; default 4 GiB; at the budget commits wait for a Cut
	Reserve     int64         // bytes held back, released when the disk is full; default 256 MiB, negative: none
	MaxCommit   int           // raw bytes in one commit; default 2 MiB
	QueueBytes  int64         // raw bytes waiting before Append waits; default 32 MiB
	SegmentSize int64         // bytes of one file; default 64 MiB, at most an eighth of Budget
	Tick        time.Duration // an empty commit after so much silence; default 1 s, negative: none
	Linger      time.Duration // delay of a commit for more entries, unless it is full; default none
	Retry       time.Duration // between attempts while the disk refuses; default 1 s

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

// Clock is the source of the journal's time.
type Clock interface {
	// Wall returns Unix nanoseconds; it may jump.
	Wall() int64
	// Mono never jumps; only differences have a meaning.
	Mono() time.Duration
}

// SystemClock returns the machine's clock, or in a testing/synctest bubble the bubble's.
func SystemClock() Clock { return systemClock{start: time.Now()} }

type systemClock struct{ start time.Time }

func (systemClock) Wall() int64           { return time.Now().UnixNano() }
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

func (o Options) withDefaults(dir string) Options {
	or := func(value *int64, preset int64) {
		switch {
		case *value == 0:
			*value = preset
		case *value < 0:
			*value = 0
		}
	}
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Clock == nil {
		o.Clock = SystemClock()
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	or(&o.Budget, DefaultBudget)
	or(&o.Reserve, DefaultReserve)
	or(&o.QueueBytes, DefaultQueueBytes)
	or(&o.SegmentSize, DefaultSegmentSize)
	or((*int64)(&o.Tick), int64(time.Second))
	or((*int64)(&o.Retry), int64(time.Second))
	if o.MaxCommit <= 0 {
		o.MaxCommit = DefaultMaxCommit
	}
	if o.Partitions == 0 {
		o.Partitions = 256
	}
	o.SegmentSize = min(o.SegmentSize, o.Budget/8)
	if o.RepairCommand == "" {
		o.RepairCommand = "muster doctor repair --data " + filepath.Dir(dir)
	}
	if o.Name == "" {
		o.Name = "journal"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
