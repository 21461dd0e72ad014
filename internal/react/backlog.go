package react

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

// backlog is the bounded queue between the event view and a consumer. Once full it drops new transitions, and
// remembers the first position that it dropped: it lags (type lag), and those transitions are derived again
// from the journal later. With the policy block it lets the view wait instead, while a consumer runs.
type backlog struct {
	mu           sync.Mutex
	items        []event.Transition // a ring that grows up to the capacity and does not shrink
	head, n      int                // index of the oldest, and count
	spare        []event.Transition // the slice of the last takeBatch, for reuse
	capacity     int64              // bytes
	bytes        int64              // of transitions that wait or are being recorded
	block        bool
	room         sync.Cond // bytes fell, or running became false
	running      bool      // a consumer takes transitions
	passed       uint64
	overflow     uint64        // transitions that were dropped, or waited for room
	wanted       int           // transitions that must wait before wake is signalled
	opened       int           // waiting transitions of the kind ProblemOpened
	wakeOnOpened bool          // one ProblemOpened is enough to signal wake
	wake         chan struct{} // capacity 1

	before   [model.Partitions]history.Place // recorded before the start
	waiting  [model.Partitions]unrecorded
	lag      lag
	observed bool          // true: only Observed transitions are queued; false: all others
	moved    chan struct{} // closed and replaced whenever transitions were recorded
}

// unrecorded counts the transitions of a partition that are not in the store.
type unrecorded struct {
	count int // queued, or taken and not yet recorded
	// first is the position of the last recorded transition, or of the oldest waiting one.
	first journal.Position
	since int64 // receive time of the transition at first, Unix ns
}

// newBacklog makes the backlog of a queue: reactions, or pipelines.
func newBacklog(name string, capacity int64, queues *queue.Registry) *backlog {
	preset, policy := queues.Bounds(name)
	b := &backlog{
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

// transitionBytes is the memory of one transition without its texts.
const transitionBytes = 256

// transitionSize returns the bytes of memory of a transition.
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

// setRunning tells the backlog whether a consumer runs. Only then does add wait for room.
func (b *backlog) setRunning(running bool) {
	b.mu.Lock()
	b.running = running
	b.mu.Unlock()
	b.room.Broadcast()
}

// depth returns the number of transitions that wait for history.
func (b *backlog) depth() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.waiting {
		n += b.waiting[i].count
	}
	return n
}

// fullness returns the occupied share of the capacity where add blocks when full; else zero.
func (b *backlog) fullness() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.block {
		return 0
	}
	return float64(b.bytes) / float64(b.capacity)
}

