package core

import (
	"testing"
	"testing/synctest"

	"github.com/muster-fleet/muster/internal/queue"
)

// sender is a session that writes nothing.
type sender struct{ Session }

func (*sender) Flush(*Scratch, Duties) error { return nil }
func (*sender) FlushFailed()                 {}

func newTestOutbox() *Outbox[*sender] {
	return NewOutbox[*sender](NewLife(), Acks, "test", 10, &queue.Registry{}, func() {})
}

// A writer that waits for a peer must not keep the sessions behind it: the next Nudge wakes another writer.
func TestNudgeWakesAWriterWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestOutbox()
		o.queueSession(new(sender))
		o.takeSession()      // by the writer that is stuck
		o.n, o.passed = 1, 2 // one more was put, and its signal woke nobody
		o.ring[o.head] = new(sender)
		got := make(chan bool)
		o.n = 0
		go func() { _, ok := o.takeSession(); got <- ok }()
		synctest.Wait() // it waits
		o.mu.Lock()
		o.n = 1
		o.mu.Unlock()
		o.Nudge()
		o.Nudge()
		if !<-got {
			t.Error("nothing taken")
		}
		o.Nudge() // nothing waits
	})
}

// Few writers or many take every session once.
func TestOutboxPassesEverySessionOn(t *testing.T) {
	o := newTestOutbox()
	const all = 10_000
	got := make(chan *sender, all)
	for range 4 {
		go func() {
			for x, ok := o.takeSession(); ok; x, ok = o.takeSession() {
				got <- x
			}
		}()
	}
	for range all {
		o.queueSession(new(sender))
	}
	seen := map[*sender]bool{}
	for range all {
		seen[<-got] = true
	}
	o.Close()
	if len(seen) != all {
		t.Errorf("%d of %d sessions taken", len(seen), all)
	}
}
