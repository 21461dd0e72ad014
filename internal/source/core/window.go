package core

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Window bounds the bytes that one session has handed to the journal and that are not committed yet, and ends the
// session's appends: once Displace has returned, no entry of the session comes to the journal.
//
// A source embeds it in its session. Lock order: the append lock (Acquire to Release), then Mu, which also guards the
// fields that the source writes below it.
type Window struct {
	Mu      sync.Mutex
	Changed sync.Cond // signalled when uncommitted bytes were committed or the session ended; its lock is Mu

	appendLock  sync.Mutex
	uncommitted int
	ended       bool
}

// Open prepares a window; call it before any other method.
func (w *Window) Open() { w.Changed.L = &w.Mu }

// Acquire waits until size bytes fit into a window of most bytes; one entry always fits. It returns false if the session
// has ended. Else the caller holds the append lock and Mu: it unlocks Mu, appends, and calls Release.
func (w *Window) Acquire(size, most int) bool {
	w.appendLock.Lock()
	w.Mu.Lock()
	for w.uncommitted > 0 && w.uncommitted+size > most && !w.ended {
		w.Changed.Wait()
	}
	if w.ended {
		w.Mu.Unlock()
		w.appendLock.Unlock()
		return false
	}
	w.uncommitted += size
	return true
}

// Release gives the append lock back.
func (w *Window) Release() { w.appendLock.Unlock() }

// Commit removes size bytes from the uncommitted ones. An error ends the session, whose agent sends the bytes again in
// another session. The caller holds Mu.
func (w *Window) Commit(size int, err error) {
	w.uncommitted -= size
	if err != nil {
		w.ended = true
	}
	w.Changed.Signal()
}

// Ended reports whether the session takes no more entries.
func (w *Window) Ended() bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.ended
}

// EndedLocked is Ended for callers that hold Mu.
func (w *Window) EndedLocked() bool { return w.ended }

// End ends the appends of the session: it takes no more entries.
func (w *Window) End() {
	w.Mu.Lock()
	w.EndLocked()
	w.Mu.Unlock()
}

// EndLocked is End for callers that hold Mu.
func (w *Window) EndLocked() {
	w.ended = true
	w.Changed.Broadcast()
}

// Displace ends the appends of the session as End does, and waits for an append that is under way.
func (w *Window) Displace() {
	w.End()
	w.appendLock.Lock() // the session's last append holds it
	defer w.appendLock.Unlock()
}

// WithAppendLock calls fn with the append lock held, unless the session is over.
func (w *Window) WithAppendLock(fn func()) {
	w.appendLock.Lock()
	defer w.appendLock.Unlock()
	if !w.Ended() {
		fn()
	}
}

// Peer describes a machine that connected with the identity of a node, to tell apart two machines with the same
// identity.
type Peer struct {
	Address string    // network address, without the port
	Machine string    // first digits of the machine id; empty: unknown
	Since   time.Time // start of its session, or time of its refusal
}

func (p Peer) String() string {
	if p.Machine == "" {
		return p.Address
	}
	return p.Address + " (machine " + p.Machine + ")"
}

// Clone reports that a machine was refused because another one with the same identity is connected.
type Clone struct {
	Node    Node
	Holder  Peer // the connected machine
	Refused Peer
}

// Probe asks the agent of a session whether it is alive, with a numbered ping. Only the answer to that ping counts: frames
// that a machine sent before it died may still arrive.
type Probe struct{ pending atomic.Pointer[pendingProbe] }

type pendingProbe struct {
	number uint64
	alive  chan bool // receives the one answer; buffered
}

// Ask sends a ping by the function ping and waits for the answer, at most for within. ok is false if a probe is pending
// already.
func (p *Probe) Ask(ctx context.Context, within time.Duration, ping func()) (alive, ok bool) {
	pending := &pendingProbe{number: rand.Uint64(), alive: make(chan bool, 1)}
	if !p.pending.CompareAndSwap(nil, pending) {
		return false, false
	}
	defer p.pending.Store(nil)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ping()
	select {
	case alive = <-pending.alive:
	case <-ctx.Done():
	}
	return alive, true
}

// Pending reports whether a probe waits for its answer.
func (p *Probe) Pending() bool { return p.pending.Load() != nil }

// Payload returns the payload for the next ping, the number of the pending probe; empty: no probe is pending.
func (p *Probe) Payload() []byte {
	if pending := p.pending.Load(); pending != nil {
		return binary.BigEndian.AppendUint64(nil, pending.number)
	}
	return nil
}

// Pong ends the pending probe as alive if payload is the number of this probe.
func (p *Probe) Pong(payload []byte) {
	if pending := p.pending.Load(); pending != nil && len(payload) == 8 && binary.BigEndian.Uint64(payload) == pending.number {
		pending.reportAlive(true)
	}
}

// Fail ends the pending probe as not alive, because the session has ended.
func (p *Probe) Fail() {
	if pending := p.pending.Load(); pending != nil {
		pending.reportAlive(false)
	}
}

func (p *pendingProbe) reportAlive(alive bool) {
	select {
	case p.alive <- alive:
	default:
	}
}

// Alive asks the agent of a session whether it is alive; an ended session is not. ok is false if another caller waits for
// the answer already.
func (x *Session) Alive(ctx, base context.Context, within time.Duration, ping func()) (alive, ok bool) {
	if x.Ended() {
		return false, true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(base, cancel)()
	return x.Ask(ctx, within, ping)
}
