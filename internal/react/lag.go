package react

import (
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// lag is what a backlog knows of what it dropped.
//
// A backlog that overflowed takes nothing until what it holds is recorded and a pass (see
// Replay) has made again what followed. Near the journal's head it collects: what comes
// from then on is taken again, and recorded once the pass has come to where that began. If it
// overflows meanwhile, it drops all of it, and the pass goes on.
type lag struct {
	on       bool
	from     journal.Position // history lacks something from here on, at most
	since    int64            // when that was received, Unix ns
	collects bool
	passing  bool             // a pass is under way
	reached  journal.Position // how far it has read
}

// drop leaves a transition out. mu is held.
func (b *backlog) drop(t *event.Transition) {
	b.overflow++
	switch l := &b.lag; {
	case !l.on:
		*l = lag{on: true, from: t.At, since: t.Received}
	case l.collects:
		l.collects = false
		b.forget()
	case !l.passing && t.At.Number < l.from.Number:
		l.from, l.since = t.At, t.Received // workers of the view are not in step
	}
}

// forget drops all that waits. mu is held, and nothing of it is being recorded.
func (b *backlog) forget() {
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

// begin says that a pass begins behind a position: nothing before it is missing.
func (b *backlog) begin(at journal.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.passing, b.lag.reached = true, at
	at.Number++
	if at.Number < b.lag.from.Number {
		b.lag.from = at
	}
	b.announce() // who waits for what lies far ahead need not
}

// end says that the pass is over, whether or not it caught up.
func (b *backlog) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.passing = false
	if b.lag.collects { // another pass brings it
		b.lag.collects = false
		b.forget()
	}
	b.announce()
}

// read says how far the pass has read.
func (b *backlog) read(at journal.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.reached = at
}

// went says that all up to a commit is recorded, and when that was received.
func (b *backlog) went(at journal.Position, received int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at.Number++
	if at.Number > b.lag.from.Number {
		b.lag.from, b.lag.since = at, received
	}
	b.announce()
}

// ahead says whether a commit is one that the pass comes to only later.
func (b *backlog) ahead(at journal.Position) bool {
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
