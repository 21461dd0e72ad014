package journal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/queue"
)

// batchQueue has the entries that wait for their commit, grouped in batches. Append fills the last batch and the
// committer takes the first. A batch never exceeds Options.MaxCommit, except for one large Append, because an Append
// is never split over two commits.
type batchQueue struct {
	name      string
	capacity  int64 // raw bytes; Append waits above it
	maxCommit int   // raw bytes

	wake       chan struct{} // capacity 1: there is a batch
	full       chan struct{} // capacity 1: a batch is full, so that lingering gains nothing
	urgentCame chan struct{} // capacity 1: an entry came that is not patient

	mu              sync.Mutex
	pending         []*batch
	idleBatches     []*batch      // for reuse
	space           chan struct{} // closed when a commit frees space; nil: no Append waits
	closed          bool
	queued          int64  // raw bytes
	appendedEntries uint64 // entries ever queued
	blockedAppends  uint64 // Appends that met a full queue
}

// maxIdleBatches is the largest number of batches kept for reuse.
const maxIdleBatches = 3

// newBatchQueue returns an empty queue with the capacity in the options.
func newBatchQueue(o *Options) batchQueue {
	return batchQueue{
		name: o.Name, capacity: o.QueueBytes, maxCommit: o.MaxCommit,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), urgentCame: make(chan struct{}, 1),
	}
}

// appendEntries waits until the queue has space, then copies journal entries into a batch of the queue. raw is
// the size of the entries.
func (q *batchQueue) appendEntries(ctx context.Context, raw int, entries []Entry) error {
	q.mu.Lock()
	if err := q.waitForSpaceLocked(ctx, int64(raw)); err != nil {
		q.mu.Unlock()
		return err
	}
	b := q.batchWithSpaceLocked(raw)
	for i := range entries {
		b.addEntry(&entries[i])
	}
	q.queued += int64(raw)
	q.appendedEntries += uint64(len(entries))
	full, urgent := len(q.pending) > 1, b.urgent
	q.mu.Unlock()
	signalChannel(q.wake)
	if urgent {
		signalChannel(q.urgentCame)
	}
	if full {
		signalChannel(q.full)
	}
	return nil
}

// waitForSpaceLocked releases the lock until the queue has enough space for the new entries, then locks again.
// The caller's lock is released during the wait.
func (q *batchQueue) waitForSpaceLocked(ctx context.Context, raw int64) error {
	for waited := false; ; waited = true {
		switch {
		case q.closed:
			return ErrClosed
		case q.queued == 0, q.queued+raw <= q.capacity:
			return nil
		}
		if !waited {
			q.blockedAppends++
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

// batchWithSpaceLocked returns a batch of the queue that has enough space for the new bytes. A new batch is
// made if the last one is full. The caller holds mu.
func (q *batchQueue) batchWithSpaceLocked(raw int) *batch {
	if n := len(q.pending); n > 0 {
		if b := q.pending[n-1]; b.raw+raw <= q.maxCommit {
			return b
		}
	}
	var b *batch
	if n := len(q.idleBatches); n > 0 {
		b, q.idleBatches = q.idleBatches[n-1], q.idleBatches[:n-1]
	} else {
		b = &batch{}
	}
	q.pending = append(q.pending, b)
	return b
}

// popBatch removes and returns the first batch of the queue, or nil from an empty queue.
func (q *batchQueue) popBatch() *batch {
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

// empty reports whether no batch is waiting.
func (q *batchQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) == 0
}

// hasFullBatch reports whether the queue's first batch is full, because the queue has begun a second batch.
// After a stall the queue has many such batches.
func (q *batchQueue) hasFullBatch() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) > 1
}

// urgent reports whether an entry in the queue must be committed soon (is not patient). Patient entries (values of
// agents) may wait longer.
func (q *batchQueue) urgent() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.pending, func(b *batch) bool { return b.urgent })
}

// releaseSpace releases the space of a committed batch, so that waiting appends continue. raw is the size of the
// batch.
func (q *batchQueue) releaseSpace(raw int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued -= int64(raw)
	q.wakeAppendersLocked()
}

// recycleBatch stores an empty batch, so that a later commit can use the memory again.
func (q *batchQueue) recycleBatch(b *batch) {
	b.clearEntries()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.idleBatches) < maxIdleBatches && cap(b.data) <= 2*q.maxCommit {
		q.idleBatches = append(q.idleBatches, b)
	}
}

// close closes the queue, so that waiting and later appends return ErrClosed.
func (q *batchQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeAppendersLocked()
}

