package react

import (
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

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
		l.from, l.received = t.At, t.Received // workers of the view are not in step
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

func (b *backlog) lagging() bool {
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
	b.announce() // who waits for what lies far ahead need not
}

// endPass ends a pass, whether or not it caught up.
func (b *backlog) endPass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.passing = false
	if b.lag.collects { // another pass brings it
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
	return b.lag.passing && at.Number > b.lag.reached.Number+1 // it may be at the next one
}

// collect takes again what comes from now on.
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
