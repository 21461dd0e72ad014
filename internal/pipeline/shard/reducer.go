package shard

import (
	"time"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Reducer computes one state (view) from the journal's entries, divided into partitions of nodes. Its state is
// divided like the shard's: whatever belongs to partition p is guarded by p's mutex, and only the worker that
// owns p changes it.
//
// Add calls Section, Claims and Reset, once the reducer is complete; NewApplier follows,
// once per worker. The shard calls all other methods with p's mutex held.
type Reducer interface {
	// Section names the reducer's section in snapshots, and the version that Encode writes.
	Section() Section
	// Claims lists the signals and records that the reducer applies. A kind of signal has one reducer.
	Claims() Claims
	// Reset makes the reducer's state of p empty and hands it p's deadlines, whose ids the
	// reducer chooses (small dense numbers). Add calls it for each partition; Restore calls
	// it once more when a snapshot turns out malformed, after RemoveNode of every node.
	Reset(p *Partition, deadlines *expect.Engine)

	// AddNode announces a new node. Indexes of removed nodes are used again, so that a
	// reducer may keep a slice by index beside the shard's.
	AddNode(p *Partition, n uint32)
	// RemoveNode takes away everything that the reducer has of a node. Nothing may be
	// emitted: Forget has been called before.
	RemoveNode(p *Partition, n uint32)
	// MoveNode announces that the node's namespace changed from another one.
	MoveNode(p *Partition, n uint32, from model.NamespaceID)

	// Encode appends the reducer's state of p in a canonical order: equal states give equal
	// bytes. It must not keep dst.
	Encode(p *Partition, dst []byte) []byte
	// Decode fills p's empty state. The shard's section is decoded already, so that the
	// nodes exist. d is at the section's end when Decode returns, or has an error.
	Decode(p *Partition, d *Decoder)

	// NewApplier returns the reducer's half of a worker: scratch memory that only one
	// goroutine uses. The shard calls it without a lock.
	NewApplier(w *Worker) Applier
}

// Flusher is a Reducer that keeps a part of its state in files.
type Flusher interface {
	// Flush writes the files of a partition before its snapshot. The shard calls Flush without the partition's mutex, so
	// that commits do not wait for the disk. Encode adds the changes since.
	Flush(id model.Partition)
}

// Section is the name and version of the part of a snapshot that belongs to one reducer
type Section struct {
	Name    string
	Version uint8 // of its bytes, from 1
}

// Claims lists the kinds of signals and journal records that a reducer wants to receive.
type Claims struct {
	Signals []wire.SignalKind
	Records []wire.RecordKind
	Copies  []wire.SignalKind // signals of another reducer, which this one gets, too, after the other has applied them
}

// Applier applies journal entries of some partitions (shares of the nodes) to a reducer's state, on one
// goroutine. The worker calls every method but EndCommit with the mutex of the partition that EnterPartition
// named. All byte slices and pointers in arguments belong to the worker and are valid until the method returns.
//
// The order within a commit: for each partition that the commit touches EnterPartition, then its
// records in journal order (Signal, Record, Gap, Forget, Life, Period as they cause them),
// then Expire; after the last partition EndCommit.
type Applier interface {
	// EnterPartition names the partition of the calls that follow.
	EnterPartition(p *Partition)
	// ApplySignal applies a signal of a kind that the reducer claims, of an existing node; a
	// duplicate never gets here. It returns the signal's one outcome.
	ApplySignal(n uint32, s *wire.Signal, from *SignalOrigin) Outcome
	// ApplyRecord applies a record of a kind that the reducer claims.
	ApplyRecord(r *wire.Record)
	// ApplyLoss applies a loss in the node's spool; each reducer picks out its definitions.
	ApplyLoss(n uint32, g *wire.Gap)
	// RemoveStates removes the states that a mark names. n is NoNode where the mark
	// names no node of the partition. The tombstone is not set yet, so that
	// Partition.Deleted says whether the mark is a repetition.
	RemoveStates(id model.NodeID, n uint32, m *wire.ForgetRecord)
	// ApplyLivenessChange applies a change in the life of a node.
	ApplyLivenessChange(n uint32, change LivenessChange)
	// DeadlinePeriod is the whole time of a deadline, zero where the id has none: after a start the
	// grace never extends a deadline beyond its whole time and the grace.
	DeadlinePeriod(id uint32) int64
	// Expire acts on the ids whose deadlines passed; they are cleared. Their order depends
	// on the past, so the reducer sorts them by something that a replay repeats. See
	// Worker.Postpone for reasons to wait.
	Expire(ids []uint32)
	// EndCommit hands on the effects of the commit. No mutex is held, so it may block: that is
	// back-pressure on the journal. Applied moves past the commit after it.
	EndCommit()
}

// SignalOrigin has the stream, sequence number and sender of a received signal, such as a check result. It has
// the stream, sequence number and sender.
type SignalOrigin struct {
	Stream wire.StreamKey
	Number uint64
	NowMs  uint64       // the sender's boot clock when it sent the batch
	By     model.NodeID // the sender, where the signal is about a proxy node; zero: the node itself
}

// Age returns how many nanoseconds passed from an event until the agent sent the event's signal. Both times are
// on the sender's boot clock. It bounds impossible values: zero for an event in the future, and at most a year.
func (a *SignalOrigin) Age(atMs uint64) int64 {
	const year = uint64(366 * 24 * time.Hour / time.Millisecond)
	return int64(min(max(a.NowMs, atMs)-atMs, year)) * int64(time.Millisecond)
}

// LivenessChange is a change of a node's connection or keepalive. Examples are a new session and a missed keepalive.
type LivenessChange uint8

const (
	// SessionBegan means that everything an older session sent lies before this.
	SessionBegan LivenessChange = iota
	// SessionEnded means that the node's current session sends nothing more.
	SessionEnded
	// Heartbeat reports a heartbeat of a node with a deadline that waits for one (see
	// Worker.Postpone). Those deadlines fall due at the end of this commit.
	Heartbeat
	// BacklogDone means that the backlog is in. Deadlines at Node.BacklogUntil fall due at the end of
	// this commit.
	BacklogDone
	// KeepaliveBegan reports the first heartbeat of a node that has a keepalive.
	KeepaliveBegan
	// KeepaliveResumed reports a heartbeat after KeepaliveLate, KeepaliveMissed or Stopped. No
	// signal could come meanwhile: deadlines count from now.
	KeepaliveResumed
	// KeepaliveLate means that the node was silent for its warning time.
	KeepaliveLate
	// KeepaliveMissed means that the node was silent for its time-out. Its deadlines wait (Postpone).
	KeepaliveMissed
	// Stopped is a planned end. Deadlines wait until KeepaliveResumed.
	Stopped
	// KeepaliveRepeated is a further keepalive of a node with EveryKeepalive. Such a node also reports
	// KeepaliveLate and KeepaliveMissed again while it is silent.
	KeepaliveRepeated
	// Registered means that the session that began is the first one of a node that was created for it.
	Registered
)

// NoNode is the node index that means no node.
const NoNode = ^uint32(0)
