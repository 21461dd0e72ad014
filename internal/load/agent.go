package load

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// session is what an agent needs of link.Session.
type session interface {
	Read() error
	SendFrame(key wire.StreamKey, last uint64, frame []byte) error
	Tick(now time.Time)
	Stats(x *wire.Stats) error
	SendFacts(x *wire.Facts) error
	Sent() uint64
	Bye(reason string)
	Close()
}

// checkSet is an assignment's chunks, shared by all agents that hold the same.
type checkSet struct {
	chunks []*model.Chunk // those that are played, ascending by id
}

// maxFrameBytes closes a frame that holds this much output, as agents do.
const maxFrameBytes = 128 << 10

// slowLasts is for how long Slow is honoured, as agents do.
const slowLasts = int64(60 * time.Second)

// maxBackoff is the longest mean wait between two attempts to connect: shorter than
// real agents', because a storm is what is measured.
const maxBackoff = time.Second

// agent is one simulated machine. Its lock guards everything below it; the sender
// that owns it and its reader meet there.
type agent struct {
	run   *run
	tally *tally
	index int
	uid   uuid.UUID
	name  string
	cfg   *link.Config

	mu        sync.Mutex
	session   session // nil while away
	since     int64   // when it was welcomed last, ns; zero: never
	node      model.NodeID
	keepalive int64 // ns between signs of life
	set       *checkSet
	stream    wire.StreamID
	filling   *frame
	assigned  *link.Held
	held      []*frame // closed, not acknowledged, by number; the first toSend are sent
	sent      int
	spooled   int // bytes in filling and held
	lastSend  int64
	statsAt   int64  // when it tells about itself next
	sentBytes uint64 // by sessions before this one
	runs      uint64 // results that were made
	lost      uint64 // those of them that the spool did not take
	slowUntil int64  // until then frames …
	slowFor   int64  // … linger this long, and nothing leaves earlier
	status    []model.Status
	ledger    ledger
	facts     map[string]string // as this session was told
}

var errLeft = errors.New("the run is over")

