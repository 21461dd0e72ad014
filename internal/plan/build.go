package plan

import (
	"encoding/binary"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// build composes the assignments that a pass marked and returns the nodes whose
// assignment differs from before. What does not differ keeps its generation. A node
// whose assignment would not fit a frame has none: its agent goes on with what it
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
	b.forget() // what nobody may hold
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
	properties := b.resolver.properties(n, c.names)
	key := propertiesKey(properties)
	if found := c.contents[key]; found != nil {
		return found
	}
	made := &content{
		composition: c, properties: properties, key: key,
		hash: wire.AssignmentHash(c.chunks, properties, c.proxied.wire()), size: c.size,
	}
	for i := range properties {
		made.size += wire.PropertySize(&properties[i])
	}
	c.contents[key] = made
	b.made = append(b.made, made)
	return made
}

// composition returns the present meaning of a check set, made again if a check of
// it was redefined in this pass.
func (b *builder) composition(s *checkSet) *composition {
	if c := b.compositions[s]; c != nil {
		return c
	}
	c := s.composed
	if c == nil || slices.ContainsFunc(s.ids, func(id model.CheckID) bool { return b.p.redefine[id] }) {
		c = &composition{contents: map[string]*content{}}
		for _, id := range s.ids {
			def := b.f.checks[id].def
			c.chunks = append(c.chunks, def.chunk)
			c.size += wire.ChunkSize(def.size)
			if def.proxied == nil {
				c.names = append(c.names, def.props...)
			}
		}
		slices.SortFunc(c.chunks, func(x, y *model.Chunk) int { return int(int64(x.ID) - int64(y.ID)) })
		slices.Sort(c.names)
		c.names = slices.Compact(c.names)
		c.proxied = b.proxied(s, c.chunks)
		c.size += c.proxied.wire().Size()
	}
	b.compositions[s] = c
	return c
}

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
