package event

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// Life implements shard.Applier: changes of a keepalive become results of the check
// keepalive, and TTLs that waited go on. Invariant: a node has that event exactly while
// Node.Keepalive is not KeepaliveNone.
func (w *worker) Life(n uint32, change shard.LifeChange) {
	p := w.p
	switch change {
	case shard.SessionBegan, shard.SessionEnded:
		p.releaseCapacity(n)
	case shard.Heartbeat:
		w.passWaiting(p, n)
	case shard.BacklogDone:
		w.passBacklog(p, n)
	default:
		w.changeKeepalive(p, n, change)
	}
}

// changeKeepalive gives the node's keepalive its next status, and the event where it is the
// first.
func (w *worker) changeKeepalive(p *partition, n uint32, change shard.LifeChange) {
	id, ok := p.nodes[n].find(model.KeepaliveCheck)
	if !ok {
		id, _ = p.addState(n, model.KeepaliveCheck)
	}
	node := p.Node(n)
	v := verdict{status: model.OK, executed: w.Received}
	switch change {
	case shard.KeepaliveBegan, shard.KeepaliveResumed:
		v.output = []byte("keepalive is received")
	case shard.Stopped:
		v.output, v.byHand = []byte("stopped cleanly"), true
	case shard.KeepaliveLate:
		v.status, v.output, v.expired = model.Warning, w.silenceText(node, node.Warning), true
	case shard.KeepaliveMissed:
		w.view.metrics.keepaliveExpired.Inc()
		v.status, v.output, v.expired = model.Critical, w.silenceText(node, node.Timeout), true
	}
	w.judge(p, id, p.slots.at(id), w.check(model.BuiltinChunk(model.KeepaliveCheck)), v)
	if change == shard.KeepaliveResumed {
		w.restartTTLs(p, n)
	}
}

// silenceText is the output of a keepalive that did not come; it is valid until the next text.
func (w *worker) silenceText(node *shard.Node, silence int64) []byte {
	w.text = fmt.Appendf(w.text[:0], "no keepalive for %s (last heard %s)",
		model.Duration(silence), unixNano(node.LastSeen).Format(time.RFC3339))
	return w.text
}

// passWaiting lets TTLs pass that waited for a sign of life: at the end of this commit, unless
// it brings their results.
func (w *worker) passWaiting(p *partition, n uint32) {
	for _, e := range p.nodes[n].states {
		if s := p.slots.at(e.slot); s.flags&flagWaits != 0 {
			s.flags &^= flagWaits
			p.deadlines.Set(e.slot, max(w.Listening, 1))
		}
	}
}

// passBacklog lets TTLs pass that waited for the node's backlog.
func (w *worker) passBacklog(p *partition, n uint32) {
	until := p.Node(n).BacklogUntil
	for _, e := range p.nodes[n].states {
		if p.deadlines.Due(e.slot) == until {
			p.deadlines.Set(e.slot, max(w.Listening, 1))
		}
	}
}

// restartTTLs restarts the TTLs of a node that was away: its results could not come
// meanwhile, so the time counts from now.
func (w *worker) restartTTLs(p *partition, n uint32) {
	for _, e := range p.nodes[n].states {
		s := p.slots.at(e.slot)
		if s.flags&flagExpired != 0 || e.check == model.KeepaliveCheck {
			continue
		}
		if c := w.check(s.chunk); c != nil && c.TTL > 0 {
			p.deadlines.Set(e.slot, max(p.deadlines.Due(e.slot), w.Listening+int64(c.TTL)))
		}
	}
}
