package shard

import (
	"cmp"
	"slices"
)

// nextDeadline is a listening time before which nothing is due in the partition, zero for
// never. It may be earlier than the earliest deadline.
func (p *Partition) nextDeadline() int64 {
	next := p.keepalives.Next()
	for _, e := range p.deadlines {
		if at := e.Next(); at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// expire acts on the deadlines that passed by the commit's listening time: keepalives
// first, because a silent node explains that its checks are silent.
func (w *Worker) expire(p *Partition) {
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

// extendDeadlines applies that the server listens again: agents need time to come back, so
// every deadline gets the grace on top of its remaining time, but never more than its
// whole time and the grace (restarts in a row do not add up for ever).
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
				if whole := w.appliers[i].Period(id); whole > 0 {
					e.Set(id, min(due+grace, w.Listening+whole+grace))
				}
			}
		}
	}
}

// Postponement is a reason why a deadline that passed does not count yet.
type Postponement uint8

const (
	// NotPostponed means that the deadline counts.
	NotPostponed Postponement = iota
	// ForBacklog means that the node still sends its backlog. The deadline waits until the time
	// returned, or until the change BacklogDone.
	ForBacklog
	// ForHeartbeat means that the node gave no sign of life since; it may be dead, which its
	// keepalive reports. The deadline waits until the time returned (the keepalive's), or until
	// the change Heartbeat. So a time-out shorter than the keepalive's raises no second problem
	// of a dead node.
	ForHeartbeat
	// WhileAway means that the node is stopped or reported as silent. The deadline is dropped; the change
	// KeepaliveResumed begins a new one.
	WhileAway
)

// Postpone reports whether a deadline of the node that passed has to wait, and until which
// listening time. Appliers call it from Expire.
func (w *Worker) Postpone(p *Partition, n uint32) (until int64, why Postponement) {
	node := &p.nodes[n]
	switch {
	case node.BacklogUntil > w.Listening:
		return node.BacklogUntil, ForBacklog
	case node.Stopped, node.Keepalive == KeepaliveWarned, node.Keepalive == KeepaliveCritical:
		return 0, WhileAway
	case node.Keepalive == KeepaliveReceived && node.LastSeen != w.Received:
		if until = p.keepalives.Due(n); until > w.Listening {
			node.waits = true
			return until, ForHeartbeat
		}
	}
	return 0, NotPostponed
}
