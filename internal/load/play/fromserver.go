package play

import (
	"math/rand/v2"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// OpenedSession settles the signals that the server already has, and sends the rest again.
func (a *agent) OpenedSession(s *link.Session, w *wire.Welcome) { a.Welcome(s, w) }

// Welcome implements Agent.
func (a *agent) Welcome(s Session, w *wire.Welcome) {
	a.mu.Lock()
	a.session, a.node, a.maxBatch = s, w.Node, s.MaxBatch()
	a.keepalive = int64(w.KeepaliveMs) * int64(time.Millisecond)
	a.pace = link.Pace{}
	if a.since == 0 {
		a.fleet.first.Add(1)
	}
	a.since = max(1, a.fleet.Now())
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
		a.book.mu.Lock()
		a.book.counts.Resent += uint64(len(f.each) - f.done)
		a.book.mu.Unlock()
	}
	a.sent = 0
	a.pump()
	a.count()
	a.mu.Unlock()
}

// Assigned stores the agent's assignment, so that results can name its definitions, and tells the run's changes of intent
// about it.
func (a *agent) Assigned(_ *link.Session, held *link.Assignment) {
	now := a.fleet.Now()
	a.keep(held, a.fleet.checkSet(a.class, held), now)
	a.fleet.Changes.Assigned(a, held, now)
}

// keep stores an assignment, as an agent does on its disk: the server need not send it to the next session.
func (a *agent) keep(held *link.Assignment, set *checkSet, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.assigned, a.assignedAt = held, now
	if x := a.class.source; x != nil && !x.Assigned(a.member, held) {
		return
	}
	if set == nil || a.set != nil {
		return // not yet all checks, or a change during the fleet: play what we began with
	}
	a.set = set
	a.status = make([]model.Status, a.class.own)
	a.ledger.States = make(observe.Entries, a.class.own)
	a.fleet.ready.Add(1)
}

// Acked settles acknowledged and refused signals, and sends more.
func (a *agent) Acked(_ *link.Session, ack *wire.Ack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acking()
	for i := range ack.Refused {
		a.refuse(&ack.Refused[i])
	}
	for _, l := range ack.Last {
		a.kept(l, true)
	}
	a.pump()
}

// RoundRobinRuns runs the round-robin checks that the server gives this agent now.
func (a *agent) RoundRobinRuns(_ *link.Session, t *wire.RoundRobinRuns) {
	for _, g := range t.Runs {
		a.turn(g)
	}
}

// Reply does nothing, because a simulated agent sends no requests.
func (a *agent) Reply(*link.Session, *wire.Exchange) {}

// RunNow answers with a text and runs nothing.
func (a *agent) RunNow(s *link.Session, r *wire.Run) {
	if r.ID == 0 || r.Cancel {
		return
	}
	_ = s.SendRunOutput(&wire.RunOutput{ID: r.ID, Output: []byte("a simulated agent runs nothing\n"), Last: true, DurationMs: 5})
}

// BackPressure slows the agent down as real agents do: for a while frames linger longer and none leaves before. It is
// counted, because a server that asks for it is overloaded.
func (a *agent) BackPressure(_ *link.Session, m *wire.BackPressure) {
	now := time.Duration(a.fleet.Now())
	a.mu.Lock()
	if !a.pace.IsSlowed(now) {
		a.fleet.note(func(n *notes) { n.counts.Slowed++ })
	}
	a.pace.ApplyBackPressure(now, m, rand.Float64())
	a.mu.Unlock()
	a.fleet.cfg.Log.Debug("server asks to slow down", "agent", a.called(), "lingerMs", m.LingerMs, "lastsMs", m.LastsMs, "reason", m.Reason)
}

// ServerStops does nothing: Read returns next, and live reconnects after the time that the server names.
func (a *agent) ServerStops(*link.Session, time.Duration, string) {}

var _ Agent = (*agent)(nil)
