package shard

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Tombstone marks a forgotten node, so that signals still under way do not create its state
// again.
type Tombstone struct {
	At      int64 // receive time of the forget, Unix ns
	Deleted bool  // the resource is deleted: its id is never used again
}

// burial stands in the order in which tombstones end.
type burial struct {
	node model.NodeID
	at   int64
}

const (
	// Settle is how long after a forget agents may still run an older assignment; a run
	// after that means that the check is wanted again.
	Settle = 30 * time.Second
	// TombstoneAge is how long tombstones are kept: longer than a spool may hold a signal.
	TombstoneAge = model.MaxSpoolAge + 24*time.Hour
)

// Suppresses reports whether a run that ended at this time may create no state.
func (t Tombstone) Suppresses(executed int64) bool {
	return t.Deleted || executed <= t.At+int64(Settle)
}

// Deleted reports whether the node is deleted for ever.
func (p *Partition) Deleted(node model.NodeID) bool {
	return len(p.tombstones) > 0 && p.tombstones[node].Deleted
}

// Tombstone returns the tombstone of a node.
func (p *Partition) Tombstone(node model.NodeID) (t Tombstone, ok bool) {
	if len(p.tombstones) == 0 {
		return t, false
	}
	t, ok = p.tombstones[node]
	return t, ok
}

// setTombstone sets a tombstone. Tombstones come in the order of time.
func (p *Partition) setTombstone(node model.NodeID, t Tombstone) {
	p.tombstones[node] = t
	p.buried = append(p.buried, burial{node, t.At})
}

// expireTombstones ends those from before a time, and looks at no other.
func (p *Partition) expireTombstones(before int64) {
	for len(p.buried) > 0 && p.buried[0].at < before {
		first := p.buried[0]
		p.buried = p.buried[1:]
		if p.tombstones[first.node].At == first.at { // else it was renewed since
			delete(p.tombstones, first.node)
		}
	}
}

// forget applies a mark: reducers drop the states that it names, then a mark of a whole
// node ends its session and keepalive, and removes it where it is deleted.
func (w *Worker) forget(p *Partition, id model.NodeID, m *wire.ForgetMark) {
	p.expireTombstones(w.Received - int64(TombstoneAge))
	if id == 0 && m.Check == 0 {
		w.shard.opts.Logger.Error("BUG: a forget that names neither node nor check", "commit", w.Position.Number)
		return
	}
	n := NoNode
	if id != 0 {
		n, _ = p.Find(id)
	}
	for _, a := range w.appliers {
		a.Forget(id, n, m)
	}
	if m.Check != 0 {
		return
	}
	p.setTombstone(id, Tombstone{w.Received, m.Deleted})
	if n == NoNode {
		return
	}
	node := &p.nodes[n]
	node.Timeout, node.session = 0, 0 // until its next session
	p.EndKeepalive(n)
	if m.Deleted {
		p.RemoveNode(n)
	}
}
