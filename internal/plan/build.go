package plan

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// build composes the assignments that a pass marked and returns the nodes whose assignment differs from
// before. An assignment that is the same keeps its generation. A node whose assignment would be too large
// has none: its agent goes on with its last one (see build.go).
func (f *fleet) build(p *pass, generation wire.Generation) []model.NodeID {
	var changed []model.NodeID
	for _, n := range p.deleted {
		n.dropContent()
	}
	for id := range values32(roaring.And(p.nodes, f.proxies)) { // it may have been a machine before
		n := f.nodes[model.NodeID(id)]
		n.dropContent()
		f.setExcess(n, 0)
		n.generation = wire.Generation{}
	}
	b := f.builder(p)
	for id := range values32(p.build) {
		n := f.nodes[model.NodeID(id)]
		f.counts.Built++
		made := b.content(n)
		f.setExcess(n, made.bytesOverLimit())
		if n.excess > 0 {
			n.dropContent()
			p.oversized = append(p.oversized, oversizedText(n, made))
			continue
		}
		made.refs++
		same := n.content != nil && n.content.Hash == made.Hash
		n.dropContent()
		n.content = made
		if !same {
			n.generation = generation
			changed = append(changed, n.def.ID)
			f.counts.Changed++
		}
	}
	b.discardUnused()
	for set, c := range b.compositions {
		set.composed = c
	}
	return changed
}

// dropContent ends a node's use of its content.
func (n *node) dropContent() {
	if c := n.content; c != nil {
		if c.refs--; c.refs == 0 {
			delete(c.contents, c.key)
		}
		n.content = nil
	}
}

// compareAssignments returns the nodes that build would change, and changes nothing. It is an error if one would
// get too large an assignment, and larger than the one before.
func (f *fleet) compareAssignments(p *pass) (nodes []model.NodeID, err error) {
	b := f.builder(p)
	var large []string
	for id := range values32(p.build) {
		n := f.nodes[model.NodeID(id)]
		made := b.content(n)
		if over := made.bytesOverLimit(); over > n.excess {
			large = append(large, oversizedText(n, made))
		}
		if n.content == nil || n.content.Hash != made.Hash {
			nodes = append(nodes, n.def.ID)
		}
	}
	b.discardUnused()
	return nodes, tooLarge(large)
}

// builder makes contents for one pass.
type builder struct {
	f            *fleet
	p            *pass
	resolver     *resolver
	compositions map[*unitSet]*composition
	made         []*content
}

func (f *fleet) builder(p *pass) *builder {
	return &builder{f: f, p: p, resolver: f.resolver(), compositions: map[*unitSet]*composition{}}
}

// content returns the shared content of a node: the composition of its units, with the node's values.
func (b *builder) content(n *node) *content {
	c := b.compose(n.units)
	var properties []wire.Property
	var key string
	var hash [32]byte
	if b.sameProperties(n, c) {
		properties, key, hash = n.content.Properties, n.content.key, n.content.propertiesHash
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
		composition: c, key: key, propertiesHash: hash, size: c.size,
		Content: directory.Content{Hash: wire.JoinHashes(c.hash, hash), Chunks: c.chunks, Properties: properties, Proxied: c.proxied},
	}
	for i := range properties {
		made.size += wire.PropertySize(&properties[i])
	}
	c.contents[key] = made
	b.made = append(b.made, made)
	return made
}

// sameProperties reports that a node keeps the values of its present content: the pass changes neither
// the node, nor its groups, nor any value, nor the list of properties read.
func (b *builder) sameProperties(n *node, c *composition) bool {
	return n.content != nil && len(b.p.revalued) == 0 && b.p.nodes != nil && !b.p.nodes.Contains(uint32(n.def.ID)) &&
		(n.content.composition == c || slices.Equal(n.content.names, c.names))
}

// compositionOf returns the composition of a unit set, made again if the pass redefined a unit of it.
func (b *builder) compositionOf(s *unitSet) *composition {
	if c := b.compositions[s]; c != nil {
		return c
	}
	c := s.composed
	if c == nil {
		c = b.compose(s)
	} else if slices.ContainsFunc(s.ids, func(id model.UnitID) bool { _, redefined := b.p.redefined[id]; return redefined }) {
		if c = b.composeAgain(s); c == nil {
			c = b.compose(s)
		}
	}
	b.compositions[s] = c
	return c
}

