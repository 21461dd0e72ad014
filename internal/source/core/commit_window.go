package core

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Window limits how many bytes a session may append to the journal before the next commit to disk. It can also
// forbid further appends.
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

// Open initializes the limit of uncommitted bytes for a new session. Call it before any other method.
func (w *Window) Open() { w.Changed.L = &w.Mu }

// Acquire waits until a session may append `size` more bytes, within its limit of uncommitted bytes. The limit is most
// uncommitted bytes. One entry always fits if no other is uncommitted. It returns false if the session has ended. Else
// the caller holds the append lock and Mu: it unlocks Mu, appends, and calls Release.
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

// Release unlocks the append lock that Acquire took, after an append of the session to the journal.
func (w *Window) Release() { w.appendLock.Unlock() }

// Commit reduces the session's uncommitted bytes after a commit of the journal. An error ends the session,
// whose agent sends the bytes again in another session. The caller holds Mu.
func (w *Window) Commit(size int, err error) {
	w.uncommitted -= size
	if err != nil {
		w.ended = true
	}
	w.Changed.Signal()
}

// Ended reports whether further journal appends of the session are forbidden.
func (w *Window) Ended() bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.ended
}

// EndedLocked reports whether further journal appends of the session are forbidden, for callers with the lock
// Mu.
func (w *Window) EndedLocked() bool { return w.ended }

// End bars the session from further appends to the journal.
func (w *Window) End() {
	w.Mu.Lock()
	w.EndLocked()
	w.Mu.Unlock()
}

// EndLocked bars the session from further appends to the journal, for callers with the lock Mu.
func (w *Window) EndLocked() {
	w.ended = true
	w.Changed.Broadcast()
}

// Displace bars a replaced session from further journal appends, and waits for the end of a running append.
func (w *Window) Displace() {
	w.End()
	w.appendLock.Lock() // the session's last append holds it
	defer w.appendLock.Unlock()
}

// WithAppendLock calls fn while no append of the session runs, unless the session may no longer append.
func (w *Window) WithAppendLock(fn func()) {
	w.appendLock.Lock()
	defer w.appendLock.Unlock()
	if !w.Ended() {
		fn()
	}
}

// Peer identifies the machine and address behind a connection, to recognize two machines with one identity.
type Peer struct {
	Address string    // network address, without the port
	Machine string    // first digits of the machine id; empty: unknown
	Since   time.Time // start of its session, or time of its refusal
}

// String returns the address and, if known, the machine id of the peer.
func (p Peer) String() string {
	if p.Machine == "" {
		return p.Address
	}
	return p.Address + " (machine " + p.Machine + ")"
}

// Clone describes a machine that the server refused because another machine uses the same identity.
type Clone struct {
	Node    Node
	Holder  Peer // the connected machine
	Refused Peer
}

// Probe tests whether an agent is alive, by a ping whose pong must return the same number. The agent must
// answer with the same number. Only the answer to that ping counts: frames that a machine sent before it died
// may still arrive.
type Probe struct{ pending atomic.Pointer[pendingProbe] }

// pendingProbe is a ping to an agent that has not answered yet.
type pendingProbe struct {
	number uint64
	alive  chan bool // receives the one answer; buffered
}

// Ping pings an agent by the given function, and reports whether the agent answers in time. ok is false if a
// probe is pending already.
func (p *Probe) Ping(ctx context.Context, within time.Duration, ping func()) (alive, ok bool) {
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

// Pending reports whether a ping to the agent has no answer yet.
func (p *Probe) Pending() bool { return p.pending.Load() != nil }

// Payload returns the number in the present ping to the agent. The text is empty if no probe waits.
func (p *Probe) Payload() []byte {
	if pending := p.pending.Load(); pending != nil {
		return binary.BigEndian.AppendUint64(nil, pending.number)
	}
	return nil
}

// Pong ends the waiting for an agent's answer as alive, if the pong has the expected number.
func (p *Probe) Pong(payload []byte) {
	if pending := p.pending.Load(); pending != nil && len(payload) == 8 && binary.BigEndian.Uint64(payload) == pending.number {
		pending.reportAlive(true)
	}
}

// Fail ends the wait for an agent's pong as not alive, because the session has ended.
func (p *Probe) Fail() {
	if pending := p.pending.Load(); pending != nil {
		pending.reportAlive(false)
	}
}

// reportAlive tells the goroutine waiting for a pong whether the agent is alive.
func (p *pendingProbe) reportAlive(alive bool) {
	select {
	case p.alive <- alive:
	default:
	}
}

// Alive pings the agent and reports whether the agent answers. An ended session does not. ok is false if another
// caller waits for the answer already.
func (x *Session) Alive(ctx, base context.Context, within time.Duration, ping func()) (alive, ok bool) {
	if x.Ended() {
		return false, true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(base, cancel)()
	return x.Ping(ctx, within, ping)
}
