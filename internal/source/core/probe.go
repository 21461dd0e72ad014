package core

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Peer is one of two machines with one identity.
type Peer struct {
	Address string    // network address, without the port
	Machine string    // the first digits of its machine id; empty: unknown
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
	alive  chan bool // has room for one
}

// Ask sends a ping by the function ping and waits for the answer, at most for within. ok is false if a probe is pending
// already.
func (p *Probe) Ask(ctx context.Context, within time.Duration, ping func()) (alive, ok bool) {
	pending := &pendingProbe{number: rand.Uint64(), alive: make(chan bool, 1)}
	if !p.pending.CompareAndSwap(nil, pending) {
		return false, false
	}
	defer p.pending.Store(nil)
	ping()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case alive = <-pending.alive:
	case <-timer.C:
	case <-ctx.Done():
	}
	return alive, true
}

// Pending reports whether a probe waits for its answer.
func (p *Probe) Pending() bool { return p.pending.Load() != nil }

// Payload returns the payload of the next ping; empty: no probe is pending.
func (p *Probe) Payload() []byte {
	if pending := p.pending.Load(); pending != nil {
		return binary.BigEndian.AppendUint64(nil, pending.number)
	}
	return nil
}

// Pong ends a pending probe if payload answers it.
func (p *Probe) Pong(payload []byte) {
	if pending := p.pending.Load(); pending != nil && len(payload) == 8 && binary.BigEndian.Uint64(payload) == pending.number {
		pending.end(true)
	}
}

// Fail ends a pending probe: the session has ended.
func (p *Probe) Fail() {
	if pending := p.pending.Load(); pending != nil {
		pending.end(false)
	}
}

func (p *pendingProbe) end(alive bool) {
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
