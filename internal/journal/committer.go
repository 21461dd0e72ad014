package journal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"
)

// runCommitter commits the batches of the queue in sequence, from Open to Close.
func (l *Log) runCommitter() {
	defer close(l.done)
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	linger := time.NewTimer(time.Hour)
	defer linger.Stop()
	for {
		b, open := l.awaitBatch(tick, linger)
		if b == nil && !open {
			break
		}
		if b == nil {
			b = &batch{} // a tick
		}
		if !l.commitBatch(b) {
			break
		}
	}
	l.rejectQueued()
	l.writeClosingCommit()
}

// awaitBatch waits until the queue has a batch of entries to commit, or the log closes. It returns nil and true when
// an empty commit (a tick) is due, nil and false when the log closes and the queue is empty.
func (l *Log) awaitBatch(tick, linger *time.Timer) (b *batch, open bool) {
	if l.opts.Linger > 0 && !l.queue.empty() {
		lingerUntilFull(l, linger)
	}
	if b := l.queue.popBatch(); b != nil {
		return b, true
	}
	var silence <-chan time.Time
	if l.opts.Tick > 0 {
		tick.Reset(l.opts.Tick)
		silence = tick.C
	}
	for {
		select {
		case <-l.queue.wake:
		case <-silence:
			return nil, true
		case <-l.closing:
			return l.queue.popBatch(), false
		}
		if l.opts.Linger > 0 {
			lingerUntilFull(l, linger)
		}
		if b := l.queue.popBatch(); b != nil {
			return b, true
		}
	}
}

// lingerUntilFull delays a commit, at most for Options.Linger, so that more entries can join. It stops when a batch is
// full. Patient entries wait for Options.PatientLinger, or for an entry that is not. The stopped timer is the
// committer's: a new one would be an allocation per commit.
func lingerUntilFull(l *Log, timer *time.Timer) {
	if l.queue.hasFullBatch() {
		return
	}
	if l.opts.PatientLinger > l.opts.Linger && !awaitUrgentEntry(l, timer) {
		return
	}
	timer.Reset(l.opts.Linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.queue.full: // possibly for an earlier batch: then this batch is committed early
	case <-l.closing:
	}
}

// awaitUrgentEntry waits until an urgent entry is queued, or until queued patient entries have waited their
// maximum time. It returns false if the patient entries have waited long enough, the queue is full or the log
// closes.
func awaitUrgentEntry(l *Log, timer *time.Timer) bool {
	timer.Reset(l.opts.PatientLinger)
	defer timer.Stop()
	for !l.queue.urgent() {
		select {
		case <-l.queue.urgentCame: // possibly for an entry of an earlier commit
		case <-timer.C:
			return false
		case <-l.queue.full:
			return false
		case <-l.closing:
			return false
		}
	}
	return true
}

// commitBatch writes and syncs one batch of entries, and then calls the callbacks of the entries (Waiters). Before
// that, it passes the commit to the journal's views (the states that are computed from the journal). It returns false
// if the log was closed before the disk accepted the batch.
func (l *Log) commitBatch(b *batch) bool {
	began := time.Now()
	mono := l.opts.Clock.Mono()
	l.writer.noticeStall(mono, &l.stalled)
	if stall := l.stalled.Load(); stall != nil {
		rejectStaleEntries(b, stall, &l.queue)
	}
	c := newCommit(&l.commits)
	defer c.Release()
	c.log, c.whole = l.folder.incarnation.ID, true
	l.writer.grouper.groupEntries(b, c)
	c.head.incarnation = l.folder.incarnation.ID
	var at int64
	var err error
	for {
		c.head.chain, c.head.number = l.head.chain, l.head.number+1 // only this goroutine changes the head
		c.head.received, c.head.listening = l.writer.nextCommitTimes(&l.opts, l.head, mono)
		l.writer.bytes = c.encode(l.writer.bytes)
		at, err = l.writeUntilDurable(l.writer.bytes, c.head)
		if !errors.Is(err, errNoSpaceForEntries) {
			break
		}
		// Empty commits (ticks) continue while a batch waits, and move the head on: old segments are cut when there are
		// snapshots of two later positions.
		if !l.commitBatch(&batch{}) {
			err = ErrClosed
			break
		}
		mono = l.opts.Clock.Mono()
	}
	if err == nil {
		l.publishCommit(b, c, at)
		if l.opts.ObserveCommit != nil {
			l.opts.ObserveCommit(CommitStats{Duration: time.Since(began), Entries: len(b.entries), Signals: b.signals, Bytes: len(l.writer.bytes)})
		}
		if l.opts.Deliver != nil {
			delivered := l.opts.Clock.Mono()
			l.opts.Deliver(c)
			l.writer.delivering = l.opts.Clock.Mono() - delivered
		}
	}
	notifyWaiters(b, c.Position(), err)
	l.queue.recycleBatch(b)
	return err == nil
}

