package event

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// room is what a partition holds of one namespace: an index over its nodes, and what
// their states come to.
type room struct {
	Counts
	nodes []uint32 // by node id, as partition.order
}

// enter puts a node into the room of its namespace; its states are counted by the caller.
func (p *partition) enter(n uint32) *room {
	ns := p.nodes[n].namespace
	r := p.rooms[ns]
	if r == nil {
		r = new(room)
		p.rooms[ns] = r
	}
	at, _ := p.search(r.nodes, p.nodes[n].id)
	r.nodes = slices.Insert(r.nodes, at, n)
	return r
}

// leave is the opposite of enter; the last one closes the room.
func (p *partition) leave(n uint32) *room {
	ns := p.nodes[n].namespace
	r := p.rooms[ns]
	at, _ := p.search(r.nodes, p.nodes[n].id)
	if r.nodes = slices.Delete(r.nodes, at, at+1); len(r.nodes) == 0 {
		delete(p.rooms, ns)
	}
	return r
}

// moveNode gives the node another namespace.
func (p *partition) moveNode(n uint32, ns model.NamespaceID) {
	p.settleAll(n)
	node := &p.nodes[n]
	from := p.leave(n)
	p.view.totals.counter(node.namespace).Add(-int64(len(node.states)))
	node.namespace = ns
	to := p.enter(n)
	p.view.totals.counter(ns).Add(int64(len(node.states)))
	for _, e := range node.states {
		s := p.slots.at(e.slot)
		from.States--
		to.States++
		from.ByStatus[s.status]--
		to.ByStatus[s.status]++
		if s.flags&flagOpen != 0 {
			from.Problems--
			to.Problems++
		}
	}
}

// roomOf is the room that a node is in.
func (p *partition) roomOf(n uint32) *room { return p.rooms[p.nodes[n].namespace] }