// live keeps a session open until ctx ends.
func (a *agent) live(ctx context.Context) {
	const first = 50 * time.Millisecond
	wait := first
	for ctx.Err() == nil {
		s, err := a.open(ctx)
		if err == nil {
			wait = first
			err = s.Read()
			a.left(ctx, err)
			var leaving *link.LeavingError
			if errors.As(err, &leaving) {
				pause(ctx, leaving.Retry)
			}
			continue
		}
		a.mu.Lock()
		broken := a.session != nil // welcomed, and then not
		a.mu.Unlock()
		if broken {
			a.left(ctx, err)
		}
		if ctx.Err() != nil {
			return
		}
		a.run.failed(a, err)
		var refused *link.RefusedError
		if errors.As(err, &refused) && refused.RetryMs > 0 {
			wait = max(wait, time.Duration(refused.RetryMs)*time.Millisecond)
		}
		pause(ctx, wait/2+rand.N(wait))
		wait = min(2*wait, maxBackoff)
	}
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (a *agent) open(ctx context.Context) (session, error) {
	select {
	case a.run.opening <- struct{}{}:
		defer func() { <-a.run.opening }()
	case <-ctx.Done():
		return nil, errLeft
	}
	a.mu.Lock()
	hello := wire.Hello{Protocol: wire.Protocol, Node: a.uid, Name: a.name, MachineID: a.uid.String(), BootID: a.run.bootID,
		Session: rand.Uint64(), Version: "load", OS: "linux", Arch: "amd64", ClockUnixMs: time.Now().UnixMilli(),
		Streams: []wire.StreamHeld{a.holds()}}
	if a.run.cfg.Facts != nil {
		a.facts = a.run.cfg.Facts(a.index)
		hello.Facts = a.facts
	}
	assigned := a.assigned
	a.mu.Unlock()
	return a.run.connect(ctx, a.cfg, a.run.cfg.Server, &hello, assigned, a)
}

// holds says what is not acknowledged yet. Caller holds the lock.
func (a *agent) holds() wire.StreamHeld {
	h := wire.StreamHeld{StreamKey: wire.StreamKey{Stream: a.stream}, First: a.ledger.sent + 1, Last: a.ledger.sent}
	if a.filling != nil {
		h.Last -= uint64(len(a.filling.each))
		h.First = h.Last + 1
	}
	if len(a.held) > 0 {
		f := a.held[0]
		h.First = f.first + uint64(f.done)
		h.OldestAgeMs = uint64(max(0, a.run.now()-f.due)) / 1e6
	}
	return h
}

// left notes the end of a session; one that the run itself ends is no loss.
func (a *agent) left(ctx context.Context, err error) {
	a.mu.Lock()
	if a.session != nil {
		a.sentBytes += a.session.Sent()
	}
	a.session = nil
	a.mu.Unlock()
	a.run.connected.Add(-1)
	if ctx.Err() == nil {
		a.run.lost(a, err)
	}
}

// Welcomed: what the server keeps is acknowledged, the rest is sent again.
func (a *agent) Welcomed(s *link.Session, w *wire.Welcome) { a.welcome(s, w) }

func (a *agent) welcome(s session, w *wire.Welcome) {
	a.mu.Lock()
	a.session, a.node = s, w.Node
	a.keepalive = int64(w.KeepaliveMs) * int64(time.Millisecond)
	a.slowUntil = 0
	if a.since == 0 {
		a.run.first.Add(1)
	}
	a.since = max(1, a.run.now())
	a.statsAt = a.since
	last := wire.StreamLast{StreamKey: wire.StreamKey{Stream: a.stream}} // not named: nothing is kept
	for _, l := range w.Last {
		if l.StreamKey == last.StreamKey {
			last = l
		}
	}
	a.kept(last, false)
	clear(a.ledger.void) // what is not kept is judged anew
	for _, f := range a.held[:a.sent] {
		a.tally.mu.Lock()
		a.tally.resent += uint64(len(f.each) - f.done)
		a.tally.mu.Unlock()
	}
	a.sent = 0
	a.pump()
	a.mu.Unlock()
	a.run.welcomes.Add(1)
	a.run.connected.Add(1)
}

// Assigned: from now on results can name chunks.
func (a *agent) Assigned(_ *link.Session, held *link.Held) { a.assign(held) }

func (a *agent) assign(held *link.Held) {
	set := a.run.checkSet(held)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.assigned = held // like an agent that has it on disk: the next session need not send it again
	if set == nil || a.set != nil {
		return // not yet all checks, or a change during the run: play what we began with
	}
	a.set = set
	a.status = make([]model.Status, len(set.chunks))
	a.ledger.states = make([]entry, len(set.chunks))
	a.run.ready.Add(1)
}

// Acked counts what is kept and what is refused, and goes on sending.
func (a *agent) Acked(_ *link.Session, ack *wire.Ack) { a.ack(ack) }

func (a *agent) ack(ack *wire.Ack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.acking(a.since)
	for i := range ack.Refused {
		a.refuse(&ack.Refused[i])
	}
	for _, l := range ack.Last {
		a.kept(l, true)
	}
	a.pump()
}

// kept drops what is acknowledged; heard as in ledger.pass. Caller holds the lock.
func (a *agent) kept(l wire.StreamLast, heard bool) {
	now, last, gone := a.run.now(), a.believe(l), 0
	for _, f := range a.held {
		if f.first+uint64(f.done) > last {
			break
		}
		a.settle(f, last, heard, now)
		if f.done < len(f.each) {
			break
		}
		a.spooled -= len(f.signals)
		a.run.frames.Put(f)
		gone++
	}
	a.held = append(a.held[:0], a.held[gone:]...)
	a.sent = max(0, a.sent-gone)
}

// settle counts the signals of a frame up to a number.
func (a *agent) settle(f *frame, last uint64, heard bool, now int64) {
	t := a.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	measured, kept := t.measured(f.due), int64(0)
	for ; f.done < len(f.each) && f.first+uint64(f.done) <= last; f.done++ {
		number, sign := f.first+uint64(f.done), &f.each[f.done]
		if reason, refused := a.ledger.pass(number, sign, heard); refused {
			t.reasons[reason]++
			if measured {
				t.refused++
			}
			continue
		}
		if measured {
			kept++
			record(t.whole, now-sign.intended, 1)
		}
	}
	if kept > 0 {
		t.acked += uint64(kept)
		record(t.beyond, now-f.due, kept)
	}
}

// pump sends what is closed and not sent, as far as the session takes it. Caller
// holds the lock.
func (a *agent) pump() {
	if a.session == nil || a.sent == len(a.held) {
		return
	}
	buf := a.run.scratch.Get().(*[]byte)
	defer a.run.scratch.Put(buf)
	for a.sent < len(a.held) {
		f := a.held[a.sent]
		now := a.run.now()
		*buf = f.appendTo(*buf, a.stream, a.run.bootMs(now))
		err := a.session.SendFrame(wire.StreamKey{Stream: a.stream}, f.last(), *buf)
		if !errors.Is(err, link.ErrFull) {
			a.ledger.shown = max(a.ledger.shown, f.last()) // perhaps whole, whatever the error
		}
		if err != nil {
			return // full: the next acknowledgement goes on; ended: the next session does
		}
		a.lastSend = now
		a.sent++
	}
}

// add puts one result of check c into the frame that is being filled, and says
// whether that is to leave at once. A spool that is full takes none: it is counted,
// and has no number. Caller holds the lock.
func (a *agent) add(c int, intended int64) (leaves, began bool) {
	a.runs++
	if a.spooled >= a.run.cfg.Spool {
		a.lost++
		a.tally.spoolFull(intended)
		return false, false
	}
	f, began := a.fill(intended)
	chunk := a.set.chunks[c]
	buf := a.run.scratch.Get().(*[]byte)
	output, status := a.run.cfg.Generate.Result((*buf)[:0], a.index, c, chunk, a.run.seq.Add(1), a.status[c])
	changed, before := status != a.status[c], len(f.signals)
	a.status[c] = status
	f.add(&wire.Signal{Kind: wire.SignalResult, Chunk: chunk.ID, Status: status, AtMs: a.run.bootMs(intended), DurationMs: 5, Output: output}, intended, c)
	*buf = output
	a.run.scratch.Put(buf)
	a.spooled += len(f.signals) - before
	a.ledger.sent++
	full := len(f.each) >= wire.MaxSignals || len(f.signals) >= maxFrameBytes
	early := changed || a.run.cfg.PerFrame > 0 && len(f.each) >= a.run.cfg.PerFrame
	return full || early && intended >= a.slowUntil, began
}

func (a *agent) fill(intended int64) (f *frame, began bool) {
	if a.filling != nil {
		return a.filling, false
	}
	linger := int64(a.run.cfg.Linger)
	if intended < a.slowUntil {
		linger = max(linger, a.slowFor)
	}
	f = a.run.frames.Get().(*frame)
	f.reset(a.ledger.sent+1, intended+linger)
	a.filling = f
	return f, true
}

// leave closes the frame that is being filled and sends it. Caller holds the lock.
func (a *agent) leave(due int64) {
	f := a.filling
	if f == nil {
		return
	}
	a.filling = nil
	f.due = min(f.due, due)
	a.tally.frame(f, a.run.now())
	a.held = append(a.held, f)
	a.pump()
}

// alive sends a keepalive where nothing was sent for its interval.
func (a *agent) alive(now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil || a.set == nil || a.keepalive == 0 || now-a.lastSend < a.keepalive || a.filling != nil {
		return
	}
	f, _ := a.fill(now)
	f.add(&wire.Signal{Kind: wire.SignalKeepalive, AtMs: a.run.bootMs(now)}, now, -1)
	a.spooled += len(f.signals)
	a.ledger.sent++
	a.leave(now)
}

// tellFacts says what is true of the machine, where the session was told otherwise.
func (a *agent) tellFacts() {
	if a.run.cfg.Facts == nil {
		return
	}
	now := a.run.cfg.Facts(a.index)
	a.mu.Lock()
	s, same := a.session, maps.Equal(now, a.facts)
	a.mu.Unlock()
	if s != nil && !same && s.SendFacts(&wire.Facts{Facts: now}) == nil {
		a.mu.Lock()
		a.facts = now
		a.mu.Unlock()
	}
}

// RunNow is answered and not played: a simulated machine has nothing to run. Nobody's
// answer is waited for in a measured run.
func (a *agent) RunNow(s *link.Session, r *wire.Run) {
	if r.ID == 0 || r.Cancel {
		return
	}
	_ = s.Answer(&wire.Ran{ID: r.ID, Output: []byte("a simulated agent runs nothing\n"), Done: true, DurationMs: 5})
}

// Slow is done as agents do: for a minute frames linger longer and nothing leaves
// before. It is counted, because a server that asks for it is overloaded.
func (a *agent) Slow(_ *link.Session, linger time.Duration, reason string) {
	a.mu.Lock()
	a.slowUntil, a.slowFor = a.run.now()+slowLasts, int64(linger)
	a.mu.Unlock()
	a.run.slowed.Add(1)
	a.run.cfg.Log.Debug("server asks to slow down", "agent", a.name, "linger", linger, "reason", reason)
}

// Leaving: Read ends next, and live comes back after the time that the server names.
func (a *agent) Leaving(*link.Session, time.Duration, string) {}

var _ link.Handler = (*agent)(nil)