// add copies transitions in; the view's workers call it. It skips transitions that a replay emits again and
// the store has, and returns their number.
func (b *backlog) add(ts []event.Transition) (repeated int) {
	b.mu.Lock()
	for i := range ts {
		t := &ts[i]
		if !b.accepts(t.Kind) {
			continue
		}
		if b.before[t.Partition].Reached(t.At, t.Index) {
			repeated++
			continue
		}
		w, size := &b.waiting[t.Partition], transitionSize(t)
		if b.block && !b.lag.on {
			b.waitForRoom(size)
		}
		if b.lag.on && !b.lag.collects || !b.hasRoom(size) {
			b.drop(t)
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
	enough := b.n >= b.wanted || 2*b.bytes > b.capacity || b.wakeOnOpened && b.opened > 0
	b.mu.Unlock()
	if enough {
		pause.Wake(b.wake)
	}
	return repeated
}

// accepts reports whether the backlog takes transitions of a kind.
func (b *backlog) accepts(kind event.TransitionKind) bool {
	return (kind == event.Observed) == b.observed
}

// hasRoom reports whether a transition of a size fits. A transition larger than the capacity fits alone.
func (b *backlog) hasRoom(size int64) bool { return b.bytes == 0 || b.bytes+size <= b.capacity }

func (b *backlog) waitForRoom(size int64) {
	for waited := false; b.running && !b.hasRoom(size); waited = true {
		if !waited {
			b.overflow++
			pause.Wake(b.wake)
		}
		b.room.Wait()
	}
}

func (b *backlog) push(t *event.Transition) {
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

// wait returns when n transitions wait, when half of the capacity is used, when the backlog lags or, with
// opened, when a problem opened.
func (b *backlog) wait(ctx context.Context, n int, opened bool) error {
	for {
		b.mu.Lock()
		b.wanted, b.wakeOnOpened = n, opened
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

// takeBatch returns the oldest transitions, one batch at most. They count as waiting until release.
func (b *backlog) takeBatch(most int) []event.Transition {
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
		b.items[b.head] = event.Transition{} // free its memory
		b.head = (b.head + 1) % len(b.items)
		b.n--
	}
	b.spare = out
	return out
}

// release drops transitions of takeBatch that are in the store.
func (b *backlog) release(ts []event.Transition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range ts {
		w := &b.waiting[ts[i].Partition]
		w.count--
		w.first, w.since = ts[i].At, ts[i].Received
		b.bytes -= transitionSize(&ts[i])
	}
	clear(ts) // free its memory
	b.room.Broadcast()
	b.announce()
}

// announce wakes all callers of awaitRecorded. mu is held.
func (b *backlog) announce() {
	close(b.moved)
	b.moved = make(chan struct{})
}

// oldest returns the position of the oldest unrecorded transition, or one before; its receive time (Unix ns);
// and a channel that closes when the answer may have changed.
func (b *backlog) oldest() (at journal.Position, since int64, waits bool, moved <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lag.on {
		at, since, waits = b.lag.from, b.lag.received, true
	}
	for i := range b.waiting {
		if w := &b.waiting[i]; w.count > 0 && (!waits || w.first.Number < at.Number) {
			at, since, waits = w.first, w.since, true
		}
	}
	return at, since, waits, b.moved
}

// Lag describes how far history is behind the journal.
type Lag struct {
	Changes int           // transitions in memory
	Age     time.Duration // time since the oldest unrecorded transition was received
	Commits uint64        // commits of the journal since that transition
	Bytes   int64         // approximate bytes of the journal since that transition
	Again   bool          // the queue overflowed: transitions are derived again from the journal
}

// Lag returns how far history is behind the journal now.
func (r *Reactor) Lag() Lag {
	oldest, since, waits, _ := r.backlog.oldest()
	l := Lag{Changes: r.backlog.depth(), Again: r.backlog.isLagging()}
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

// Fullness returns the occupied share of the queue of reactions: from 0 to 1, and beyond where one transition
// is larger than the queue. Always zero with the policy rederive, where a full queue blocks nobody.
func (r *Reactor) Fullness() float64 { return r.backlog.fullness() }

// lag is the state of a backlog that overflowed. It takes nothing until its contents are recorded and a pass
// (see Replay) has derived the dropped transitions again. Near the journal's head it collects: new
// transitions are taken again, and recorded once the pass has reached the first of them. If it overflows
// meanwhile, it discards them, and the pass goes on.
type lag struct {
	on       bool
	from     journal.Position // history has all transitions before this position
	received int64            // receive time of that position, Unix ns
	collects bool
	passing  bool             // a pass is under way
	reached  journal.Position // the last commit that the pass has read
}

// drop counts a transition that does not fit. The caller holds mu.
func (b *backlog) drop(t *event.Transition) {
	b.overflow++
	switch l := &b.lag; {
	case !l.on:
		*l = lag{on: true, from: t.At, received: t.Received}
	case l.collects:
		l.collects = false
		b.discard()
	case !l.passing && t.At.Number < l.from.Number:
		l.from, l.received = t.At, t.Received // the view's workers are at different commits
	}
}

// discard drops all waiting transitions. The caller holds mu, and none of them is being recorded.
func (b *backlog) discard() {
	b.overflow += uint64(b.n)
	clear(b.items)
	b.head, b.n, b.bytes = 0, 0, 0
	for i := range b.waiting {
		b.waiting[i].count = 0
	}
}

// isLagging reports whether dropped transitions have to be derived again.
func (b *backlog) isLagging() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lag.on
}

// beginPass starts a pass behind a position: nothing before it is missing.
func (b *backlog) beginPass(at journal.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.passing, b.lag.reached = true, at
	at.Number++
	if at.Number < b.lag.from.Number {
		b.lag.from = at
	}
	b.announce() // wakes awaitRecorded, which gives up on positions far ahead of the pass
}

// endPass ends a pass, whether or not it caught up.
func (b *backlog) endPass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.passing = false
	if b.lag.collects { // the next pass derives the collected transitions again
		b.lag.collects = false
		b.discard()
	}
	b.announce()
}

// passRead sets how far the pass has read.
func (b *backlog) passRead(at journal.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.reached = at
}

// passRecorded sets the commit up to which the pass has recorded, and its receive time.
func (b *backlog) passRecorded(at journal.Position, received int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at.Number++
	if at.Number > b.lag.from.Number {
		b.lag.from, b.lag.received = at, received
	}
	b.announce()
}

// beyondPass reports whether the pass reaches a commit only later.
func (b *backlog) beyondPass(at journal.Position) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lag.passing && at.Number > b.lag.reached.Number+1 // the pass may be reading the next commit
}

// collect accepts new transitions again.
func (b *backlog) collect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.collects = true
}

// caughtUp ends the lag, unless something was dropped since collect: the pass has come to
// a head of the journal that was read after it.
func (b *backlog) caughtUp() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.lag.collects {
		return false
	}
	b.lag = lag{}
	b.announce()
	return true
}
