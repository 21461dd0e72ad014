package plan

import (
	"cmp"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// RoundRobins are all of them, by check. What is returned is the caller's.
func (p *Planner) RoundRobins() []directory.RoundRobin {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var list []directory.RoundRobin
	for _, c := range p.fleet.checks {
		if c.def == nil || !c.def.chunk.RoundRobin || c.def.targets == nil {
			continue
		}
		r := directory.RoundRobin{Chunk: c.def.chunk, Namespace: c.def.ns, Members: p.fleet.runners(c), Subjects: []directory.ProxyNode{{}}}
		if c.def.proxied != nil {
			r.Subjects = nil
			for _, id := range p.fleet.subjects(c) {
				r.Subjects = append(r.Subjects, p.fleet.proxyOf(id))
			}
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b directory.RoundRobin) int { return cmp.Compare(a.Chunk.Unit, b.Chunk.Unit) })
	return list
}

// proxyOf is what the journal must know of a proxy node.
func (f *fleet) proxyOf(id model.NodeID) directory.ProxyNode {
	n := f.nodes[id]
	proxy := directory.ProxyNode{ID: id, UID: n.def.uid}
	if space := f.namespaces[n.def.ns]; space != nil {
		proxy.Namespace = space.id
	}
	return proxy
}
