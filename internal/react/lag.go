package react

import (
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Lag describes how far history is behind the journal.
type Lag struct {
	Changes int           // transitions in memory
	Age     time.Duration // since the oldest transition was received that history does not hold
	Commits uint64        // of the journal, from its commit on
	Bytes   int64         // of the journal, about
	Again   bool          // the queue overflowed: transitions are derived again from the journal
}

// Lag returns how far history is behind the journal now.
func (r *Reactor) Lag() Lag {
	oldest, since, waits, _ := r.backlog.oldest()
	l := Lag{Changes: r.backlog.depth(), Again: r.backlog.lags()}
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
	from     journal.Position // history lacks something from here on, at most
	received int64            // when that was received, Unix ns
	collects bool
	passing  bool             // a pass is under way
	reached  journal.Position // how far it has read
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

func (b *backlog) lags() bool {
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
	b.announce() // awaitRecorded gives up on positions far ahead
}

// endPass ends a pass, whether or not it caught up.
func (b *backlog) endPass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.passing = false
	if b.lag.collects { // another pass derives them
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
	return b.lag.passing && at.Number > b.lag.reached.Number+1 // it may be reading the next one
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
