package dispatch

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
)

// transitionQueue is a bounded queue of event changes (transitions), which a consumer writes to the database.
// It stands between the workers that keep event states and a consumer such as history; its limit is in bytes. A
// full backlog drops new transitions and remembers the position of the first dropped one; it lags (see lag),
// and the consumer derives the dropped transitions from the journal again later. With the queue policy block a
// full backlog lets the view wait instead, while a consumer runs.
type transitionQueue struct {
	mu           sync.Mutex
	items        []event.Transition // waiting transitions: a ring that grows up to the capacity and never shrinks
	head, n      int                // index of the oldest transition, and their number
	spare        []event.Transition // the slice of the last takeBatch, for reuse
	capacity     int64              // bytes
	bytes        int64              // size of the transitions that wait or are being recorded
	block        bool
	room         sync.Cond // signalled when bytes fell, or running became false
	running      bool      // a consumer takes transitions
	passed       uint64
	overflow     uint64        // number of transitions that were dropped, or that waited for room
	wakeAt       int           // number of waiting transitions at which wake is signalled
	opened       int           // number of waiting transitions of the kind ProblemOpened
	wakeOnOpened bool          // a single ProblemOpened signals wake
	wake         chan struct{} // capacity 1

	before     [model.Partitions]history.ChangePosition // last place of each partition in the store at the start
	unrecorded [model.Partitions]unrecordedCount
	lag        overflowState
	observed   bool          // true: the backlog takes Observed transitions only; false: all others
	moved      chan struct{} // closed and replaced each time that transitions were recorded
}

// unrecordedCount counts the event changes of one partition (share of the nodes) that history does not have
// yet.
type unrecordedCount struct {
	count int // transitions that wait, or were taken and are not recorded yet
	// first is the position of the oldest waiting transition, or of the last recorded one.
	first journal.Position
	since int64 // receive time of the transition at first, Unix ns
}

// newTransitionQueue returns an empty queue of event changes (transitions). The queue "reactions" feeds history, and the queue
// "pipelines" feeds Sensu's pipelines.
func newTransitionQueue(name string, capacity int64, queues *queue.Registry) *transitionQueue {
	preset, policy := queues.Bounds(name)
	b := &transitionQueue{
		observed: name == "pipelines",
		capacity: cmp.Or(capacity, preset), block: policy == queue.Block,
		wake: make(chan struct{}, 1), moved: make(chan struct{}),
	}
	b.room.L = &b.mu
	queues.Register(name, func() queue.Info {
		b.mu.Lock()
		defer b.mu.Unlock()
		return queue.Info{
			Name: name, Capacity: b.capacity, Depth: b.bytes, Unit: "bytes",
			Policy: policy, Passed: b.passed, Overflow: b.overflow,
		}
	})
	return b
}

// transitionBytes is the size of a transition in memory, without its texts.
const transitionBytes = 256

// transitionSize returns the size of an event change (transition) in memory, in bytes.
func transitionSize(t *event.Transition) int64 {
	n := transitionBytes + len(t.Output)
	if t.Problem != nil {
		n += transitionBytes + len(t.Problem.Output)
	}
	if t.Observation != nil {
		n += 2*transitionBytes + len(t.Observation.Output) + len(t.Observation.Extra)
	}
	return int64(n)
}

// setConsumerRunning records whether a consumer empties the queue, because otherwise no writer may wait for
// space. Without a consumer, add never waits for a full queue.
func (b *transitionQueue) setConsumerRunning(running bool) {
	b.mu.Lock()
	b.running = running
	b.mu.Unlock()
	b.room.Broadcast()
}

// depth returns the number of event changes (transitions) that are not recorded yet.
func (b *transitionQueue) depth() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.unrecorded {
		n += b.unrecorded[i].count
	}
	return n
}

// fullness returns the used share of the queue's capacity, from 0 to 1. It is zero for a queue that drops
// transitions instead of making add wait.
func (b *transitionQueue) fullness() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.block {
		return 0
	}
	return float64(b.bytes) / float64(b.capacity)
}

// add copies event changes (transitions) into the queue, and drops or waits when the queue is full. The
// goroutines that apply results to events call it. After a restart it skips transitions that the store already
// has, and returns the number of skipped ones.
func (b *transitionQueue) add(ts []event.Transition) (repeated int) {
	b.mu.Lock()
	for i := range ts {
		t := &ts[i]
		if !b.accepts(t.Kind) {
			continue
		}
		if b.before[t.Partition].Includes(t.At, t.Index) {
			repeated++
			continue
		}
		w, size := &b.unrecorded[t.Partition], transitionSize(t)
		if b.block && !b.lag.on {
			b.waitForSpace(size)
		}
		if b.lag.on && !b.lag.collects || !b.hasSpaceFor(size) {
			b.recordDrop(t)
			continue
		}
		if w.count == 0 {
			w.first, w.since = t.At, t.Received
		}
		w.count++
		b.passed++
		b.bytes += size
		b.push(t)
	}
	enough := b.n >= b.wakeAt || 2*b.bytes > b.capacity || b.wakeOnOpened && b.opened > 0
	b.mu.Unlock()
	if enough {
		pause.Wake(b.wake)
	}
	return repeated
}

