package muster

import (
	"testing"
	"testing/synctest"

	"github.com/muster-fleet/muster/internal/queue"
)

// A writer that waits for a peer must not keep what waits behind it: the next look
// of the housekeeper calls another one.
func TestNudgeCallsAWriterWhereNobodyMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox("test", laneAck, 10, &queue.Registry{})
		o.put(&session{})
		o.take()             // by the writer that is stuck
		o.n, o.passed = 1, 2 // put beside it, with the signal gone to nobody
		o.list[o.head] = &session{}
		got := make(chan *session)
		o.n = 0
		go func() { got <- o.take() }()
		synctest.Wait() // it waits
		o.mu.Lock()
		o.n = 1
		o.mu.Unlock()
		o.nudge()
		o.nudge()
		if <-got == nil {
			t.Error("nothing taken")
		}
		o.nudge() // nothing waits: nobody is called
	})
}

// Whatever is put is taken, by few writers or many.
func TestOutboxPassesEverythingOn(t *testing.T) {
	o := newOutbox("test", laneAck, 10, &queue.Registry{})
	const all = 10_000
	got := make(chan *session, all)
	for range 4 {
		go func() {
			for x := o.take(); x != nil; x = o.take() {
				got <- x
			}
		}()
	}
	for range all {
		o.put(&session{})
	}
	seen := map[*session]bool{}
	for range all {
		seen[<-got] = true
	}
	o.close()
	if len(seen) != all {
		t.Errorf("%d of %d sessions taken", len(seen), all)
	}
}
