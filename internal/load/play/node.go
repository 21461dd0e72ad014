package play

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// node is a simulated agent. Signal n of its stream is that of tick n-1, so that what it has to send is a range of ticks.
type node struct {
	*driver
	number int
	cfg    *link.Config

	mu      sync.Mutex
	session *link.Session // nil: none
	held    *link.Assignment
	ready   bool   // it had the assignment of the plan
	due     uint64 // ticks that are due
	sent    uint64 // ticks that are sent in this session, or acknowledged
	most    uint64 // ticks that were sent in any session
	acked   uint64 // ticks that are acknowledged
	wrong   uint64 // batches that must be refused, sent so far
	pace    link.Pace
}

// scratch is the memory of a sender for encoding.
type scratch struct {
	signals []byte
	frame   []byte
}

// Waits between two attempts to open a session.
const (
	firstWait = 50 * time.Millisecond
	mostWait  = 5 * time.Second // 10,000 agents that ask each second take a core from a server that starts
)

// live holds a session until ctx ends.
func (n *node) live(ctx context.Context) {
	for wait := firstWait; ctx.Err() == nil; wait = min(2*wait, mostWait) {
		s, err := n.open(ctx)
		if err == nil {
			wait = firstWait
			err = s.Read()
			n.mu.Lock()
			n.session = nil
			n.mu.Unlock()
			if ctx.Err() == nil {
				n.lost(n, err)
			}
		}
		var refused *link.RefusedError
		if errors.As(err, &refused) {
			wait = max(wait, time.Duration(refused.RetryMs)*time.Millisecond)
		}
		_ = pause.For(ctx, wait/2+rand.N(wait))
	}
}

// open opens a session; few are opened at once.
func (n *node) open(ctx context.Context) (*link.Session, error) {
	select {
	case n.opening <- struct{}{}:
		defer func() { <-n.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	uid, held := n.UID(n.number), n.held
	hello := wire.Hello{Name: n.Name(n.number), MachineID: uid.String(), BootID: "1", Version: "load", OS: "linux", Arch: "amd64", ClockUnixMs: time.Now().UnixMilli(),
		Streams: []wire.StreamRange{{StreamKey: n.stream(), First: n.acked + 1, Last: n.due}}}
	n.mu.Unlock()
	return link.Open(ctx, n.cfg, n.Addr, &hello, held, n)
}

// stream returns the key of the node's stream.
func (n *node) stream() wire.StreamKey {
	return wire.StreamKey{Stream: wire.StreamID(n.number + 1)}
}

// leave ends the session.
func (n *node) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session != nil {
		n.session.Close()
	}
}

// mostTicks bounds the ticks in a batch.
const mostTicks = 64

// visit sends the signals of all ticks that are due, and returns how many values they have that it sent for the first time.
func (n *node) visit(due uint64, now time.Duration, room *scratch) (values uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.due = max(n.due, min(due, n.Source.Ticks(n.number)))
	if n.session == nil || !n.ready {
		return 0
	}
	n.session.Tick(time.Now())
	if n.sent < n.due && n.pace.Due(n.Source.Due(n.number, n.sent), 0) > now {
		return 0
	}
	for n.sent < n.due {
		last := min(n.due, n.sent+mostTicks)
		frame := n.encode(n.sent, last, room)
		if err := n.session.SendFrame(n.stream(), last, frame); err != nil {
			return values // the reader ends with the session; a full window waits for the next visit
		}
		for n.sent = last; n.most < last; n.most++ {
			values += uint64(n.Source.Weight(n.number, n.most))
		}
	}
	return values
}

// encode encodes a batch with the signals of ticks.
func (n *node) encode(first, last uint64, room *scratch) []byte {
	room.signals = room.signals[:0]
	for tick := first; tick < last; tick++ {
		at := time.Duration(n.start.Load()) + n.Source.Due(n.number, tick) // on the boot clock
		room.signals = n.Source.AppendSignal(room.signals, n.number, tick, at)
	}
	return n.batch(n.stream(), first+1, room)
}

// batch encodes a batch with the signals in room.
func (n *node) batch(stream wire.StreamKey, first uint64, room *scratch) []byte {
	if cap(room.frame) < wsconn.Headroom {
		room.frame = make([]byte, wsconn.Headroom, 64<<10)
	}
	room.frame = wire.AppendBatchHeader(room.frame[:wsconn.Headroom], stream, first, n.cfg.BootMs(), len(room.signals))
	room.frame = append(room.frame, room.signals...)
	return room.frame
}

// sendWrong sends signals that the server must refuse, on a stream of their own, and sends what it has not acknowledged and the last
// signal before once more. It returns how many signals must be refused.
func (n *node) sendWrong() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == nil {
		return 0
	}
	var room scratch
	list := n.Source.Wrong(n.number)
	for i := range list {
		list[i].AtMs = n.cfg.BootMs()
		room.signals = wire.AppendSignal(room.signals, &list[i])
	}
	n.wrong++
	stream := wire.StreamKey{Stream: n.stream().Stream + wire.StreamID(n.wrong<<32)}
	if err := n.session.SendFrame(stream, uint64(len(list)), n.batch(stream, 1, &room)); err != nil {
		return 0
	}
	if again := max(n.acked, 1) - 1; again < n.sent {
		_ = n.session.SendFrame(n.stream(), n.sent, n.encode(again, n.sent, &room)) // a session that ended sends it again anyway
	}
	return len(list)
}

// OpenedSession implements link.Handler: what the server has is acknowledged, and the rest is sent again.
func (n *node) OpenedSession(s *link.Session, w *wire.Welcome) {
	last := uint64(0)
	for _, l := range w.Last {
		if l.StreamKey == n.stream() {
			last = l.Last
		}
	}
	n.keep(last, func() { n.session, n.pace, n.sent = s, link.Pace{}, n.acked })
}

// Assigned implements link.Handler.
func (n *node) Assigned(_ *link.Session, held *link.Assignment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = held
	if n.Source.Assigned(n.number, held) && !n.ready {
		n.ready = true
		n.driver.ready.Add(1)
	}
}

// Acked implements link.Handler.
func (n *node) Acked(_ *link.Session, ack *wire.Ack) {
	n.refused.Add(uint64(len(ack.Refused)))
	for _, l := range ack.Last {
		if l.StreamKey == n.stream() {
			n.keep(l.Last, func() {})
		}
	}
}

// keep records that the server has the signals of the first ticks; then is called under the same lock.
func (n *node) keep(ticks uint64, then func()) {
	n.mu.Lock()
	first := n.acked
	n.acked = max(n.acked, min(ticks, n.most))
	last := n.acked
	n.Source.Acked(n.number, last)
	then()
	n.mu.Unlock()
	for now := n.now(); first < last; first++ {
		n.ack(now-n.Source.Due(n.number, first), n.Source.Weight(n.number, first))
	}
}

// BackPressure implements link.Handler.
func (n *node) BackPressure(_ *link.Session, m *wire.BackPressure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pace.ApplyBackPressure(n.now(), m, rand.Float64())
}

// RunNow implements link.Handler and does nothing.
func (n *node) RunNow(*link.Session, *wire.Run) {}

// RoundRobinRuns implements link.Handler and does nothing.
func (n *node) RoundRobinRuns(*link.Session, *wire.RoundRobinRuns) {}

// Reply implements link.Handler and does nothing.
func (n *node) Reply(*link.Session, *wire.Exchange) {}

// ServerStops implements link.Handler and does nothing: Read returns.
func (n *node) ServerStops(*link.Session, time.Duration, string) {}
