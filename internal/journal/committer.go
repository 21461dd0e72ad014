package journal

import (
	"errors"
	"time"
)

// run is the committer: it lives from Open to Close.
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
			b = &batch{} // silence: the tick
		}
		if !l.commit(b) {
			break
		}
	}
	l.refuse()
	l.seal()
}

// await returns the next batch; nil with open: it is time for a tick; nil without:
// the log is closing and nothing waits.
func (l *Log) await(tick *time.Timer) (b *batch, open bool) {
	if l.opts.Linger > 0 && l.waiting() {
		l.linger()
	}
	if b := l.take(); b != nil {
		return b, true
	}
	var silence <-chan time.Time
	if l.opts.Tick > 0 {
		tick.Reset(l.opts.Tick)
		silence = tick.C
	}
	for {
		select {
		case <-l.wake:
		case <-silence:
			return nil, true
		case <-l.closing:
			return l.take(), false
		}
		if l.opts.Linger > 0 {
			l.linger()
		}
		if b := l.take(); b != nil {
			return b, true
		}
	}
}

// waiting says whether there is something to commit.
func (l *Log) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending) > 0
}

// linger lets a batch fill, for so long at most.
func (l *Log) linger() {
	timer := time.NewTimer(l.opts.Linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.full: // perhaps of a batch taken since: then this one is early, no more
	case <-l.closing:
	}
}

// commit makes one batch durable, delivers it and tells who waits. It is false
// when the log closed before the disk took it.
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
		c.head.chain, c.head.number = l.head.chain, l.head.number+1 // only this goroutine moves the head
		c.head.received, c.head.listening = l.writer.stamp(&l.opts, l.head)
		l.writer.bytes = c.encode(l.writer.bytes)
		at, err = l.write(l.writer.bytes, c.head)
		if !errors.Is(err, errRoom) {
			break
		}
		// Ticks go on meanwhile, and positions with them: a tail is let go when there are
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
	l.tell(b, c.Position(), err)
	l.giveBack(b)
	return err == nil
}

// publish makes the commit part of what readers see and lets Appends go on.
func (l *Log) publish(b *batch, c *commit, at int64) {
	size := int64(len(l.writer.bytes))
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
	l.stats.QueuedBytes -= int64(b.raw)
	l.writer.holds = len(b.entries) > 0
	l.wakeWaitersLocked()
}

func (l *Log) tell(b *batch, at Position, err error) {
	if err != nil {
		at = Position{}
	}
	for _, w := range b.waiters {
		w.who.Committed(w.token, at, err)
	}
}

// refuse tells those whose entries the disk did not take before Close.
func (l *Log) refuse() {
	for b := l.take(); b != nil; b = l.take() {
		l.tell(b, Position{}, ErrClosed)
	}
}

// seal ends the log with an empty commit: the last commit of a log is the one that
// a later damage can make look torn, so it should hold nothing.
func (l *Log) seal() {
	if l.writer.holds && l.Stats().Blocked == nil {
		l.commit(&batch{})
	}
}

// stamp is receive and listening time of the next commit.
func (w *writer) stamp(o *Options, before checkpoint) (received int64, listening time.Duration) {
	mono := o.Clock.Mono()
	step := max(0, mono-w.mono)
	w.mono = mono
	if !w.blocked.IsZero() {
		step = 0 // nothing was taken meanwhile
	}
	received = o.Clock.Wall()
	if received <= before.received {
		// The wall clock went back. Time goes on at half its pace until the wall
		// clock has caught up, so that it neither goes back nor stands still.
		received = before.received + int64(step/2)
	}
	return received, before.listening + min(step, listeningStep)
}
