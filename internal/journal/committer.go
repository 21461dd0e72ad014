package journal

import (
	"errors"
	"time"
)

// run is the committer. It lives from Open to Close.
func (l *Log) run() {
	defer close(l.done)
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	for {
		b, open := l.await(tick)
		if b == nil && !open {
			break
		}
		if b == nil {
			b = &batch{} // a tick
		}
		if !l.commit(b) {
			break
		}
	}
	l.rejectQueued()
	l.seal()
}

// await returns the next batch. Nil with open: a tick is due. Nil without open: the log is closing and
// the queue is empty.
func (l *Log) await(tick *time.Timer) (b *batch, open bool) {
	if l.opts.Linger > 0 && !l.queue.empty() {
		l.linger()
	}
	if b := l.queue.next(); b != nil {
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
			return l.queue.next(), false
		}
		if l.opts.Linger > 0 {
			l.linger()
		}
		if b := l.queue.next(); b != nil {
			return b, true
		}
	}
}

// linger waits up to Options.Linger for a batch to fill.
func (l *Log) linger() {
	timer := time.NewTimer(l.opts.Linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.queue.full: // perhaps of an earlier batch: then this one leaves early
	case <-l.closing:
	}
}

// commit makes one batch durable, delivers it and calls its Waiters. It returns false where the log was
// closed before the disk accepted the batch.
func (l *Log) commit(b *batch) bool {
	began := time.Now()
	c := newCommit(&l.commits)
	defer c.Release()
	c.log, c.whole = l.folder.incarnation.ID, true
	l.writer.grouper.group(b, c)
	c.head.incarnation = l.folder.incarnation.ID
	var at int64
	var err error
	for {
		c.head.chain, c.head.number = l.head.chain, l.head.number+1 // only this goroutine changes the head
		c.head.received, c.head.listening = l.writer.stamp(&l.opts, l.head)
		l.writer.bytes = c.encode(l.writer.bytes)
		at, err = l.write(l.writer.bytes, c.head)
		if !errors.Is(err, errRoom) {
			break
		}
		// Ticks go on meanwhile, and positions with them: old segments are cut when there are
		// snapshots of two later positions.
		if !l.commit(&batch{}) {
			err = ErrClosed
			break
		}
	}
	if err == nil {
		l.publish(b, c, at)
		if l.opts.ObserveCommit != nil {
			l.opts.ObserveCommit(CommitStats{Took: time.Since(began), Entries: len(b.entries), Signals: b.signals, Bytes: len(l.writer.bytes)})
		}
		if l.opts.Deliver != nil {
			l.opts.Deliver(c)
		}
	}
	notifyWaiters(b, c.Position(), err)
	l.queue.recycle(b)
	return err == nil
}

// publish makes the commit visible to readers and frees its space in the queue.
func (l *Log) publish(b *batch, c *commit, at int64) {
	size := int64(len(l.writer.bytes))
	defer l.queue.release(b.raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = checkpoint{
		number: c.head.number, chain: c.head.crc,
		received: c.head.received, listening: c.head.listening,
	}
	s := l.segments[len(l.segments)-1]
	s.mark(c.head.number, at)
	s.last, s.end, s.disk = c.head.number, at+size, at+size
	l.stats.Commits++
	l.stats.Entries += uint64(len(b.entries))
	l.stats.RawBytes += uint64(b.raw)
	l.stats.WrittenBytes += uint64(size)
	l.stats.SizeBytes += size
	l.writer.endsInEntries = len(b.entries) > 0
}

// notifyWaiters calls the Waiters of a batch.
func notifyWaiters(b *batch, at Position, err error) {
	if err != nil {
		at = Position{}
	}
	for _, w := range b.waiters {
		w.waiter.Committed(w.token, at, err)
	}
}

// rejectQueued calls the Waiters of batches that the disk did not accept before Close.
func (l *Log) rejectQueued() {
	for b := l.queue.next(); b != nil; b = l.queue.next() {
		notifyWaiters(b, Position{}, ErrClosed)
	}
}

// seal ends the log with an empty commit. Damage of the last commit looks like a torn write and is cut,
// so the last commit should have no entries.
func (l *Log) seal() {
	if l.writer.endsInEntries && l.Stats().Blocked == nil {
		l.commit(&batch{})
	}
}

// stamp returns the receive time and listening time of the next commit.
func (w *writer) stamp(o *Options, before checkpoint) (received int64, listening time.Duration) {
	mono := o.Clock.Mono()
	step := max(0, mono-w.mono)
	w.mono = mono
	if !w.blocked.IsZero() {
		step = 0 // nothing was accepted meanwhile
	}
	received = o.Clock.Wall()
	if received <= before.received {
		// The wall clock went back. Receive time runs at half speed until the wall clock has
		// caught up, so that it neither goes back nor stands still.
		received = before.received + int64(step/2)
	}
	return received, before.listening + min(step, listeningStep)
}