// accepts reports whether the queue is meant for event changes of a given kind. The queue for pipelines has a
// copy of every event, and the queue for history has all other kinds.
func (b *transitionQueue) accepts(kind event.TransitionKind) bool {
	return (kind == event.Observed) == b.observed
}

// hasSpaceFor reports whether the queue has space for an event change of a given size in bytes. An empty
// backlog takes even a transition that is larger than the capacity.
func (b *transitionQueue) hasSpaceFor(size int64) bool {
	return b.bytes == 0 || b.bytes+size <= b.capacity
}

// waitForSpace waits until the queue has space for an event change, or the consumer stops.
func (b *transitionQueue) waitForSpace(size int64) {
	for waited := false; b.running && !b.hasSpaceFor(size); waited = true {
		if !waited {
			b.overflow++
			pause.Wake(b.wake)
		}
		b.room.Wait()
	}
}

// push appends an event change to the ring buffer, and doubles a full buffer.
func (b *transitionQueue) push(t *event.Transition) {
	if b.n == len(b.items) {
		larger := make([]event.Transition, max(2*b.n, 1024))
		n := copy(larger, b.items[b.head:])
		copy(larger[n:], b.items[:b.head])
		b.items, b.head = larger, 0
	}
	b.items[(b.head+b.n)%len(b.items)] = *t
	b.n++
	if t.Kind == event.ProblemOpened {
		b.opened++
	}
}

// waitForBatch waits until the queue has enough event changes for a batch. Enough are n changes, half the queue's capacity, a
// dropped change or, with parameter opened, an opened problem.
func (b *transitionQueue) waitForBatch(ctx context.Context, n int, opened bool) error {
	for {
		b.mu.Lock()
		b.wakeAt, b.wakeOnOpened = n, opened
		enough := b.n >= n || 2*b.bytes > b.capacity && b.n > 0 || b.lag.on || opened && b.opened > 0
		b.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takeBatch removes and returns the oldest event changes from the queue, at most one batch. They use capacity until
// release.
func (b *transitionQueue) takeBatch(most int) []event.Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.spare[:0]
	for bytes := int64(0); len(out) < most && b.n > 0; {
		if bytes += transitionSize(&b.items[b.head]); bytes > batchBytes && len(out) > 0 {
			break
		}
		if out = append(out, b.items[b.head]); b.items[b.head].Kind == event.ProblemOpened {
			b.opened--
		}
		b.items[b.head] = event.Transition{} // the ring keeps no reference to the transition
		b.head = (b.head + 1) % len(b.items)
		b.n--
	}
	b.spare = out
	return out
}

// release frees the queue space of event changes that were written to the database.
func (b *transitionQueue) release(ts []event.Transition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range ts {
		w := &b.unrecorded[ts[i].Partition]
		w.count--
		w.first, w.since = ts[i].At, ts[i].Received
		b.bytes -= transitionSize(&ts[i])
	}
	clear(ts) // the slice keeps no references
	b.room.Broadcast()
	b.wakeRecordedWaiters()
}

// wakeRecordedWaiters wakes all callers that wait until event changes are written to the database. The caller
// holds mu.
func (b *transitionQueue) wakeRecordedWaiters() {
	close(b.moved)
	b.moved = make(chan struct{})
}

// oldestUnrecorded returns the journal position and receive time of the oldest event change that the database
// lacks. A returned channel closes when these change.
func (b *transitionQueue) oldestUnrecorded() (at journal.Position, since int64, waits bool, moved <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lag.on {
		at, since, waits = b.lag.from, b.lag.received, true
	}
	for i := range b.unrecorded {
		if w := &b.unrecorded[i]; w.count > 0 && (!waits || w.first.Number < at.Number) {
			at, since, waits = w.first, w.since, true
		}
	}
	return at, since, waits, b.moved
}

// Lag is the distance between the last recorded event change and the end of the journal. It is measured in commits,
// bytes and time.
type Lag struct {
	Changes    int           // transitions that wait in memory
	Age        time.Duration // time since the oldest unrecordedCount transition was received
	Commits    uint64        // commits of the journal since that transition
	Bytes      int64         // approximate bytes of the journal since that transition
	Overflowed bool          // the queue overflowed: dropped transitions are derived from the journal again
}

// Lag returns how far the history database is behind the end of the journal.
func (r *Dispatcher) Lag() Lag {
	oldest, since, waits, _ := r.backlog.oldestUnrecorded()
	l := Lag{Changes: r.backlog.depth(), Overflowed: r.backlog.needsReplay()}
	if !waits {
		return l
	}
	l.Age = max(0, r.opts.Now().Sub(time.Unix(0, since)))
	if j := r.opts.Journal; j != nil {
		oldest.Number--
		if head := j.Head(); head.Number > oldest.Number {
			l.Commits, l.Bytes = head.Number-oldest.Number, j.SizeAfter(oldest)
		}
	}
	return l
}

// Fullness returns the used share (0 to 1) of the queue of event changes named reactions. The share exceeds 1
// if one transition is larger than the queue. It is zero with the policy rederive, by which a full queue blocks
// nobody.
func (r *Dispatcher) Fullness() float64 { return r.backlog.fullness() }

// overflowState describes a queue that overflowed, until a journal replay has recovered the dropped event
// changes. It has the position of the first dropped change, and the progress of the journal replay that
// computes dropped changes again. The backlog takes no transitions until its consumer has recorded the waiting
// ones and a replay of the journal (see Replay) has computed the dropped ones again. Near the end of the
// journal the backlog collects: it takes new transitions again, which are recorded after the replay has reached
// the first of them. If the backlog overflows meanwhile, it discards the collected transitions, and the replay
// goes on.
type overflowState struct {
	on        bool
	from      journal.Position // history has all transitions before this position
	received  int64            // receive time of the transition at position from, Unix ns
	collects  bool
	replaying bool             // a replay is running
	reached   journal.Position // the last commit that the replay has read
}

// recordDrop records the journal position of an event change that the full queue dropped. The caller holds mu.
func (b *transitionQueue) recordDrop(t *event.Transition) {
	b.overflow++
	switch l := &b.lag; {
	case !l.on:
		*l = overflowState{on: true, from: t.At, received: t.Received}
	case l.collects:
		l.collects = false
		b.discard()
	case !l.replaying && t.At.Number < l.from.Number:
		l.from, l.received = t.At, t.Received // workers of the view are at different commits
	}
}

// discard empties the queue without recording its event changes, because a replay of the journal computes all
// again. A replay of the journal will compute them again. The caller holds mu, and no transition is being
// recorded.
func (b *transitionQueue) discard() {
	b.overflow += uint64(b.n)
	clear(b.items)
	b.head, b.n, b.bytes = 0, 0, 0
	for i := range b.unrecorded {
		b.unrecorded[i].count = 0
	}
}

// needsReplay reports whether dropped event changes must still be read again from the journal.
func (b *transitionQueue) needsReplay() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lag.on
}

