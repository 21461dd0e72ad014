package plan

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
)

// Robin is a check with roundRobin: the server gives each run to one member.
type Robin struct {
	Chunk     *model.CheckChunk
	Namespace string
	Members   *roaring.Bitmap // machines that may run it: node ids
	// Subjects are the proxy nodes that it is about, ascending. Of a check without proxy: the
	// zero one, since each run is about whoever runs it.
	Subjects []Proxy
}

// Robins are all of them, by check. What is returned is the caller's.
func (p *Planner) Robins() []Robin {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var list []Robin
	for _, c := range p.fleet.checks {
		if c.def == nil || !c.def.chunk.RoundRobin || c.def.targets == nil {
			continue
		}
		r := Robin{Chunk: c.def.chunk, Namespace: c.def.ns, Members: p.fleet.runners(c), Subjects: []Proxy{{}}}
		if c.def.proxied != nil {
			r.Subjects = nil
			for _, id := range p.fleet.subjects(c) {
				r.Subjects = append(r.Subjects, p.fleet.proxyOf(id))
			}
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Robin) int { return cmp.Compare(a.Chunk.Unit, b.Chunk.Unit) })
	return list
}

// proxyOf is what the journal must know of a proxy node.
func (f *fleet) proxyOf(id model.NodeID) Proxy {
	n := f.nodes[id]
	proxy := Proxy{ID: id, UID: n.def.uid}
	if space := f.namespaces[n.def.ns]; space != nil {
		proxy.Namespace = space.id
	}
	return proxy
}
