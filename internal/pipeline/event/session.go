package event

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// session applies the beginning or the end of a session.
func (w *worker) session(p *partition, id model.NodeID, m *wire.SessionMark) {
	if w.gone(p, id) {
		return
	}
	if m.Visit {
		return // no sign of life is expected of a visitor
	}
	n, ok := p.findNode(id)
	if !ok {
		if !m.Begun {
			return
		}
		n = p.addNode(id, m.Namespace)
	}
	if m.Begun {
		w.begun(p, n, m)
	} else {
		w.ended(p, n, m)
	}
}

func (w *worker) begun(p *partition, n uint32, m *wire.SessionMark) {
	p.settleAll(n) // what an older session sent came before the mark
	if p.nodes[n].namespace != m.Namespace {
		p.moveNode(n, m.Namespace)
	}
	node := &p.nodes[n]
	node.session = m.Session
	node.timeout = int64(m.TimeoutMs) * int64(time.Millisecond)
	if node.timeout == 0 {
		node.timeout = int64(w.view.opts.KeepaliveTimeout)
	}
	if node.warning = int64(m.WarningMs) * int64(time.Millisecond); node.warning >= node.timeout {
		node.warning = 0
	}
	w.alive(p, n)
	node.backlog, node.backlogUntil = m.Backlog, 0
	if m.Backlog > 0 {
		node.backlogUntil = w.listening + int64(w.view.opts.BacklogWait)
	}
}

// ended notes a planned stop. An unplanned end needs nothing: the keepalive's
// deadline runs from the last sign of life. The end of a session that another has
// replaced means nothing either.
func (w *worker) ended(p *partition, n uint32, m *wire.SessionMark) {
	node := &p.nodes[n]
	if node.session != m.Session {
		return
	}
	p.settleAll(n)
	node.session = 0
	node.backlog, node.backlogUntil = 0, 0
	if !m.Clean {
		return
	}
	node.stopped = true
	if id, ok := node.find(model.KeepaliveCheck); ok {
		p.deadlines.Clear(id)
		w.judge(p, id, p.slots.at(id), w.keepalive(), verdict{status: model.OK, executed: w.received, output: []byte("stopped cleanly"), byHand: true})
	}
}

// alive notes a sign of life: two stores, unless the node was missed or stopped.
func (w *worker) alive(p *partition, n uint32) {
	node := &p.nodes[n]
	node.heard = w.received
	if node.timeout == 0 {
		return // never had a session: nothing says how often to expect it
	}
	id, ok := node.find(model.KeepaliveCheck)
	if !ok {
		id, _ = p.addState(n, model.KeepaliveCheck)
		node = &p.nodes[n]
	}
	p.deadlines.Set(id, w.listening+node.patience())
	if node.waits {
		w.heard(p, n)
	}
	s := p.slots.at(id)
	if s.historyLen != 0 && s.status == model.OK && !node.stopped {
		return
	}
	back := s.historyLen != 0
	node.stopped = false
	w.judge(p, id, s, w.keepalive(), verdict{status: model.OK, executed: w.received, output: []byte("keepalive is received")})
	if back {
		w.awake(p, n)
	}
}

// keepalive is what judges a node's own event.
func (w *worker) keepalive() *model.Chunk { return w.chunk(model.BuiltinChunk(model.KeepaliveCheck)) }

// heard lets TTLs pass that waited for a sign of life: at the end of this commit, unless
// it brings their results.
func (w *worker) heard(p *partition, n uint32) {
	node := &p.nodes[n]
	node.waits = false
	for _, e := range node.states {
		if s := p.slots.at(e.slot); s.flags&flagWaits != 0 {
			s.flags &^= flagWaits
			p.deadlines.Set(e.slot, max(w.listening, 1))
		}
	}
}

// awake restarts the TTLs of a node that was away: what should have come meanwhile
// could not, so that the time counts from now.
func (w *worker) awake(p *partition, n uint32) {
	for _, e := range p.nodes[n].states {
		s := p.slots.at(e.slot)
		if s.flags&flagExpired != 0 || e.check == model.KeepaliveCheck {
			continue
		}
		if c := w.chunk(s.chunk); c != nil && c.TTL > 0 {
			p.deadlines.Set(e.slot, max(p.deadlines.Due(e.slot), w.listening+int64(c.TTL)))
		}
	}
}

// caughtUp counts the backlog down; once it is in, TTLs that waited for it pass.
func (w *worker) caughtUp(p *partition, n uint32, came uint64) {
	node := &p.nodes[n]
	if node.backlogUntil == 0 {
		return
	}
	if came < node.backlog {
		node.backlog -= came
		return
	}
	until := node.backlogUntil
	node.backlog, node.backlogUntil = 0, 0
	for _, e := range node.states {
		if e.check != model.KeepaliveCheck && p.deadlines.Due(e.slot) == until {
			p.deadlines.Set(e.slot, max(w.listening, 1))
		}
	}
}

// started applies that the server listens again: agents need time to come back, so
// every deadline gets the grace on top of what was left, but never more than its
// whole time and the grace (restarts in a row do not add up for ever).
func (w *worker) started(p *partition) {
	grace := int64(w.view.opts.Grace)
	for i := range p.nodes {
		node := &p.nodes[i]
		for _, e := range node.states {
			due := p.deadlines.Due(e.slot)
			if due == 0 {
				continue
			}
			whole := node.timeout // or less, up to a warning
			if e.check != model.KeepaliveCheck {
				c := w.chunk(p.slots.at(e.slot).chunk)
				if c == nil {
					continue
				}
				whole = int64(c.TTL)
			}
			p.deadlines.Set(e.slot, min(due+grace, w.listening+whole+grace))
		}
	}
}
