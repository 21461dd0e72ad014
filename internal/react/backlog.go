package react

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
)

// backlog is the bounded queue between the event view and the history store. It
// never blocks the view: once full, it drops what comes for a partition and
// remembers since when; those transitions are made again from the journal later.
type backlog struct {
	mu       sync.Mutex
	items    []event.Transition // a ring: it grows up to capacity, once
	head, n  int                // the oldest, and how many wait
	spare    []event.Transition // the slice that take handed out before: reused
	capacity int
	passed   uint64
	dropped  uint64
	wanted   int           // so many must wait before wake is signalled
	wake     chan struct{} // capacity 1

	before  [model.Partitions]history.Place // recorded before the start
	waiting [model.Partitions]waiting
	moved   chan struct{} // closed and made anew whenever something was recorded
}

// waiting is what a partition has not recorded yet.
type waiting struct {
	count int // queued, or taken and not yet recorded
	// first is the position of the oldest of them, or somewhat before: where the last
	// recorded one stands.
	first journal.Position
	since int64 // when that was received, Unix ns
	// lag: transitions were dropped, from here up to here.
	lag            bool
	lagFrom, lagTo journal.Position
	lagSince       int64
}

func newBacklog(capacity int, queues *queue.Registry) *backlog {
	b := &backlog{capacity: capacity, wake: make(chan struct{}, 1), moved: make(chan struct{})}
	queues.Register("reactions", func() queue.Info {
		b.mu.Lock()
		defer b.mu.Unlock()
		return queue.Info{
			Name: "reactions", Capacity: int64(b.capacity), Depth: int64(b.n), Unit: "items",
			Policy: queue.Rederive, Passed: b.passed, Overflow: b.dropped,
		}
	})
	return b
}

// add copies transitions in. It is called by the view's workers. What a replay emits
// again and history has takes no room from what it has not: repeated says how many.
func (b *backlog) add(ts []event.Transition) (repeated int) {
	b.mu.Lock()
	for i := range ts {
		t := &ts[i]
		if b.before[t.Partition].Reached(t.At, t.Index) {
			repeated++
			continue
		}
		w := &b.waiting[t.Partition]
		if w.lag || b.n >= b.capacity {
			if !w.lag {
				w.lag, w.lagFrom, w.lagSince = true, t.At, t.Received
			}
			w.lagTo = t.At
			b.dropped++
			continue
		}
		if w.count == 0 {
			w.first, w.since = t.At, t.Received
		}
		w.count++
		b.passed++
		b.push(t)
	}
	enough := b.n >= min(b.wanted, b.capacity)
	b.mu.Unlock()
	if enough {
		b.signal()
	}
	return repeated
}

func (b *backlog) push(t *event.Transition) {
	if b.n == len(b.items) {
		larger := make([]event.Transition, min(max(2*b.n, 1024), b.capacity))
		n := copy(larger, b.items[b.head:])
		copy(larger[n:], b.items[:b.head])
		b.items, b.head = larger, 0
	}
	b.items[(b.head+b.n)%len(b.items)] = *t
	b.n++
}

func (b *backlog) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// wait returns when n transitions wait, or a partition lags.
func (b *backlog) wait(ctx context.Context, n int) error {
	for {
		b.mu.Lock()
		b.wanted = n
		enough := b.n >= n || b.lagging()
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

// take returns at most n of the transitions that wait, oldest first. They count as
// waiting until recorded is called.
func (b *backlog) take(n int) []event.Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.spare[:0]
	for range min(n, b.n) {
		out = append(out, b.items[b.head])
		b.items[b.head] = event.Transition{} // let go of its memory
		b.head = (b.head + 1) % len(b.items)
		b.n--
	}
	b.spare = out
	return out
}

// recorded says that what take returned is in the store.
func (b *backlog) recorded(ts []event.Transition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range ts {
		w := &b.waiting[ts[i].Partition]
		w.count--
		w.first, w.since = ts[i].At, ts[i].Received
	}
	b.announce()
}

// announce wakes who waits for something to be recorded. mu is held.
func (b *backlog) announce() {
	close(b.moved)
	b.moved = make(chan struct{})
}

func (b *backlog) lagging() bool {
	for p := range b.waiting {
		if b.waiting[p].lag {
			return true
		}
	}
	return false
}

// lag returns the first partition that dropped transitions, and the span of them.
func (b *backlog) lag() (p model.Partition, from, to journal.Position, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.waiting {
		if w := &b.waiting[i]; w.lag {
			return model.Partition(i), w.lagFrom, w.lagTo, true
		}
	}
	return 0, journal.Position{}, journal.Position{}, false
}

// caughtUp ends a partition's lag if nothing was dropped after upTo; else what was
// dropped since must be made again too.
func (b *backlog) caughtUp(p model.Partition, upTo journal.Position) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &b.waiting[p]
	if w.lagTo.Number > upTo.Number {
		return false
	}
	w.lag = false
	b.announce()
	return true
}

// oldest is the position of the oldest transition not yet recorded, or one before, when
// it was received (Unix ns), and a channel that is closed when that may have changed.
func (b *backlog) oldest() (at journal.Position, since int64, waits bool, moved <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.waiting {
		w := &b.waiting[i]
		first, received := w.first, w.since
		switch {
		case w.count > 0:
		case w.lag:
			first, received = w.lagFrom, w.lagSince
		default:
			continue
		}
		if !waits || first.Number < at.Number {
			at, since, waits = first, received, true
		}
	}
	return at, since, waits, b.moved
}
