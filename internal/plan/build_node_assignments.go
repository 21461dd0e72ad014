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

// build recomputes the assignments of all nodes that the applied edits affect. It returns the nodes whose assignment
// differs from the one before. An unchanged assignment keeps its generation. A node whose assignment would be too
// large gets one without its largest units (see fitting).
func (f *fleet) build(p *recomputation, generation wire.Generation) []model.NodeID {
	var changed []model.NodeID
	for _, n := range p.deleted {
		n.dropContent()
	}
	for id := range bitmapIDs(roaring.And(p.nodes, f.proxies)) { // a proxy node may have been a machine before
		n := f.nodes[model.NodeID(id)]
		n.dropContent()
		f.recordExcess(n, 0)
		n.generation = wire.Generation{}
	}
	b := f.builder(p)
	for id := range bitmapIDs(p.build) {
		n := f.nodes[model.NodeID(id)]
		f.counts.Built++
		full := b.content(n)
		f.recordExcess(n, full.bytesOverLimit())
		if n.excess > 0 {
			p.oversized = append(p.oversized, oversizedReason(n, full))
		}
		made := b.trimToLimit(n, full)
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
	b.discardUnusedContents()
	for set, c := range b.compositions {
		set.composed = c
	}
	return changed
}

// dropContent releases the node's references to compiled checks and property values shared with other nodes.
// Several nodes share one content of assignments.
func (n *node) dropContent() {
	if c := n.content; c != nil {
		if c.refs--; c.refs == 0 {
			delete(c.contents, c.key)
		}
		n.content = nil
	}
}

// changedAssignments returns the nodes whose assignments a build would change, without making the changes. The
// caller discards the contents that no node uses. It fails if a node would get an assignment that exceeds the
// limit and is larger than the node's present one.
func (b *builder) changedAssignments() (nodes []model.NodeID, err error) {
	var large []string
	for id := range bitmapIDs(b.p.build) {
		n := b.f.nodes[model.NodeID(id)]
		full := b.content(n)
		if over := full.bytesOverLimit(); over > n.excess {
			large = append(large, oversizedReason(n, full))
		}
		if n.content == nil || n.content.Hash != b.trimToLimit(n, full).Hash {
			nodes = append(nodes, n.def.ID)
		}
	}
	return nodes, oversizedError(large)
}

// builder computes the compiled checks and property values of assignments after edits
type builder struct {
	f            *fleet
	p            *recomputation
	resolver     *resolver
	compositions map[*unitSet]*compiledSet
	contents     []*content
}

// builder returns a builder of the assignments that the applied edits affect
func (f *fleet) builder(p *recomputation) *builder {
	return &builder{f: f, p: p, resolver: f.resolver(), compositions: map[*unitSet]*compiledSet{}}
}

// content returns the compiled checks and property values that go into a node's assignment. Nodes with the same units
// and values share it.
func (b *builder) content(n *node) *content { return b.contentOf(n, b.compiledSetOf(n.units)) }

// contentOf returns the content of a node's assignment for a given set of compiled checks. The content also has the
// values of the properties that the checks read.
func (b *builder) contentOf(n *node, c *compiledSet) *content {
	var properties []wire.Property
	var key string
	var hash [32]byte
	if b.keepsProperties(n, c) {
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
		compiledSet: c, key: key, propertiesHash: hash, size: c.size,
		SharedContent: directory.SharedContent{Hash: wire.JoinHashes(c.hash, hash), Definitions: c.definitions, Properties: properties, Proxied: c.proxied},
	}
	for i := range properties {
		made.size += wire.PropertySize(&properties[i])
	}
	c.contents[key] = made
	b.contents = append(b.contents, made)
	return made
}

// keepsProperties reports whether the property values in a node's last assignment are still valid. Then the node's
// earlier assignment can be reused.
func (b *builder) keepsProperties(n *node, c *compiledSet) bool {
	id := uint32(n.def.ID)
	return n.content != nil && len(b.p.revalued) == 0 && b.p.nodes != nil && !b.p.nodes.Contains(id) && !b.p.remode.Contains(id) &&
		(n.content.compiledSet == c || !n.content.enforces && !c.enforces && slices.Equal(n.content.names, c.names))
}

// compiledSetOf returns the compiled checks for a given set of assigned checks, from the cache if possible. It
// composes the set again if the pass changed the definition of one of its units.
func (b *builder) compiledSetOf(s *unitSet) *compiledSet {
	if c := b.compositions[s]; c != nil {
		return c
	}
	c := s.composed
	if c == nil {
		c = b.compose(s)
	} else if slices.ContainsFunc(s.ids, func(id model.UnitID) bool { _, redefined := b.p.redefined[id]; return redefined }) {
		if c = b.updateCompiledSet(s); c == nil {
			c = b.compose(s)
		}
	}
	b.compositions[s] = c
	return c
}

// compose builds the list of compiled checks for nodes with the same set of checks. It also lists the properties that
// the checks read. The given checks of the set are left out.
func (b *builder) compose(s *unitSet, leftOut ...model.UnitID) *compiledSet {
	c := &compiledSet{contents: map[string]*content{}, leftOut: leftOut}
	for _, id := range s.ids {
		if slices.Contains(leftOut, id) {
			continue
		}
		def := b.f.units[id].def
		body := def.bodyFor(s)
		c.definitions = append(c.definitions, body.definition)
		c.size += wire.DefinitionSize(body.size)
		c.enforces = c.enforces || newTrustRules(b.f).mayEnforce(def)
		if def.proxies == nil || body.definition.AsCheck().OwnEntity {
			c.names = append(c.names, body.properties...)
		}
	}
	slices.SortFunc(c.definitions, func(x, y *model.Definition) int { return cmp.Compare(x.ID, y.ID) })
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	c.proxied = b.proxyTargets(s, leftOut, c.definitions)
	c.size += c.proxied.ToWire().Size()
	c.hash = wire.DefinitionsHash(c.definitions, c.proxied.ToWire())
	return c
}

// updateCompiledSet replaces the changed checks in a list of compiled checks. It returns nil if more than definitions
// differs.
func (b *builder) updateCompiledSet(s *unitSet) *compiledSet {
	old := s.composed
	if old.proxied != nil {
		return nil
	}
	c := &compiledSet{contents: map[string]*content{}, names: old.names, enforces: old.enforces, size: old.size, definitions: slices.Clone(old.definitions)}
	for _, id := range s.ids {
		was, redefined := b.p.redefined[id]
		if !redefined {
			continue
		}
		unit := b.f.units[id].def
		if was == nil || was.proxies != nil || unit.proxies != nil {
			return nil
		}
		before, now := was.bodyFor(s), unit.bodyFor(s)
		c.enforces = c.enforces || newTrustRules(b.f).mayEnforce(unit)
		if !slices.Equal(before.properties, now.properties) {
			return nil
		}
		at, found := slices.BinarySearchFunc(c.definitions, before.definition.ID, compareDefinition)
		if !found || c.definitions[at].Unit != id {
			return nil // the set was composed with another body of the unit
		}
		c.definitions = slices.Delete(c.definitions, at, at+1)
		at, _ = slices.BinarySearchFunc(c.definitions, now.definition.ID, compareDefinition)
		c.definitions = slices.Insert(c.definitions, at, now.definition)
		c.size += now.size - before.size
	}
	c.hash = wire.DefinitionsHash(c.definitions, nil)
	return c
}

// compareDefinition compares the id of a compiled check with an id, for a binary search
func compareDefinition(c *model.Definition, id model.DefinitionID) int { return cmp.Compare(c.ID, id) }

// discardUnusedContents removes unused compiled checks and property values from the caches. No node uses them in its
// assignment.
func (b *builder) discardUnusedContents() {
	for _, made := range b.contents {
		if made.refs == 0 {
			delete(made.contents, made.key)
		}
	}
}

// propertiesKey encodes property values as a map key. Equal values have equal keys.
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

// An assignment is limited to wire.MaxAssignment bytes. Preview refuses a declared change that exceeds the limit. But
// changed labels and facts of machines also bring checks to nodes, and nobody can refuse those. Then the largest units are
// left out until the rest fits: each is a fault of the node, and the reason is logged, counted and listed by Oversized.

// trimToLimit reduces the content of a node's assignment to the size limit by leaving out the largest checks.
// The largest checks and other units are left out. Nodes with the same content share it. Each turn leaves out
// as many units as seem to suffice, and at least twice as many units as the turn before.
func (b *builder) trimToLimit(n *node, full *content) *content {
	if full.fitting != nil || full.bytesOverLimit() == 0 {
		return cmp.Or(full.fitting, full)
	}
	rest := slices.Clone(n.units.ids)
	var leftOut []model.UnitID
	full.fitting = full
	for least := 1; full.fitting.bytesOverLimit() > 0 && len(rest) > 0; least *= 2 {
		weights, tooMany := b.unitSizes(n, full.fitting, rest)
		slices.SortStableFunc(rest, func(x, y model.UnitID) int { return cmp.Compare(weights[x], weights[y]) })
		over := full.fitting.bytesOverLimit()
		for count := 0; (over > 0 || count < least) && len(rest) > 0; count++ {
			largest := rest[len(rest)-1]
			if weights[largest] == 0 && count > 0 {
				break // the others make the assignment no smaller
			}
			leftOut, rest = append(leftOut, largest), rest[:len(rest)-1]
			if tooMany {
				over--
			} else {
				over -= weights[largest]
			}
		}
		full.fitting = b.contentOf(n, b.compose(n.units, slices.Clone(leftOut)...))
	}
	return full.fitting
}

// unitSizes estimates how many bytes each check or directive adds to a node's assignment. The weight includes the
// properties that it reads and the proxy nodes that it names. While a proxy node is too large, only the properties
// count that a unit reads of this one. A Waiver has no weight: without it, an agent would repair the components that
// it excuses. tooMany reports that the number of definitions, properties or proxy nodes exceeds a limit, and no size.
func (b *builder) unitSizes(n *node, c *content, units []model.UnitID) (weights map[model.UnitID]int, tooMany bool) {
	properties := propertySizes(c.Properties)
	proxies, large := map[model.NodeID]int{}, map[model.NodeID]map[string]int{}
	if c.proxied != nil {
		for i := range c.proxied.Nodes {
			proxy := &c.proxied.Nodes[i]
			if proxies[proxy.Node] = proxy.Size(); proxy.Size() > wire.MaxPart {
				large[proxy.Node] = propertySizes(proxy.Properties)
			}
		}
	}
	weights = map[model.UnitID]int{}
	for _, id := range units {
		u := b.f.units[id]
		body := u.def.bodyFor(n.units)
		if body.definition.AsWaiver() != nil {
			continue
		}
		var subjects []model.NodeID
		if u.def.proxies != nil {
			subjects = nodeIDs(roaring.And(u.nodes.Bitmap, b.f.proxies))
		}
		if len(large) == 0 {
			weights[id] = wire.DefinitionSize(body.size)
			for _, name := range body.properties {
				weights[id] += properties[name]
			}
		}
		for _, subject := range subjects {
			if len(large) == 0 {
				weights[id] += proxies[subject]
			} else if sizes := large[subject]; sizes != nil && !body.definition.AsCheck().OwnEntity {
				for _, name := range body.properties {
					weights[id] += sizes[name]
				}
			}
		}
	}
	return weights, len(large) == 0 && c.size <= wire.MaxAssignment
}

// propertySizes returns the number of bytes that each property adds to an assignment.
func propertySizes(list []wire.Property) map[string]int {
	sizes := map[string]int{}
	for i := range list {
		sizes[list[i].Name] = wire.PropertySize(&list[i])
	}
	return sizes
}

// recordExcess records by how many bytes a node's assignment exceeds the size limit.
func (f *fleet) recordExcess(n *node, excess int) {
	if n.excess > 0 {
		f.oversized--
	}
	if excess > 0 {
		f.oversized++
	}
	n.excess = excess
}

// oversizedReason explains why a node's assignment exceeds the size limit, and names the largest parts.
func oversizedReason(n *node, c *content) string {
	type part struct {
		name string
		size int
	}
	parts := make([]part, 0, len(c.definitions)+len(c.Properties))
	for _, definition := range c.definitions {
		parts = append(parts, part{"check " + definition.Name, len(wire.AppendDefinition(nil, definition))})
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
		n.def.Name, kibibytes(c.size), len(c.definitions), len(c.Properties), kibibytes(wire.MaxAssignment), strings.Join(largest, ", "))
}

// kibibytes formats a number of bytes as KiB for messages.
func kibibytes(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }

// oversizedError returns the error about a change that would make assignments too large. It returns nil if every
// node's assignment fits.
func oversizedError(nodes []string) error {
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

// OversizedNodes returns the nodes with an assignment above the size limit, each with the reason. An assignment has all
// compiled checks of a node. The list has at most `most` nodes.
func (i *Inspector) OversizedNodes(most int) (list []string) {
	none := false
	if i.withFleet(func(f inspection) { none = f.oversized == 0 }); none {
		return nil
	}
	i.p.compiling.Lock() // contents are composed again
	defer i.p.compiling.Unlock()
	i.p.mu.Lock()
	defer i.p.mu.Unlock()
	b := i.p.fleet.builder(&recomputation{})
	for _, n := range i.p.fleet.nodes {
		if n.excess > 0 && len(list) < most {
			list = append(list, oversizedReason(n, b.content(n)))
		}
	}
	b.discardUnusedContents()
	slices.Sort(list)
	return list
}
