package plan

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A proxy check lands on two kinds of nodes: machines run it, proxy nodes are what it is
// about. Both are holders of the check; the machines' assignments name the proxy nodes.

// Proxied is whom the proxy checks of an assignment speak of. Immutable, and shared by all
// nodes that run the same checks.
type Proxied struct {
	wire.Proxied
	nodes []Proxy                          // as Nodes
	about map[model.CheckID][]model.NodeID // ascending
}

// Proxy is what the journal must know of a proxy node.
type Proxy struct {
	ID        model.NodeID
	UID       uuid.UUID
	Namespace model.NamespaceID
}

// Speaks says whether results of a check may be about a node that is not the sender: whether
// this assignment names it so. Also of a nil assignment. Whoever takes results for others, of
// whatever agents, asks this first.
func (a *Assignment) Speaks(check model.CheckID, node model.NodeID) (Proxy, bool) {
	if a == nil || a.Proxied == nil {
		return Proxy{}, false
	}
	if _, ok := slices.BinarySearch(a.Proxied.about[check], node); !ok {
		return Proxy{}, false
	}
	at, ok := slices.BinarySearchFunc(a.Proxied.nodes, node, func(p Proxy, id model.NodeID) int { return int(int64(p.ID) - int64(id)) })
	if !ok {
		return Proxy{}, false
	}
	return a.Proxied.nodes[at], true
}

// About are the proxy nodes that a check of the assignment speaks of, ascending.
func (a *Assignment) About(check model.CheckID) []model.NodeID {
	if a == nil || a.Proxied == nil {
		return nil
	}
	return a.Proxied.about[check]
}

// ProxyUID stands where a machine has its immutable id: it says in which partition a proxy
// node is, and nobody can have it.
func ProxyUID(id model.NodeID) uuid.UUID {
	return uuid.UUID{'p', 'r', 'o', 'x', 'y', 12: byte(id >> 24), 13: byte(id >> 16), 14: byte(id >> 8), 15: byte(id)}
}

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

// NewProxied makes what an assignment with these chunks says of proxy nodes. nodes ascend,
// and are those of told.
func NewProxied(told wire.Proxied, nodes []Proxy, chunks []*model.Chunk) *Proxied {
	p := &Proxied{Proxied: told, nodes: nodes, about: map[model.CheckID][]model.NodeID{}}
	checks := make(map[model.ChunkID]model.CheckID, len(chunks))
	for _, c := range chunks {
		checks[c.ID] = c.Unit
	}
	for _, set := range told.Sets {
		for _, id := range set.Chunks {
			p.about[checks[id]] = set.Nodes
		}
	}
	return p
}

// proxied composes whom a set of checks, as these chunks, speaks of; nil where none is a
// proxy check.
func (b *builder) proxied(s *checkSet, chunks []*model.Chunk) *Proxied {
	var told wire.Proxied
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
	var nodes []Proxy
	for _, id := range slices.Sorted(maps.Keys(names)) {
		n, read := b.f.nodes[id], names[id]
		slices.Sort(read)
		told.Nodes = append(told.Nodes, wire.ProxyNode{Node: id, Name: n.def.name, Properties: b.resolver.properties(n, slices.Compact(read))})
		nodes = append(nodes, b.f.proxyOf(id))
	}
	return NewProxied(told, nodes, chunks)
}

func bytesOf(ids []model.NodeID) []byte {
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = append(key, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	}
	return key
}

// wire is what an agent is told of it; nil where there is none.
func (p *Proxied) wire() *wire.Proxied {
	if p == nil {
		return nil
	}
	return &p.Proxied
}
