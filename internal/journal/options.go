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

// Options of a Log. The zero value is the server's journal.
type Options struct {
	FS    disk.FS   // default disk.OS{}
	Clock Clock     // default SystemClock()
	Rand  io.Reader // for the incarnation; default crypto/rand

	// Deliver sees every commit once it is durable, in order, before the Waiters
	// hear of it. It runs on the committer: while it runs nothing is committed.
	Deliver func(Commit)

	// VerifyFrom is the position of the oldest snapshot: from there on every byte
	// is checked when opening. The zero Position checks the whole log.
	VerifyFrom Position

	// KnownPositions is how far others (snapshots, reactions) know this log: what they kept
	// cannot be ahead of it. A log that ends before has lost its end, or is an older
	// copy; it begins a new incarnation, so that the numbers it gives again are not
	// taken for those that others know. A folder without any log is refused.
	KnownPositions []Position
	renew          bool // see NewIncarnation

	Budget      int64         // bytes on disk; default 4 GiB; at the budget commits wait for a Cut
	Reserve     int64         // bytes held back, let go when the disk is full; default 256 MiB, negative: none
	MaxCommit   int           // raw bytes in one commit; default 2 MiB
	QueueBytes  int64         // raw bytes waiting before Append waits; default 32 MiB
	SegmentSize int64         // bytes of one file; default 64 MiB, at most an eighth of Budget
	Tick        time.Duration // an empty commit after so much silence; default 1 s, negative: none
	Linger      time.Duration // wait so long for more entries before a commit, unless one is full; default none
	Retry       time.Duration // between attempts while the disk refuses; default 1 s

	// Partitions and Stores go into the FORMAT file: what else lives in the data
	// folder, and its version. Open refuses a folder that a newer version wrote.
	Partitions int // default 256
	Stores     map[string]int

	// RepairCommand is what a person types to go on without damaged commits.
	RepairCommand string

	// ObserveCommit hears what each commit cost, before Deliver. It runs on the committer
	// and must not block. nil: nobody. (Counters and gauges are in Stats.)
	ObserveCommit func(CommitStats)
	Queues        *queue.Registry // where the queue of waiting entries is listed; nil: nowhere
	Name          string          // of that queue; default "journal"
	Logger        *slog.Logger    // default: discard
}

// Clock is where the journal's time comes from.
type Clock interface {
	// Wall is Unix nanoseconds; it may jump.
	Wall() int64
	// Mono never jumps; only differences mean something.
	Mono() time.Duration
}

// SystemClock is the machine's clock. (In a testing/synctest bubble, the bubble's.)
func SystemClock() Clock { return systemClock{start: time.Now()} }

type systemClock struct{ start time.Time }

func (systemClock) Wall() int64           { return time.Now().UnixNano() }
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

// Defaults of Options.
const (
	DefaultBudget      = 4 << 30
	DefaultReserve     = 256 << 20
	DefaultMaxCommit   = 2 << 20  // an fsync that takes long carries more
	DefaultQueueBytes  = 32 << 20 // a disk that stands still for a second troubles nobody
	DefaultSegmentSize = 64 << 20
)

// MaxAppend is the most raw bytes that one Append may carry.
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