// wakeAppendersLocked wakes the appends that wait for space in the queue. The caller holds the lock.
func (q *batchQueue) wakeAppendersLocked() {
	if q.space != nil {
		close(q.space)
		q.space = nil
	}
}

// queuedBytes returns the number of uncompressed bytes that wait for their commit
func (q *batchQueue) queuedBytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}

// describeQueue returns the queue's name, capacity and waiting bytes, for the program's list of queues
func (q *batchQueue) describeQueue() queue.Info {
	q.mu.Lock()
	defer q.mu.Unlock()
	return queue.Info{
		Name: q.name, Capacity: q.capacity, Depth: q.queued, Unit: "bytes",
		Policy: queue.Block, Passed: q.appendedEntries, Overflow: q.blockedAppends,
	}
}

// signalChannel sends a value to a channel without blocking, to wake the goroutine that reads the channel. It
// does nothing if the channel already has a value.
func signalChannel(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// batch collects the entries for one later commit, with the callbacks (Waiters) of the entries. Batches are
// reused, so that a steady flow allocates nothing.
type batch struct {
	data    []byte      // the entries' bytes, back to back
	entries []entrySpan // of each in data
	waiters []entryWaiter
	signals int
	raw     int  // size of the entries grouped by section, lengths included
	urgent  bool // an entry is not patient
}

// entrySpan is the byte range of one entry in a batch. It also has the entry's section (partition).
type entrySpan struct {
	section Section
	aged    bool
	stall   *time.Time // see Entry
	signals uint32
	at, n   uint32
}

// entryWaiter is the callback for the commit of one entry (Waiter), with the entry's token.
type entryWaiter struct {
	waiter Waiter
	token  uint64
	aged   bool
	stall  *time.Time
}

// rawSize returns how many bytes an entry takes in a commit before compression
func rawSize(e *Entry) int { return uvarintLen(len(e.Data)) + len(e.Data) }

// addEntry copies an entry into the batch, with the callback for its commit (Waiter).
func (b *batch) addEntry(e *Entry) {
	b.entries = append(b.entries, entrySpan{section: e.Section, aged: e.Aged, stall: e.Stall, signals: uint32(e.Signals), at: uint32(len(b.data)), n: uint32(len(e.Data))})
	b.data = append(b.data, e.Data...)
	b.raw += rawSize(e)
	b.signals += e.Signals
	b.urgent = b.urgent || !e.Patient
	if e.Waiter != nil {
		b.waiters = append(b.waiters, entryWaiter{e.Waiter, e.Token, e.Aged, e.Stall})
	}
}

// removeStaleEntries removes entries whose age (time since a measurement) became wrong during a pause of
// process or disk. It returns their callbacks (Waiters). Such entries contain their age and were read before
// the stall.
func (b *batch) removeStaleEntries(stall *time.Time) (waiters []entryWaiter) {
	b.entries = slices.DeleteFunc(b.entries, func(e entrySpan) bool {
		if !e.aged || e.stall == stall {
			return false
		}
		b.raw -= uvarintLen(int(e.n)) + int(e.n)
		b.signals -= int(e.signals)
		return true
	})
	b.waiters = slices.DeleteFunc(b.waiters, func(w entryWaiter) bool {
		if !w.aged || w.stall == stall {
			return false
		}
		waiters = append(waiters, w)
		return true
	})
	return waiters
}

// clearEntries removes all entries and callbacks from the batch. The memory stays for the next use.
func (b *batch) clearEntries() {
	clear(b.waiters) // drop the references
	*b = batch{data: b.data[:0], entries: b.entries[:0], waiters: b.waiters[:0]}
}

// partitionGrouper sorts the entries of a batch by partition (journal section). The order of entries within a
// section is kept (counting sort).
type partitionGrouper struct {
	count [int(All) + 1]uint32
	size  [int(All) + 1]uint32
}

// groupEntries sorts the entries of a batch by partition and adds the entries to a commit.
func (g *partitionGrouper) groupEntries(b *batch, c *commit) {
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
		c.addSpan(sectionSpan{section: Section(s), count: g.count[s], start: at, end: end})
		g.size[s], at = at, end // from here on: the place of the section's next entry
	}
	c.raw = resizeBuffer(c.raw, b.raw)
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

// resizeBuffer returns a buffer of length n, which reuses the given buffer's memory if large enough. Its
// content is undefined.
func resizeBuffer(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	return make([]byte, n, n+n/4)
}
