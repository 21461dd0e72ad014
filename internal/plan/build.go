package plan

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// build composes the assignments that a pass marked and returns the nodes whose
// assignment differs from before. What does not differ keeps its generation. A node
// whose assignment would be too large has none: its agent goes on with what it
// holds (see size.go).
func (f *fleet) build(p *pass, gen wire.Generation) []model.NodeID {
	var changed []model.NodeID
	for _, n := range p.deleted {
		f.leave(n)
	}
	for id := range values32(roaring.And(p.nodes, f.proxies)) { // also one that was none before
		n := f.nodes[model.NodeID(id)]
		f.leave(n)
		f.exceed(n, 0)
		n.gen = wire.Generation{}
	}
	b := f.builder(p)
	for id := range values32(p.build) {
		n := f.nodes[model.NodeID(id)]
		f.counts.Built++
		made := b.content(n)
		f.exceed(n, made.excess())
		if n.excess > 0 {
			f.leave(n)
			p.oversized = append(p.oversized, f.oversized(n, made))
			continue
		}
		made.refs++
		same := n.content != nil && n.content.hash == made.hash
		f.leave(n)
		n.content = made
		if !same {
			n.gen = gen
			changed = append(changed, n.def.id)
			f.counts.Changed++
		}
	}
	b.forget() // contents without a holder
	for set, c := range b.compositions {
		set.composed = c
	}
	return changed
}

// leave ends a node's use of its content.
func (f *fleet) leave(n *node) {
	if c := n.content; c != nil {
		if c.refs--; c.refs == 0 {
			delete(c.contents, c.key)
		}
		n.content = nil
	}
}

// differing counts the nodes that build would change, and changes nothing. It is an
// error if one would have to hold too much, and more than it has to hold now.
func (f *fleet) differing(p *pass) (nodes []model.NodeID, err error) {
	b := f.builder(p)
	var large []string
	for id := range values32(p.build) {
		n := f.nodes[model.NodeID(id)]
		made := b.content(n)
		if over := made.excess(); over > n.excess {
			large = append(large, f.oversized(n, made))
		}
		if n.content == nil || n.content.hash != made.hash {
			nodes = append(nodes, n.def.id)
		}
	}
	b.forget()
	return nodes, tooLarge(large)
}

// builder makes contents for one pass.
type builder struct {
	f            *fleet
	p            *pass
	resolver     *resolver
	compositions map[*checkSet]*composition
	made         []*content
}

func (f *fleet) builder(p *pass) *builder {
	return &builder{f: f, p: p, resolver: f.resolver(), compositions: map[*checkSet]*composition{}}
}

func (b *builder) content(n *node) *content {
	c := b.composition(n.checks)
	var properties []wire.Property
	var key string
	var hash [32]byte
	if b.sameProperties(n, c) {
		properties, key, hash = n.content.properties, n.content.key, n.content.propertiesHash
	} else {
		properties = b.resolver.properties(n, c.names)
		key = propertiesKey(properties)
	}
	if found := c.contents[key]; found != nil {
		return found
	}
	if hash == ([32]byte{}) {
		hash = wire.PropertiesHash(properties)
	}
	made := &content{
		composition: c, properties: properties, key: key, propertiesHash: hash,
		hash: wire.JoinHashes(c.hash, hash), size: c.size,
	}
	for i := range properties {
		made.size += wire.PropertySize(&properties[i])
	}
	c.contents[key] = made
	b.made = append(b.made, made)
	return made
}

// sameProperties reports that a node keeps the values of its present content: the pass
// changes neither the node, nor its groups, nor any value, nor the list of properties read.
func (b *builder) sameProperties(n *node, c *composition) bool {
	return n.content != nil && len(b.p.reread) == 0 && b.p.nodes != nil && !b.p.nodes.Contains(uint32(n.def.id)) &&
		(n.content.composition == c || slices.Equal(n.content.names, c.names))
}

// composition returns the present meaning of a check set, made again if a check of
// it was redefined in this pass.
func (b *builder) composition(s *checkSet) *composition {
	if c := b.compositions[s]; c != nil {
		return c
	}
	c := s.composed
	if c == nil {
		c = b.compose(s)
	} else if slices.ContainsFunc(s.ids, func(id model.CheckID) bool { _, redefined := b.p.redefine[id]; return redefined }) {
		if c = b.recompose(s); c == nil {
			c = b.compose(s)
		}
	}
	b.compositions[s] = c
	return c
}

// compose makes a composition from nothing.
func (b *builder) compose(s *checkSet) *composition {
	c := &composition{contents: map[string]*content{}}
	for _, id := range s.ids {
		def := b.f.checks[id].def
		c.chunks = append(c.chunks, &def.chunk.Chunk)
		c.size += wire.ChunkSize(def.size)
		if def.proxied == nil {
			c.names = append(c.names, def.props...)
		}
	}
	slices.SortFunc(c.chunks, func(x, y *model.Chunk) int { return int(int64(x.ID) - int64(y.ID)) })
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	c.proxied = b.proxied(s, c.chunks)
	c.size += c.proxied.Wire().Size()
	c.hash = wire.ChunksHash(c.chunks, c.proxied.Wire())
	return c
}

// recompose makes a composition from the one before, with the chunks of redefined checks
// replaced; nil where more than chunks differs.
func (b *builder) recompose(s *checkSet) *composition {
	old := s.composed
	if old.proxied != nil {
		return nil
	}
	c := &composition{contents: map[string]*content{}, names: old.names, size: old.size, chunks: slices.Clone(old.chunks)}
	for _, id := range s.ids {
		was, redefined := b.p.redefine[id]
		if !redefined {
			continue
		}
		now := b.f.checks[id].def
		if was == nil || was.proxied != nil || now.proxied != nil || !slices.Equal(was.props, now.props) {
			return nil
		}
		at, found := slices.BinarySearchFunc(c.chunks, was.chunk.ID, compareChunk)
		if !found || c.chunks[at].Unit != id {
			return nil // the set was composed of another definition
		}
		c.chunks = slices.Delete(c.chunks, at, at+1)
		at, _ = slices.BinarySearchFunc(c.chunks, now.chunk.ID, compareChunk)
		c.chunks = slices.Insert(c.chunks, at, &now.chunk.Chunk)
		c.size += now.size - was.size
	}
	c.hash = wire.ChunksHash(c.chunks, nil)
	return c
}

func compareChunk(c *model.Chunk, id model.ChunkID) int { return cmp.Compare(c.ID, id) }

// forget takes back what a trial left in compositions that stay.
func (b *builder) forget() {
	for _, made := range b.made {
		if made.refs == 0 {
			delete(made.contents, made.key)
		}
	}
}

// propertiesKey is equal for equal lists only.
func propertiesKey(list []wire.Property) string {
	if len(list) == 0 {
		return ""
	}
	var key []byte
	for _, v := range list {
		for _, part := range [...]string{v.Name, string(v.Value), v.Error} {
			key = binary.AppendUvarint(key, uint64(len(part)))
			key = append(key, part...)
		}
	}
	return string(key)
}
