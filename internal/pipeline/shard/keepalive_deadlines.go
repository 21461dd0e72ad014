package shard

import (
	"cmp"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// applySessionRecord applies the journal record of a session's start or end.
func (w *Worker) applySessionRecord(p *Partition, id model.NodeID, m *wire.SessionRecord) {
	if p.Deleted(id) {
		return
	}
	if m.NoKeepalive {
		return // the watchdog's: no heartbeat is expected of it
	}
	n, ok := p.Find(id)
	if !ok {
		if !m.Start {
			return
		}
		n = p.AddNode(id, m.Namespace)
	}
	if m.Start {
		w.beginSession(p, n, m)
	} else {
		w.endSession(p, n, m)
	}
}

// beginSession records that an agent has begun a session, with the node's keepalive time-outs and unsent
// signals. It sets namespace, keepalive time-outs and backlog.
func (w *Worker) beginSession(p *Partition, n uint32, m *wire.SessionRecord) {
	w.announceLivenessChange(n, SessionBegan)
	if p.nodes[n].Namespace != m.Namespace {
		p.MoveNode(n, m.Namespace)
	}
	node := &p.nodes[n]
	node.session = m.Session
	if node.Timeout = millisToNanos(m.TimeoutMs); node.Timeout == 0 {
		node.Timeout = int64(w.shard.opts.KeepaliveTimeout)
	}
	if node.Warning = millisToNanos(m.WarningMs); node.Warning >= node.Timeout {
		node.Warning = 0
	}
	node.EveryKeepalive = m.EveryKeepalive
	if !w.recordHeartbeat(p, n) {
		w.reportUnchangedKeepalive(n, node)
	}
	if m.Registered {
		w.announceLivenessChange(n, Registered)
	}
	node.backlog, node.BacklogUntil = m.Backlog, 0
	if m.Backlog > 0 {
		node.BacklogUntil = w.Listening + int64(w.shard.opts.BacklogWait)
	}
}

// endSession records the end of a node's session, and suppresses the keepalive alarm after a planned stop. An
// unplanned end needs nothing: the keepalive's deadline runs from the last heartbeat. The end of a session that
// another has replaced means nothing either.
func (w *Worker) endSession(p *Partition, n uint32, m *wire.SessionRecord) {
	node := &p.nodes[n]
	if node.session != m.Session {
		return
	}
	w.announceLivenessChange(n, SessionEnded)
	node.session = 0
	node.backlog, node.BacklogUntil = 0, 0
	if !m.Clean {
		return
	}
	node.Stopped = true
	if node.Keepalive != KeepaliveNone {
		p.keepalives.Clear(n)
		node.Keepalive = KeepaliveReceived
		w.announceLivenessChange(n, Stopped)
	}
}

// recordHeartbeat restarts a node's keepalive time-out after a heartbeat, and resolves a missed keepalive. It
// reports whether the keepalive changed.
func (w *Worker) recordHeartbeat(p *Partition, n uint32) (changed bool) {
	node := &p.nodes[n]
	node.LastSeen = w.Received
	if node.Timeout == 0 {
		return false // never had a session: no mark says how often to expect it
	}
	p.keepalives.Set(n, w.Listening+node.keepaliveTimeout())
	node.silence = 0
	if node.awaitsHeartbeat {
		node.awaitsHeartbeat = false
		w.announceLivenessChange(n, Heartbeat)
	}
	if node.Keepalive == KeepaliveReceived && !node.Stopped {
		return false
	}
	change := KeepaliveResumed
	if node.Keepalive == KeepaliveNone {
		change = KeepaliveBegan
	}
	node.Keepalive, node.Stopped = KeepaliveReceived, false
	w.announceLivenessChange(n, change)
	return true
}

// reportUnchangedKeepalive reports a keepalive without a status change, for nodes whose pipelines process every
// keepalive. The keepalive changed nothing.
func (w *Worker) reportUnchangedKeepalive(n uint32, node *Node) {
	if node.EveryKeepalive && node.Keepalive == KeepaliveReceived {
		w.announceLivenessChange(n, KeepaliveRepeated)
	}
}

// reduceBacklog subtracts received signals from the node's announced number of stored, unsent signals
// (backlog). The backlog is the number of signals that the node has announced to send from its spool. At zero,
// deadlines that waited for the backlog may expire.
func (w *Worker) reduceBacklog(p *Partition, n uint32, signals uint64) {
	node := &p.nodes[n]
	if node.BacklogUntil == 0 {
		return
	}
	if signals < node.backlog {
		node.backlog -= signals
		return
	}
	w.announceLivenessChange(n, BacklogDone)
	node.backlog, node.BacklogUntil = 0, 0
}

// expireKeepalive reports a node whose heartbeats have stopped, as a warning or as critical. It is a warning after the
// node's warning time, and critical after its time-out. It repeats that after each such time for pipelines that
// evaluate every keepalive.
func (w *Worker) expireKeepalive(p *Partition, n uint32) {
	node := &p.nodes[n]
	period := node.keepaliveTimeout()
	untilNext := func() int64 { // until the next report; zero: there is none
		switch left := node.Timeout - node.silence; {
		case left > 0 && node.EveryKeepalive:
			return min(left, period)
		case left > 0:
			return left
		case node.EveryKeepalive:
			return period
		}
		return 0
	}
	if node.silence == 0 {
		node.silence = period
	} else {
		node.silence += untilNext()
	}
	if next := untilNext(); next > 0 {
		p.keepalives.Set(n, w.Listening+next)
	}
	change := KeepaliveMissed
	node.Keepalive = KeepaliveCritical
	if node.silence < node.Timeout {
		change, node.Keepalive = KeepaliveLate, KeepaliveWarned
	}
	w.announceLivenessChange(n, change)
}

// announceLivenessChange reports a change of a node's connection or keepalive to all reducers. An example is a missed
// keepalive.
func (w *Worker) announceLivenessChange(n uint32, announceLifeChange LivenessChange) {
	for _, a := range w.appliers {
		a.ApplyLivenessChange(n, announceLifeChange)
	}
}

// EndKeepalive stops the time-out of a node's keepalive until the node sends its next heartbeat.
func (p *Partition) EndKeepalive(n uint32) {
	p.nodes[n].Keepalive, p.nodes[n].silence = KeepaliveNone, 0
	p.keepalives.Clear(n)
}

// OverrideKeepalive sets a node's keepalive to received or missed without a heartbeat. The reason is an operator or a
// result of the server. Its deadline is cleared: the next heartbeat sets it again.
func (p *Partition) OverrideKeepalive(n uint32, failing bool) {
	p.nodes[n].Keepalive, p.nodes[n].silence = KeepaliveReceived, 0
	if failing {
		p.nodes[n].Keepalive = KeepaliveCritical
	}
	p.keepalives.Clear(n)
}

// RestartKeepalive sets the deadline of a node's keepalive to one whole time-out from now. It does nothing for a
// stopped node.
func (w *Worker) RestartKeepalive(p *Partition, n uint32) {
	if node := &p.nodes[n]; node.Timeout > 0 && !node.Stopped {
		p.keepalives.Set(n, w.Listening+node.keepaliveTimeout())
	}
}

// nextDeadline returns the earliest possible time at which a deadline (such as a TTL) in the partition expires.
// It is on the clock of listening time (time able to receive results), or zero if no deadline is set. It may be
// earlier than the earliest deadline.
func (p *Partition) nextDeadline() int64 {
	next := p.keepalives.Next()
	for _, e := range p.deadlines {
		if at := e.Next(); at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// expireDeadlines lets reducers handle all deadlines in the partition that passed before the present journal
// commit. Keepalives come first, because a silent node explains missing results.
func (w *Worker) expireDeadlines(p *Partition) {
	if next := p.keepalives.Next(); next != 0 && next <= w.Listening {
		ids := p.keepalives.Expired(w.Listening, w.expired[:0])
		w.expired = ids
		// The engine's order depends on its past; the order of a view must not.
		slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(p.nodes[a].ID, p.nodes[b].ID) })
		for _, n := range ids {
			w.expireKeepalive(p, n)
		}
	}
	for i, e := range p.deadlines {
		if next := e.Next(); next != 0 && next <= w.Listening {
			w.expired = e.Expired(w.Listening, w.expired[:0])
			if len(w.expired) > 0 {
				w.appliers[i].Expire(w.expired)
			}
		}
	}
}

// extendDeadlines extends every deadline after a start of the server, to give agents time to reconnect. Agents need
// the grace to connect again. The remaining time never exceeds the whole time and the grace, so that restarts in a row
// do not add up for ever.
func (w *Worker) extendDeadlines(p *Partition) {
	grace := int64(w.shard.opts.Grace)
	for i := range p.nodes {
		n := uint32(i)
		if due := p.keepalives.Due(n); due != 0 {
			p.keepalives.Set(n, min(due+grace, w.Listening+p.nodes[i].Timeout+grace))
		}
	}
	for i, e := range p.deadlines {
		for id := range uint32(e.Len()) {
			if due := e.Due(id); due != 0 {
				if whole := w.appliers[i].DeadlinePeriod(id); whole > 0 {
					e.Set(id, min(due+grace, w.Listening+whole+grace))
				}
			}
		}
	}
}

// Postponement is the reason to postpone a deadline, such as results that a node still has to send. An example
// are results that a node still has to send.
type Postponement uint8

const (
	// NotPostponed means that the deadline counts.
	NotPostponed Postponement = iota
	// ForBacklog means that the node still sends its backlog. The deadline waits until the time
	// returned, or until the change BacklogDone.
	ForBacklog
	// ForHeartbeat means that the node gave no heartbeat since; it may be dead, which its
	// keepalive reports. The deadline waits until the time returned (the keepalive's), or until
	// the change Heartbeat. So a time-out shorter than the keepalive's raises no second problem
	// of a dead node.
	ForHeartbeat
	// WhileAway means that the node is stopped or reported as silent. The deadline is dropped; the change
	// KeepaliveResumed begins a new one.
	WhileAway
)

// Postpone decides whether a node's expired deadline is postponed, and returns the new time and the reason. It
// returns zero if the deadline is due; otherwise the later due time, on the clock that runs only while the
// server listens to agents, and the reason for the delay. Appliers call it from Expire.
func (w *Worker) Postpone(p *Partition, n uint32) (until int64, why Postponement) {
	node := &p.nodes[n]
	switch {
	case node.BacklogUntil > w.Listening:
		return node.BacklogUntil, ForBacklog
	case node.Stopped, node.Keepalive == KeepaliveWarned, node.Keepalive == KeepaliveCritical:
		return 0, WhileAway
	case node.Keepalive == KeepaliveReceived && node.LastSeen != w.Received:
		if until = p.keepalives.Due(n); until > w.Listening {
			node.awaitsHeartbeat = true
			return until, ForHeartbeat
		}
	}
	return 0, NotPostponed
}
