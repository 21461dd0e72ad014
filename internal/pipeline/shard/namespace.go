package shard

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// NodesOf lists the nodes of a namespace by id, nil where it has none here. The slice
// belongs to the partition and must not be kept.
func (p *Partition) NodesOf(ns model.NamespaceID) []uint32 { return p.namespaces[ns] }

// MoveNode gives the node another namespace.
func (p *Partition) MoveNode(n uint32, ns model.NamespaceID) {
	from := p.nodes[n].Namespace
	p.leaveNamespace(n)
	p.nodes[n].Namespace = ns
	p.joinNamespace(n)
	for _, r := range p.shard.reducers {
		r.MoveNode(p, n, from)
	}
}

// joinNamespace puts a node into the index of its namespace.
func (p *Partition) joinNamespace(n uint32) {
	ns := p.nodes[n].Namespace
	list := p.namespaces[ns]
	at, _ := p.Search(list, p.nodes[n].ID)
	p.namespaces[ns] = slices.Insert(list, at, n)
}

// leaveNamespace is the opposite of joinNamespace; an empty namespace goes.
func (p *Partition) leaveNamespace(n uint32) {
	ns := p.nodes[n].Namespace
	list := p.namespaces[ns]
	at, _ := p.Search(list, p.nodes[n].ID)
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(p.namespaces, ns)
	} else {
		p.namespaces[ns] = list
	}
}
