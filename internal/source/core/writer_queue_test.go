package core

import (
	"testing"
	"testing/synctest"

	"github.com/muster-fleet/muster/internal/queue"
)

// silentSender is a fake session without a connection, for tests of the writer queue.
type silentSender struct{ Session }

// Flush writes nothing, because the fake session has no connection.
func (*silentSender) Flush(*WriteBuffers, MessageSet) error { return nil }

// FlushFailed does nothing, because writes of the fake session never fail.
func (*silentSender) FlushFailed() {}

// newTestQueue returns a writer queue for sessions without a connection. Their Flush writes nothing.
func newTestQueue() *WriterQueue[*silentSender] {
	return NewWriterQueue[*silentSender](NewGoroutines(), Acks, "test", 10, &queue.Registry{}, func() {})
}

// TestStuckWriterGetsHelper blocks the first writer goroutine, and expects AddWriterIfStuck to start a second
// writer. The writer waits for a peer that does not read.
func TestStuckWriterGetsHelper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestQueue()
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
		o.AddWriterIfStuck()
		o.AddWriterIfStuck()
		if !<-got {
			t.Error("nothing taken")
		}
		o.AddWriterIfStuck() // without a waiting session, no writer starts
	})
}

// TestWritersTakeEverySessionOnce checks that concurrent writers take every queued session exactly once.
func TestWritersTakeEverySessionOnce(t *testing.T) {
	o := newTestQueue()
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
