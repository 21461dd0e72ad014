package journal

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/queue"
)

// batchQueue holds the entries that wait for their commit, in batches. Append fills the last batch
// and the committer takes the first. A batch never exceeds Options.MaxCommit, except for one large
// Append, because an Append is never split over two commits.
type batchQueue struct {
	name      string
	capacity  int64 // raw bytes; Append waits above it
	maxCommit int   // raw bytes

	wake chan struct{} // capacity 1: there is a batch
	full chan struct{} // capacity 1: a batch is full, so that lingering gains nothing

	mu      sync.Mutex
	pending []*batch
	idle    []*batch      // for reuse
	space   chan struct{} // closed when a commit frees space; nil: no Append waits
	closed  bool
	queued  int64  // raw bytes
	passed  uint64 // entries ever queued
	waited  uint64 // Appends that met a full queue
}

// maxIdle is the number of batches kept for reuse.
const maxIdle = 3

func newBatchQueue(o *Options) batchQueue {
	return batchQueue{
		name: o.Name, capacity: o.QueueBytes, maxCommit: o.MaxCommit,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// append copies entries of raw bytes into a batch. It waits for space until ctx ends.
func (q *batchQueue) append(ctx context.Context, raw int, entries []Entry) error {
	q.mu.Lock()
	if err := q.waitForSpaceLocked(ctx, int64(raw)); err != nil {
		q.mu.Unlock()
		return err
	}
	b := q.openBatchLocked(raw)
	for i := range entries {
		b.add(&entries[i])
	}
	q.queued += int64(raw)
	q.passed += uint64(len(entries))
	full := len(q.pending) > 1
	q.mu.Unlock()
	signal(q.wake)
	if full {
		signal(q.full)
	}
	return nil
}

func (q *batchQueue) waitForSpaceLocked(ctx context.Context, raw int64) error {
	for waited := false; ; waited = true {
		switch {
		case q.closed:
			return ErrClosed
		case q.queued == 0, q.queued+raw <= q.capacity:
			return nil
		}
		if !waited {
			q.waited++
		}
		if q.space == nil {
			q.space = make(chan struct{})
		}
		space := q.space
		q.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
		}
		q.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// openBatchLocked returns the batch for raw more bytes: the last one where they fit, or a new one.
func (q *batchQueue) openBatchLocked(raw int) *batch {
	if n := len(q.pending); n > 0 {
		if b := q.pending[n-1]; b.raw+raw <= q.maxCommit {
			return b
		}
	}
	var b *batch
	if n := len(q.idle); n > 0 {
		b, q.idle = q.idle[n-1], q.idle[:n-1]
	} else {
		b = &batch{}
	}
	q.pending = append(q.pending, b)
	return b
}

// next returns the first batch and removes it; nil: none waits.
func (q *batchQueue) next() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		return nil
	}
	b := q.pending[0]
	copy(q.pending, q.pending[1:])
	q.pending[len(q.pending)-1] = nil
	q.pending = q.pending[:len(q.pending)-1]
	return b
}

// empty returns whether no batch waits.
func (q *batchQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) == 0
}

// release frees the space of a committed batch, so that waiting Appends go on.
func (q *batchQueue) release(raw int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued -= int64(raw)
	q.wakeLocked()
}

// recycle keeps a batch for reuse.
func (q *batchQueue) recycle(b *batch) {
	b.reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.idle) < maxIdle && cap(b.data) <= 2*q.maxCommit {
		q.idle = append(q.idle, b)
	}
}

// close makes all later and waiting Appends return ErrClosed.
func (q *batchQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeLocked()
}

func (q *batchQueue) wakeLocked() {
	if q.space != nil {
		close(q.space)
		q.space = nil
	}
}

// bytes returns the raw bytes that wait.
func (q *batchQueue) bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}

// info describes the queue for the list of queues.
func (q *batchQueue) info() queue.Info {
	q.mu.Lock()
	defer q.mu.Unlock()
	return queue.Info{
		Name: q.name, Capacity: q.capacity, Depth: q.queued, Unit: "bytes",
		Policy: queue.Block, Passed: q.passed, Overflow: q.waited,
	}
}

// signal leaves a token in a channel of capacity 1 where there is none.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// batch collects the entries of one commit, copied by Append in order, and their Waiters. Batches are
// reused, so that a steady flow allocates nothing.
type batch struct {
	data    []byte  // the entries' bytes, back to back
	entries []place // of each in data
	waiters []waiterToken
	signals int
	raw     int // size of the entries grouped by section, lengths included
}

type place struct {
	section Section
	at, n   uint32
}

type waiterToken struct {
	waiter Waiter
	token  uint64
}

// rawSize returns the bytes of an entry in a commit before compression.
func rawSize(e *Entry) int { return uvarintLen(len(e.Data)) + len(e.Data) }

func (b *batch) add(e *Entry) {
	b.entries = append(b.entries, place{section: e.Section, at: uint32(len(b.data)), n: uint32(len(e.Data))})
	b.data = append(b.data, e.Data...)
	b.raw += rawSize(e)
	b.signals += e.Signals
	if e.Waiter != nil {
		b.waiters = append(b.waiters, waiterToken{e.Waiter, e.Token})
	}
}

func (b *batch) reset() {
	clear(b.waiters) // drop the references
	*b = batch{data: b.data[:0], entries: b.entries[:0], waiters: b.waiters[:0]}
}

// grouper sorts a batch's entries by section, stably: count, add up, place.
type grouper struct {
	count [int(All) + 1]uint32
	size  [int(All) + 1]uint32
}

// group fills c's rows and raw bytes from b.
func (g *grouper) group(b *batch, c *commit) {
	clear(g.count[:])
	clear(g.size[:])
	for _, e := range b.entries {
		g.count[e.section]++
		g.size[e.section] += uint32(uvarintLen(int(e.n))) + e.n
	}
	at := uint32(0)
	for s := range g.count {
		if g.count[s] == 0 {
			continue
		}
		end := at + g.size[s]
		c.addSpan(span{section: Section(s), count: g.count[s], start: at, end: end})
		g.size[s], at = at, end // from here on: the place of the section's next entry
	}
	c.raw = grow(c.raw, b.raw)
	for _, e := range b.entries {
		to := g.size[e.section]
		n := e.n
		for n >= 0x80 {
			c.raw[to] = byte(n) | 0x80
			n >>= 7
			to++
		}
		c.raw[to] = byte(n)
		to++
		copy(c.raw[to:], b.data[e.at:e.at+e.n])
		g.size[e.section] = to + e.n
	}
}

// grow returns b with length n, its content undefined.
func grow(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	return make([]byte, n, n+n/4)
}
