package core

import (
	"sync"
)

// Window bounds the bytes that one session has handed to the journal and that are not committed yet, and ends the
// session's appends: once Displace has returned, no entry of the session comes to the journal.
//
// A source embeds it in its session. Lock order: the append lock (Acquire to Release), then Mu, which also guards the
// fields that the source writes below it.
type Window struct {
	Mu      sync.Mutex
	Changed sync.Cond // uncommitted bytes fell, or the session ended; its lock is Mu

	appending   sync.Mutex
	uncommitted int
	over        bool
}

// Open prepares a window; call it before any other method.
func (w *Window) Open() { w.Changed.L = &w.Mu }

// Acquire waits until size bytes fit into a window of most bytes; one entry always fits. false: the session is over. Else
// the caller holds the append lock and Mu: it unlocks Mu, appends, and calls Release.
func (w *Window) Acquire(size, most int) bool {
	w.appending.Lock()
	w.Mu.Lock()
	for w.uncommitted > 0 && w.uncommitted+size > most && !w.over {
		w.Changed.Wait()
	}
	if w.over {
		w.Mu.Unlock()
		w.appending.Unlock()
		return false
	}
	w.uncommitted += size
	return true
}

// Release gives the append lock back.
func (w *Window) Release() { w.appending.Unlock() }

// Commit gives size bytes back. After an error the session is over: its agent sends them again in another one. The
// caller holds Mu.
func (w *Window) Commit(size int, err error) {
	w.uncommitted -= size
	if err != nil {
		w.over = true
	}
	w.Changed.Signal()
}

// Ended reports whether the session takes no more entries.
func (w *Window) Ended() bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.over
}

// EndedLocked is Ended for callers with Mu.
func (w *Window) EndedLocked() bool { return w.over }

// End lets the session take no more entries.
func (w *Window) End() {
	w.Mu.Lock()
	w.EndLocked()
	w.Mu.Unlock()
}

// EndLocked is End for callers with Mu.
func (w *Window) EndLocked() {
	w.over = true
	w.Changed.Broadcast()
}

// Displace is End, and waits for an append under way.
func (w *Window) Displace() {
	w.End()
	w.appending.Lock() // the session's last append holds it
	defer w.appending.Unlock()
}

// Appending calls fn with the append lock held, unless the session is over.
func (w *Window) Appending(fn func()) {
	w.appending.Lock()
	defer w.appending.Unlock()
	if !w.Ended() {
		fn()
	}
}
