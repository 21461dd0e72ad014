package plan

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A proxy check lands on two kinds of nodes: machines run it, proxy nodes are what it is
// about. Both are holders of the check; the machines' assignments name the proxy nodes.

// holdersOf are the nodes that a check lands on.
func (f *fleet) holdersOf(def *checkDef) *roaring.Bitmap {
	on := f.selected(def.targets, def.ns)
	on.AndNot(f.proxies)
	if def.proxied != nil && def.targets != nil {
		about := f.selected(def.proxied, def.ns)
		about.And(f.proxies)
		on.Or(about)
	}
	return on
}

// reached says the same of one node, whose groups, names or labels mention the check.
func (f *fleet) reached(def *checkDef, n *node) bool {
	switch {
	case n.def.proxy:
		return def.targets != nil && f.lands(def.proxied, def.ns, n)
	case def.proxied != nil: // it may be mentioned on the other side only
		return f.lands(def.targets, def.ns, n)
	}
	return inScope(def.ns, n.def.ns) && (def.targets.except == nil || !f.lands(def.targets.except, def.ns, n))
}

// runners are the machines that run a check.
func (f *fleet) runners(c *check) *roaring.Bitmap { return roaring.AndNot(c.holders, f.proxies) }

// subjects are the proxy nodes that a proxy check is about.
func (f *fleet) subjects(c *check) []model.NodeID { return nodeIDs(roaring.And(c.holders, f.proxies)) }

// retold marks the proxy checks whose proxy nodes came, went or changed: all who run them
// have to hear of it.
func (f *fleet) retold(p *pass) {
	tell := func(id model.CheckID) {
		if c := f.checks[id]; c != nil && c.def != nil && c.def.proxied != nil {
			p.redefine[id] = nil
		}
	}
	for _, list := range [...][]holding{p.lost, p.gained} {
		for _, h := range list {
			if n := f.nodes[h.node]; n == nil || n.def.proxy {
				tell(h.check)
			}
		}
	}
	for _, id := range p.turned {
		tell(id)
	}
	for id := range values32(roaring.And(p.build, f.proxies)) {
		for _, c := range f.nodes[model.NodeID(id)].checks.ids {
			tell(c)
		}
	}
}

// silent takes the proxy nodes out of those to be built: they have no agent to tell. What
// their check sets meant to machines that had the same is not kept up to date without these.
func (f *fleet) silent(p *pass) {
	for id := range values32(roaring.And(p.build, f.proxies)) {
		f.nodes[model.NodeID(id)].checks.composed = nil
	}
	p.build.AndNot(f.proxies)
}

// proxied composes whom a set of checks, as these chunks, speaks of; nil where none is a
// proxy check.
func (b *builder) proxied(s *checkSet, chunks []*model.Chunk) *directory.ProxyTargets {
	var told wire.ProxyChecks
	names := map[model.NodeID][]string{} // properties that are read of each
	sets := map[string]int{}             // by the nodes in it
	any := false
	for _, id := range s.ids {
		c := b.f.checks[id]
		if c.def.proxied == nil {
			continue
		}
		any = true
		about := b.f.subjects(c)
		key := string(bytesOf(about))
		at, known := sets[key]
		if !known {
			at = len(told.Sets)
			sets[key] = at
			told.Sets = append(told.Sets, wire.ProxySet{Nodes: about})
		}
		told.Sets[at].Chunks = append(told.Sets[at].Chunks, c.def.chunk.ID)
		for _, n := range about {
			names[n] = append(names[n], c.def.props...)
		}
	}
	if !any {
		return nil
	}
	for i := range told.Sets {
		slices.Sort(told.Sets[i].Chunks)
	}
	var nodes []directory.ProxyNode
	for _, id := range slices.Sorted(maps.Keys(names)) {
		n, read := b.f.nodes[id], names[id]
		slices.Sort(read)
		told.Nodes = append(told.Nodes, wire.ProxyNode{Node: id, Name: n.def.name, Properties: b.resolver.properties(n, slices.Compact(read))})
		nodes = append(nodes, b.f.proxyOf(id))
	}
	return directory.NewProxyTargets(told, nodes, chunks)
}

func bytesOf(ids []model.NodeID) []byte {
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = append(key, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	}
	return key
}
