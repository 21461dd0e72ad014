package react

import (
	"cmp"
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
)

// backlog is the bounded queue between the event view and the history store. Once
// full, it drops what comes and remembers since when: it lags (lag.go), and those transitions
// are made again from the journal later. With the policy block it lets the view wait
// instead, as soon as there is somebody to wait for.
type backlog struct {
	mu       sync.Mutex
	items    []event.Transition // a ring: it grows as far as the bytes go, once
	head, n  int                // the oldest, and how many wait
	spare    []event.Transition // the slice that take handed out before: reused
	capacity int64              // bytes
	bytes    int64              // of those that wait or are being recorded
	block    bool
	room     sync.Cond // bytes fell, or nobody records any more
	running  bool      // somebody records
	passed   uint64
	overflow uint64        // dropped, or waited
	wanted   int           // so many must wait before wake is signalled
	opened   int           // of those that wait, how many tell that a problem opened
	hurries  bool          // one of them is enough
	wake     chan struct{} // capacity 1

	before   [model.Partitions]history.Place // recorded before the start
	waiting  [model.Partitions]waiting
	lag      lag
	observed bool          // it takes what pipelines see; else all the rest
	moved    chan struct{} // closed and made anew whenever something was recorded
}

// waiting counts the transitions of a partition that history has not recorded.
type waiting struct {
	count int // queued, or taken and not yet recorded
	// first is the position of the oldest of them, or somewhat before: where the last
	// recorded one stands.
	first journal.Position
	since int64 // when that was received, Unix ns
}

// newBacklog makes that of a queue: reactions, or pipelines.
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

// Bytes counted for one transition beside its texts.
const transitionBytes = 256

func cost(t *event.Transition) int64 {
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

// add copies transitions in. It is called by the view's workers. What a replay emits
// again and history has takes no room from what it has not: repeated says how many.
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
		w, size := &b.waiting[t.Partition], cost(t)
		if b.block && !b.lag.on {
			b.waitForRoom(size)
		}
		if b.lag.on && !b.lag.collects || !b.fits(size) {
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
	enough := b.n >= b.wanted || 2*b.bytes > b.capacity || b.hurries && b.opened > 0
	b.mu.Unlock()
	if enough {
		b.signal()
	}
	return repeated
}

// accepts reports whether the backlog takes transitions of a kind.
func (b *backlog) accepts(kind event.TransitionKind) bool {
	return (kind == event.Observed) == b.observed
}

// fits reports whether there is room. A transition larger than the capacity fits alone.
func (b *backlog) fits(size int64) bool { return b.bytes == 0 || b.bytes+size <= b.capacity }

func (b *backlog) waitForRoom(size int64) {
	for waited := false; b.running && !b.fits(size); waited = true {
		if !waited {
			b.overflow++
			b.signal()
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

func (b *backlog) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// wait returns when n transitions wait, or the half of what fits, or it lags; or, if that is
// enough, when a problem has opened.
func (b *backlog) wait(ctx context.Context, n int, opened bool) error {
	for {
		b.mu.Lock()
		b.wanted, b.hurries = n, opened
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

// take returns the oldest transitions that wait, as many as one batch takes. They count
// as waiting until recorded is called.
func (b *backlog) take(most int) []event.Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.spare[:0]
	for bytes := int64(0); len(out) < most && b.n > 0; {
		if bytes += cost(&b.items[b.head]); bytes > batchBytes && len(out) > 0 {
			break
		}
		if out = append(out, b.items[b.head]); b.items[b.head].Kind == event.ProblemOpened {
			b.opened--
		}
		b.items[b.head] = event.Transition{} // let go of its memory
		b.head = (b.head + 1) % len(b.items)
		b.n--
	}
	b.spare = out
	return out
}

// recorded releases transitions that take returned: they are in the store.
func (b *backlog) recorded(ts []event.Transition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range ts {
		w := &b.waiting[ts[i].Partition]
		w.count--
		w.first, w.since = ts[i].At, ts[i].Received
		b.bytes -= cost(&ts[i])
	}
	clear(ts) // let go of its memory
	b.room.Broadcast()
	b.announce()
}

// announce wakes who waits for something to be recorded. mu is held.
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