// compose makes a composition from nothing.
func (b *builder) compose(s *unitSet) *composition {
	c := &composition{contents: map[string]*content{}}
	for _, id := range s.ids {
		def := b.f.units[id].def
		body := def.in(s)
		c.chunks = append(c.chunks, body.chunk)
		c.size += wire.ChunkSize(body.size)
		if def.proxies == nil {
			c.names = append(c.names, body.properties...)
		}
	}
	slices.SortFunc(c.chunks, func(x, y *model.Chunk) int { return cmp.Compare(x.ID, y.ID) })
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	c.proxied = b.proxied(s, c.chunks)
	c.size += c.proxied.Wire().Size()
	c.hash = wire.ChunksHash(c.chunks, c.proxied.Wire())
	return c
}

// composeAgain makes a composition from the one before, with the chunks of redefined units replaced; nil
// where more than chunks differs.
func (b *builder) composeAgain(s *unitSet) *composition {
	old := s.composed
	if old.proxied != nil {
		return nil
	}
	c := &composition{contents: map[string]*content{}, names: old.names, size: old.size, chunks: slices.Clone(old.chunks)}
	for _, id := range s.ids {
		was, redefined := b.p.redefined[id]
		if !redefined {
			continue
		}
		unit := b.f.units[id].def
		if was == nil || was.proxies != nil || unit.proxies != nil {
			return nil
		}
		before, now := was.in(s), unit.in(s)
		if !slices.Equal(before.properties, now.properties) {
			return nil
		}
		at, found := slices.BinarySearchFunc(c.chunks, before.chunk.ID, compareChunk)
		if !found || c.chunks[at].Unit != id {
			return nil // the set was composed of another body
		}
		c.chunks = slices.Delete(c.chunks, at, at+1)
		at, _ = slices.BinarySearchFunc(c.chunks, now.chunk.ID, compareChunk)
		c.chunks = slices.Insert(c.chunks, at, now.chunk)
		c.size += now.size - before.size
	}
	c.hash = wire.ChunksHash(c.chunks, nil)
	return c
}

func compareChunk(c *model.Chunk, id model.ChunkID) int { return cmp.Compare(c.ID, id) }

// discardUnused removes contents that no node took from compositions that stay.
func (b *builder) discardUnused() {
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

// An assignment has a limit (wire.MaxAssignment). Preview refuses a change beyond it; but labels
// and facts of machines move checks too, and nobody is asked then. Such a node is built
// no assignment: the last one stays in force, and the reason is logged, counted
// and listed by Oversized.

// setExcess notes by how many bytes the assignment of a node would be too large.
func (f *fleet) setExcess(n *node, excess int) {
	if n.excess > 0 {
		f.oversized--
	}
	if excess > 0 {
		f.oversized++
	}
	n.excess = excess
}

// oversizedText says why the assignment of a node would be too large, with its largest parts.
func oversizedText(n *node, c *content) string {
	type part struct {
		name string
		size int
	}
	parts := make([]part, 0, len(c.chunks)+len(c.Properties))
	for _, chunk := range c.chunks {
		parts = append(parts, part{"check " + chunk.Name, len(wire.AppendChunk(nil, chunk))})
	}
	for i := range c.Properties {
		parts = append(parts, part{"property " + c.Properties[i].Name, wire.PropertySize(&c.Properties[i])})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	const shown = 3
	var largest []string
	for _, p := range parts[:min(shown, len(parts))] {
		largest = append(largest, p.name+" "+kibibytes(p.size))
	}
	return fmt.Sprintf("the assignment of node %s would have %s (%d checks, %d properties), the limit is %s; the largest are %s",
		n.def.Name, kibibytes(c.size), len(c.chunks), len(c.Properties), kibibytes(wire.MaxAssignment), strings.Join(largest, ", "))
}

func kibibytes(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }

// tooLarge is the error of a change; nil where no node is concerned.
func tooLarge(nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	text := nodes[0]
	if more := len(nodes) - 1; more > 0 {
		text += fmt.Sprintf("; the same for %d more nodes", more)
	}
	return model.Errorf(model.Limited, "%s", text).
		WithHint("move long texts to files on the nodes, or run fewer checks on one node")
}

// Oversized lists the nodes whose assignment would be too large, at most so many, each with the reason.
func (i *Inspector) Oversized(most int) (list []string) {
	none := false
	if i.withFleet(func(f inspection) { none = f.oversized == 0 }); none {
		return nil
	}
	i.p.compiling.Lock() // contents are composed again
	defer i.p.compiling.Unlock()
	i.p.mu.Lock()
	defer i.p.mu.Unlock()
	b := i.p.fleet.builder(&pass{})
	for _, n := range i.p.fleet.nodes {
		if n.excess > 0 && len(list) < most {
			list = append(list, oversizedText(n, b.content(n)))
		}
	}
	b.discardUnused()
	slices.Sort(list)
	return list
}