// noticeStall detects and records a long pause of the process or the disk (a stall). Entries that were received before
// the pause contain their age, which is then wrong. Time in which the views are too busy to take a commit is none:
// refused entries would only come again. A stall right behind another is none, so that a disk which takes long for
// each commit accepts something.
func (w *segmentWriter) noticeStall(mono time.Duration, stalled *atomic.Pointer[time.Time]) {
	switch step := mono - w.mono - w.delivering; {
	case step <= listeningStep:
		w.flowing = true
	case w.flowing:
		now := time.Now()
		stalled.Store(&now)
		w.flowing = false
	}
}

// rejectStaleEntries rejects entries whose age (time since a measurement) became wrong during a pause of
// process or disk. Their Waiters receive ErrStalled.
func rejectStaleEntries(b *batch, stall *time.Time, q *batchQueue) {
	before := b.raw
	for _, w := range b.removeStaleEntries(stall) {
		w.waiter.Committed(w.token, Position{}, ErrStalled)
	}
	if b.raw < before {
		q.releaseSpace(before - b.raw)
	}
}

// publishCommit makes a commit visible to readers after its sync, and frees the queue space of its entries.
func (l *Log) publishCommit(b *batch, c *commit, at int64) {
	size := int64(len(l.writer.bytes))
	defer l.queue.releaseSpace(b.raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = checkpoint{
		number: c.head.number, chain: c.head.crc,
		received: c.head.received, listening: c.head.listening,
	}
	s := l.segments[len(l.segments)-1]
	s.addCommitOffset(c.head.number, at)
	s.last, s.end, s.disk = c.head.number, at+size, at+size
	l.stats.ClockAhead = l.writer.clockAhead
	l.stats.Commits++
	l.stats.Entries += uint64(len(b.entries))
	l.stats.RawBytes += uint64(b.raw)
	l.stats.WrittenBytes += uint64(size)
	l.stats.SizeBytes += size
	l.writer.endsInEntries = len(b.entries) > 0
}

// notifyWaiters tells the callback of each entry (Waiter) that its batch is committed or has failed.
func notifyWaiters(b *batch, at Position, err error) {
	if err != nil {
		at = Position{}
	}
	for _, w := range b.waiters {
		w.waiter.Committed(w.token, at, err)
	}
}

// rejectQueued rejects with ErrClosed all queued entries that were not committed before Close.
func (l *Log) rejectQueued() {
	for b := l.queue.popBatch(); b != nil; b = l.queue.popBatch() {
		notifyWaiters(b, Position{}, ErrClosed)
	}
}

// writeClosingCommit writes an empty commit as the last commit of a log that closes. Damage of the last commit looks like
// a torn write and is cut, so the last commit should have no entries.
func (l *Log) writeClosingCommit() {
	if l.writer.endsInEntries && l.Stats().Blocked == nil {
		l.commitBatch(&batch{})
	}
}

// nextCommitTimes returns the time of day and the listening time (time able to receive) for the next commit.
// Listening time is the total time in which the server could receive results.
func (w *segmentWriter) nextCommitTimes(o *Options, before checkpoint, mono time.Duration) (received int64, listening time.Duration) {
	step := max(0, mono-w.mono)
	w.mono = mono
	if !w.blocked.IsZero() {
		step = 0 // the journal accepted no entries in this time
	}
	received = o.Clock.Wall()
	w.clockAhead = max(0, time.Duration(before.received-received))
	if received <= before.received {
		// The wall clock went back. Receive time runs at half speed until the wall clock has
		// caught up, so that it neither goes back nor stands still.
		received = before.received + int64(step/2)
	}
	return received, before.listening + min(step, listeningStep)
}

// commit is a group of journal entries in memory that are synced to disk together. It implements Commit. The committer
// fills the field raw with entries; a commit from a file has compressed entries in the field packed, which are
// uncompressed into raw when a section is requested.
type commit struct {
	head  commitHeader
	log   uint64        // present incarnation of its log
	spans []sectionSpan // ascending
	names []Section
	raw   []byte

	inflate sync.Mutex // guards raw, whole and broken while packed is unpacked
	whole   bool       // raw is valid
	packed  []byte     // compressed entries
	body    []byte     // buffer that packed is a part of
	broken  error

	refs atomic.Int32
	pool *sync.Pool
}

var _ Commit = (*commit)(nil)

// newCommit returns an empty commit from the pool, with a reference count of one
func newCommit(pool *sync.Pool) *commit {
	c, _ := pool.Get().(*commit)
	if c == nil {
		c = &commit{pool: pool}
	}
	c.head, c.spans, c.names = commitHeader{}, c.spans[:0], c.names[:0]
	c.raw, c.body, c.packed = c.raw[:0], c.body[:0], nil
	c.whole, c.broken = false, nil
	c.refs.Store(1)
	return c
}

// addSpan adds the byte range of one partition's entries (a section) to the commit
func (c *commit) addSpan(s sectionSpan) {
	c.spans = append(c.spans, s)
	c.names = append(c.names, s.section)
}

// copyVerified copies a verified commit from a segment file into memory.
func (c *commit) copyVerified(h commitHeader, body []byte) (err error) {
	c.head = h
	if h.flags&flagLost != 0 {
		c.whole = true
		return nil
	}
	c.body = append(c.body[:0], body...)
	c.spans, c.packed, err = parseSectionTable(c.spans[:0], &c.head, c.body)
	for _, s := range c.spans {
		c.names = append(c.names, s.section)
	}
	return err
}

// Position returns the position of the commit.
func (c *commit) Position() Position { return Position{Log: c.log, Number: c.head.number} }

// Received returns the time of day at which the commit was received, in nanoseconds since 1970.
func (c *commit) Received() int64 { return c.head.received }

// Listening returns how long, in total, the server has been able to receive results until the commit.
func (c *commit) Listening() time.Duration { return c.head.listening }

// Sections returns the sections (partition numbers) that have entries in the commit
func (c *commit) Sections() []Section { return c.names }

// Entries calls fn for each entry of one section (partition) in the commit
func (c *commit) Entries(s Section, fn func(data []byte) error) error {
	low, high := 0, len(c.spans)
	for low < high {
		if mid := int(uint(low+high) >> 1); c.spans[mid].section < s {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(c.spans) || c.spans[low].section != s {
		return nil
	}
	if err := c.unpackEntries(); err != nil {
		return fmt.Errorf("read commit %d: %w", c.head.number, err)
	}
	row := c.spans[low]
	return forEachEntry(c.raw[row.start:row.end], row.count, fn)
}

// unpackEntries decompresses the entries of the commit, once for all readers.
func (c *commit) unpackEntries() error {
	c.inflate.Lock()
	defer c.inflate.Unlock()
	if c.whole || c.broken != nil {
		return c.broken
	}
	size, err := s2.DecodedLen(c.packed)
	if err == nil && size != int(c.head.raw) {
		err = errInvalidContent
	}
	if err == nil {
		c.raw = resizeBuffer(c.raw, size)
		c.raw, err = s2.Decode(c.raw, c.packed)
	}
	c.whole, c.broken = err == nil, err
	return err
}

// Retain increments the commit's reference count, so that its memory is not reused before Release
func (c *commit) Retain() {
	if c.refs.Add(1) < 2 {
		panic("BUG: a commit was retained after its last release")
	}
}

// Release decrements the commit's reference count. At zero the memory is reused.
func (c *commit) Release() {
	switch left := c.refs.Add(-1); {
	case left == 0:
		c.pool.Put(c)
	case left < 0:
		panic("BUG: a commit was released more often than retained")
	}
}

// encode appends the encoded commit to dst, with the checksums in its header.
func (c *commit) encode(dst []byte) []byte {
	c.head.entries, c.head.raw = 0, uint32(len(c.raw))
	for _, s := range c.spans {
		c.head.entries += s.count
	}
	c.head.sections = uint16(len(c.spans))
	var empty [commitHeaderSize]byte
	dst = append(dst[:0], empty[:]...)
	dst = appendSectionTable(dst, c.spans)
	if len(c.raw) > 0 {
		room := len(dst) + s2.MaxEncodedLen(len(c.raw))
		if cap(dst) < room {
			dst = append(make([]byte, 0, room+room/4), dst...)
		}
		packed := s2.Encode(dst[len(dst):cap(dst)], c.raw)
		dst = dst[:len(dst)+len(packed)]
	}
	c.head.encodeHeader(dst)
	return dst
}
