package shard

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// session applies the mark of a session that began or ended.
func (w *Worker) session(p *Partition, id model.NodeID, m *wire.SessionMark) {
	if p.Deleted(id) {
		return
	}
	if m.NoKeepalive {
		return // the watchdog's: no sign of life is expected of it
	}
	n, ok := p.Find(id)
	if !ok {
		if !m.Begun {
			return
		}
		n = p.AddNode(id, m.Namespace)
	}
	if m.Begun {
		w.beginSession(p, n, m)
	} else {
		w.endSession(p, n, m)
	}
}

func (w *Worker) beginSession(p *Partition, n uint32, m *wire.SessionMark) {
	w.change(n, SessionBegan)
	if p.nodes[n].Namespace != m.Namespace {
		p.MoveNode(n, m.Namespace)
	}
	node := &p.nodes[n]
	node.session = m.Session
	if node.Timeout = millis(m.TimeoutMs); node.Timeout == 0 {
		node.Timeout = int64(w.shard.opts.KeepaliveTimeout)
	}
	if node.Warning = millis(m.WarningMs); node.Warning >= node.Timeout {
		node.Warning = 0
	}
	w.heartbeat(p, n)
	node.backlog, node.BacklogUntil = m.Backlog, 0
	if m.Backlog > 0 {
		node.BacklogUntil = w.Listening + int64(w.shard.opts.BacklogWait)
	}
}

// endSession applies a planned stop. An unplanned end needs nothing: the keepalive's
// deadline runs from the last sign of life. The end of a session that another has
// replaced means nothing either.
func (w *Worker) endSession(p *Partition, n uint32, m *wire.SessionMark) {
	node := &p.nodes[n]
	if node.session != m.Session {
		return
	}
	w.change(n, SessionEnded)
	node.session = 0
	node.backlog, node.BacklogUntil = 0, 0
	if !m.Clean {
		return
	}
	node.Stopped = true
	if node.Keepalive != KeepaliveNone {
		p.keepalives.Clear(n)
		node.Keepalive = KeepaliveReceived
		w.change(n, Stopped)
	}
}

// heartbeat notes a sign of life: a few stores, unless the node was overdue or stopped.
func (w *Worker) heartbeat(p *Partition, n uint32) {
	node := &p.nodes[n]
	node.LastSeen = w.Received
	if node.Timeout == 0 {
		return // never had a session: no mark says how often to expect it
	}
	p.keepalives.Set(n, w.Listening+node.patience())
	if node.waits {
		node.waits = false
		w.change(n, Heartbeat)
	}
	if node.Keepalive == KeepaliveReceived && !node.Stopped {
		return
	}
	change := KeepaliveResumed
	if node.Keepalive == KeepaliveNone {
		change = KeepaliveBegan
	}
	node.Keepalive, node.Stopped = KeepaliveReceived, false
	w.change(n, change)
}

// countBacklog counts the backlog down; once it is in, deadlines that waited for it pass.
func (w *Worker) countBacklog(p *Partition, n uint32, signals uint64) {
	node := &p.nodes[n]
	if node.BacklogUntil == 0 {
		return
	}
	if signals < node.backlog {
		node.backlog -= signals
		return
	}
	w.change(n, BacklogDone)
	node.backlog, node.BacklogUntil = 0, 0
}

// expireKeepalive reports a silent node: first with a warning where it has one, and
// as critical when its time-out has passed.
func (w *Worker) expireKeepalive(p *Partition, n uint32) {
	node := &p.nodes[n]
	if node.Warning > 0 && node.Keepalive == KeepaliveReceived {
		node.Keepalive = KeepaliveWarned
		p.keepalives.Set(n, w.Listening+node.Timeout-node.Warning)
		w.change(n, KeepaliveLate)
		return
	}
	node.Keepalive = KeepaliveCritical
	w.change(n, KeepaliveMissed)
}

// change tells every reducer of a change in the life of a node.
func (w *Worker) change(n uint32, change LifeChange) {
	for _, a := range w.appliers {
		a.Life(n, change)
	}
}

// EndKeepalive ends the supervision of a node until its next sign of life.
func (p *Partition) EndKeepalive(n uint32) {
	p.nodes[n].Keepalive = KeepaliveNone
	p.keepalives.Clear(n)
}

// OverrideKeepalive takes over a keepalive's status that came from somewhere else than the
// node's life (an operator, a result of the server). Its deadline is cleared: the next sign
// of life sets it again.
func (p *Partition) OverrideKeepalive(n uint32, failing bool) {
	p.nodes[n].Keepalive = KeepaliveReceived
	if failing {
		p.nodes[n].Keepalive = KeepaliveCritical
	}
	p.keepalives.Clear(n)
}

// RestartKeepalive gives a node that did not stop its whole patience again, from now.
func (w *Worker) RestartKeepalive(p *Partition, n uint32) {
	if node := &p.nodes[n]; node.Timeout > 0 && !node.Stopped {
		p.keepalives.Set(n, w.Listening+node.patience())
	}
}
