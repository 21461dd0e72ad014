package plan

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A proxy check lands on two kinds of nodes: machines run it, proxy nodes are its subjects. Both are nodes
// of the unit; the machines' assignments name the proxy nodes.

// nodesOf returns the nodes that a unit lands on.
func (f *fleet) nodesOf(u *unit) *roaring.Bitmap {
	on := f.selected(u.targets, u.Namespace)
	on.AndNot(f.proxies)
	if u.proxies != nil && u.targets != nil {
		subjects := f.selected(u.proxies, u.Namespace)
		subjects.And(f.proxies)
		on.Or(subjects)
	}
	return on
}

// landsOn answers the same for one node whose groups, names or labels mention the unit.
func (f *fleet) landsOn(u *unit, n *node) bool {
	switch {
	case n.def.Proxy:
		return u.targets != nil && f.lands(u.proxies, u.Namespace, n)
	case u.proxies != nil: // perhaps only its proxies mention the node
		return f.lands(u.targets, u.Namespace, n)
	}
	return reaches(u.Namespace, n.def.Namespace) && (u.targets.except == nil || !f.lands(u.targets.except, u.Namespace, n))
}

// runners returns the machines that run a unit.
func (f *fleet) runners(u *placedUnit) *roaring.Bitmap {
	return roaring.AndNot(u.nodes.Bitmap, f.proxies)
}

// markProxyRunners marks the proxy checks whose proxy nodes appeared, disappeared or changed: the
// assignments of their runners differ.
func (f *fleet) markProxyRunners(p *pass) {
	mark := func(id model.UnitID) {
		if u := f.units[id]; u != nil && u.def != nil && u.def.proxies != nil {
			p.redefined[id] = nil
		}
	}
	for _, list := range [...][]placement{p.lost, p.gained} {
		for _, at := range list {
			if n := f.nodes[at.node]; n == nil || n.def.Proxy {
				mark(at.unit)
			}
		}
	}
	for _, id := range p.turned {
		mark(id)
	}
	for id := range values32(roaring.And(p.build, f.proxies)) {
		for _, u := range f.nodes[model.NodeID(id)].units.ids {
			mark(u)
		}
	}
}

// skipProxies removes the proxy nodes from those to be built: they have no agent. Their unit sets may
// change without a new composition, so that a machine with the same set composes it again.
func (f *fleet) skipProxies(p *pass) {
	for id := range values32(roaring.And(p.build, f.proxies)) {
		f.nodes[model.NodeID(id)].units.composed = nil
	}
	p.build.AndNot(f.proxies)
}

// proxied lists the proxy nodes of a unit set with these chunks; nil where it has no proxy check.
func (b *builder) proxied(s *unitSet, chunks []*model.Chunk) *directory.ProxyTargets {
	var list wire.ProxyChecks
	names := map[model.NodeID][]string{} // properties that are read of each
	sets := map[string]int{}             // index in list.Sets by its nodes
	found := false
	for _, id := range s.ids {
		u := b.f.units[id]
		if u.def.proxies == nil {
			continue
		}
		found = true
		body := u.def.in(s)
		subjects := nodeIDs(roaring.And(u.nodes.Bitmap, b.f.proxies))
		key := string(bytesOf(subjects))
		at, known := sets[key]
		if !known {
			at = len(list.Sets)
			sets[key] = at
			list.Sets = append(list.Sets, wire.ProxySet{Nodes: subjects})
		}
		list.Sets[at].Chunks = append(list.Sets[at].Chunks, body.chunk.ID)
		for _, n := range subjects {
			names[n] = append(names[n], body.properties...)
		}
	}
	if !found {
		return nil
	}
	for i := range list.Sets {
		slices.Sort(list.Sets[i].Chunks)
	}
	var nodes []directory.ProxyNode
	for _, id := range slices.Sorted(maps.Keys(names)) {
		n, read := b.f.nodes[id], names[id]
		slices.Sort(read)
		list.Nodes = append(list.Nodes, wire.ProxyNode{Node: id, Name: n.def.Name.Name, Properties: b.resolver.properties(n, slices.Compact(read))})
		nodes = append(nodes, directory.ProxyNode{ID: id, UID: n.def.UID, Namespace: b.f.namespaceID(n.def.Namespace)})
	}
	return directory.NewProxyTargets(list, nodes, chunks)
}

func nodeIDs(b *roaring.Bitmap) []model.NodeID {
	ids := make([]model.NodeID, 0, b.GetCardinality())
	for it := b.Iterator(); it.HasNext(); {
		ids = append(ids, model.NodeID(it.Next()))
	}
	return ids
}

func bytesOf(ids []model.NodeID) []byte {
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = append(key, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	}
	return key
}