// beginReplay records the start of a replay of the journal at a position. History is complete up to that position.
func (b *transitionQueue) beginReplay(at journal.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.replaying, b.lag.reached = true, at
	at.Number++
	if at.Number < b.lag.from.Number {
		b.lag.from = at
	}
	b.wakeRecordedWaiters() // callers of awaitRecorded give up on positions far ahead of the replay
}

// endReplay records that a replay of the journal has ended.
func (b *transitionQueue) endReplay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.replaying = false
	if b.lag.collects { // the next pass derives the collected transitions again
		b.lag.collects = false
		b.discard()
	}
	b.wakeRecordedWaiters()
}

// setReplayRead records the last commit that the running replay of the journal has read.
func (b *transitionQueue) setReplayRead(at journal.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.reached = at
}

// setReplayRecorded records the last commit of the journal that the running replay has written to the database. It
// also records the commit's receive time.
func (b *transitionQueue) setReplayRecorded(at journal.Position, received int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at.Number++
	if at.Number > b.lag.from.Number {
		b.lag.from, b.lag.received = at, received
	}
	b.wakeRecordedWaiters()
}

// isBeyondReplay reports whether a commit of the journal is later than the commits read by the running replay.
// A commit is a group of journal records.
func (b *transitionQueue) isBeyondReplay(at journal.Position) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lag.replaying && at.Number > b.lag.reached.Number+1 // the replay may be reading the next commit now
}

// acceptDuringReplay lets the queue take new event changes again shortly before a journal replay reaches the
// end. The replay still computes the dropped changes again.
func (b *transitionQueue) acceptDuringReplay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.collects = true
}

// endOverflow ends the overflow state after a journal replay has recovered all dropped event changes. It does
// not if the queue has dropped another transition since acceptDuringReplay. The replay must have reached the
// end that the journal had after that call.
func (b *transitionQueue) endOverflow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.lag.collects {
		return false
	}
	b.lag = overflowState{}
	b.wakeRecordedWaiters()
	return true
}
