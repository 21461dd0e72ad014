package core

import (
	"testing"
	"testing/synctest"

	"github.com/muster-fleet/muster/internal/queue"
)

// silentSender is a session whose Flush writes nothing.
type silentSender struct{ Session }

func (*silentSender) Flush(*Scratch, Duties) error { return nil }
func (*silentSender) FlushFailed()                 {}

func newTestOutbox() *Outbox[*silentSender] {
	return NewOutbox[*silentSender](NewLife(), Acks, "test", 10, &queue.Registry{}, func() {})
}

// A writer that waits for a peer must not keep the sessions behind it: the next Nudge wakes another writer.
func TestNudgeStartsAWriterWhenOthersAreStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestOutbox()
		o.queueSession(new(silentSender))
		o.takeSession()      // taken by the writer that is stuck
		o.n, o.passed = 1, 2 // one more was put, and its signal woke nobody
		o.ring[o.head] = new(silentSender)
		got := make(chan bool)
		o.n = 0
		go func() { _, ok := o.takeSession(); got <- ok }()
		synctest.Wait() // until the writer waits for a session
		o.mu.Lock()
		o.n = 1
		o.mu.Unlock()
		o.Nudge()
		o.Nudge()
		if !<-got {
			t.Error("nothing taken")
		}
		o.Nudge() // without a waiting session, no writer starts
	})
}

// Any number of writers takes every queued session exactly once.
func TestWritersTakeEverySessionOnce(t *testing.T) {
	o := newTestOutbox()
	const all = 10_000
	got := make(chan *silentSender, all)
	for range 4 {
		go func() {
			for x, ok := o.takeSession(); ok; x, ok = o.takeSession() {
				got <- x
			}
		}()
	}
	for range all {
		o.queueSession(new(silentSender))
	}
	seen := map[*silentSender]bool{}
	for range all {
		seen[<-got] = true
	}
	o.Close()
	if len(seen) != all {
		t.Errorf("%d of %d sessions taken", len(seen), all)
	}
}
