package directory

import (
	"hash/maphash"
	"iter"
	"maps"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// snapshot is one version of the directory. Versions share the shards of maps and the sets in which they
// agree: a Draft copies what an older draft made before it changes it.
type snapshot struct {
	revision   int64
	nodes      Map[model.NodeID, PlacedNode]
	nodeNames  Map[route.Name, model.NodeID]
	uids       Map[uuid.UUID, model.NodeID]
	byLabel    Map[where.Pair, *nodeSet]
	byLabelKey Map[unique.Handle[string], *nodeSet]
	members    Map[string, *nodeSet] // nodes of a namespace; "": all nodes
	machines   int                   // nodes that are no proxy nodes

	namespaces     Map[string, *Namespace]
	namespaceNames Map[model.NamespaceID, string]
	units          Map[model.UnitID, PlacedUnit]
	unitNames      Map[unitName, model.UnitID]
	groups         Map[route.Name, Group]
	groupNames     []route.Name // by GroupID; only appended to
	resources      Map[Resource, model.Spec]
	chunks         Map[model.ChunkID, *model.Chunk]
}

// nodeSet is a set of nodes. The draft that made it may change it until it is published.
type nodeSet struct {
	*roaring.Bitmap
	draft uint64
}

// Draft is the next snapshot. The planner alone writes it, one change at a time; readers see nothing of
// it before Publish.
type Draft struct {
	snapshot
	number uint64 // of this draft, from 1: shards and sets with it are not yet shared with readers
	of     *Directory
}

// Publish makes the draft the snapshot that readers see, as of an intent revision.
func (d *Draft) Publish(revision int64) {
	d.revision = revision
	d.number++
	now := d.snapshot
	d.of.now.Store(&now)
}

// Notify calls every subscriber with a published change.
func (d *Draft) Notify(c Change) {
	d.of.mu.Lock()
	subscribers := d.of.subscribers
	d.of.mu.Unlock()
	for _, fn := range subscribers {
		fn(c)
	}
}

// SetNode enters or replaces a node.
func (d *Draft) SetNode(n PlacedNode) {
	old, known := d.nodes.Get(n.ID)
	d.nodes.set(n.ID, n, d.number)
	switch {
	case !known:
		old.Node = noNode
	case old.Node == n.Node:
		return // only groups, units or the assignment differ
	default:
		d.removeFromIndexes(old.Node, n.Node)
	}
	d.nodeNames.set(n.Name, n.ID, d.number)
	if n.UID != uuid.Nil {
		d.uids.set(n.UID, n.ID, d.number)
	}
	d.updateSets(n.Node, old.Node, true)
}

// DeleteNode removes a node.
func (d *Draft) DeleteNode(id model.NodeID) {
	if old, known := d.nodes.Get(id); known {
		d.nodes.delete(id, d.number)
		d.removeFromIndexes(old.Node, noNode)
	}
}

// removeFromIndexes removes the index entries of a node that its next record does not share.
func (d *Draft) removeFromIndexes(old, next *Node) {
	if at, ok := d.nodeNames.Get(old.Name); ok && at == old.ID && next.Name != old.Name {
		d.nodeNames.delete(old.Name, d.number)
	}
	if at, ok := d.uids.Get(old.UID); ok && at == old.ID && next.UID != old.UID {
		d.uids.delete(old.UID, d.number)
	}
	d.updateSets(old, next, false)
}

// updateSets adds a node to the sets of its namespace and labels, or removes it, except from those that
// its other record shares.
func (d *Draft) updateSets(n, other *Node, add bool) {
	if other.ID == 0 {
		changeSet(d, &d.members, "", n.ID, add)
	}
	if other.Namespace != n.Namespace {
		changeSet(d, &d.members, n.Namespace, n.ID, add)
	}
	switch {
	case n.Proxy:
	case add:
		d.machines++
	default:
		d.machines--
	}
	for _, l := range n.Labels {
		value, shared := other.Labels.Get(l.Key.Value())
		if shared && value == l.Value.Value() {
			continue
		}
		changeSet(d, &d.byLabel, l, n.ID, add)
		if !shared {
			changeSet(d, &d.byLabelKey, l.Key, n.ID, add)
		}
	}
}

// changeSet adds a node to a set of an index, or removes it.
func changeSet[K comparable](d *Draft, index *Map[K, *nodeSet], key K, id model.NodeID, add bool) {
	set := index.Value(key)
	switch {
	case set == nil && !add:
		return
	case set == nil:
		set = &nodeSet{roaring.New(), d.number}
		index.set(key, set, d.number)
	case set.draft != d.number:
		set = &nodeSet{set.Clone(), d.number}
		index.set(key, set, d.number)
	}
	if add {
		set.Add(uint32(id))
	} else if set.Remove(uint32(id)); set.IsEmpty() {
		index.delete(key, d.number)
	}
}

// SetUnit enters or replaces a unit. Nobody may change its set of nodes afterwards.
func (d *Draft) SetUnit(u PlacedUnit) {
	if old, known := d.units.Get(u.ID); known && old.Name != u.Name {
		d.forgetUnitName(old.Unit)
	}
	d.units.set(u.ID, u, d.number)
	d.unitNames.set(unitName{u.Kind, u.Name}, u.ID, d.number)
}

// DeleteUnit removes a unit.
func (d *Draft) DeleteUnit(id model.UnitID) {
	if old, known := d.units.Get(id); known {
		d.units.delete(id, d.number)
		d.forgetUnitName(old.Unit)
	}
}

// forgetUnitName removes a name, unless another unit has it by now.
func (d *Draft) forgetUnitName(u *Unit) {
	if name := (unitName{u.Kind, u.Name}); d.unitNames.Value(name) == u.ID {
		d.unitNames.delete(name, d.number)
	}
}

// SetGroup enters or replaces a group. Nobody may change its members afterwards.
func (d *Draft) SetGroup(name route.Name, g Group) { d.groups.set(name, g, d.number) }

// SetGroupNames sets the names of groups by GroupID. The list may only grow.
func (d *Draft) SetGroupNames(names []route.Name) { d.groupNames = names }

// SetNamespace enters or replaces a namespace.
func (d *Draft) SetNamespace(n *Namespace) {
	d.namespaces.set(n.Name, n, d.number)
	d.namespaceNames.set(n.ID, n.Name, d.number)
}

// DeleteNamespace removes a namespace.
func (d *Draft) DeleteNamespace(n *Namespace) {
	d.namespaces.delete(n.Name, d.number)
	d.namespaceNames.delete(n.ID, d.number)
}

// SetResource enters or replaces a resource; a nil spec removes it.
func (d *Draft) SetResource(r Resource, spec model.Spec) {
	if spec == nil {
		d.resources.delete(r, d.number)
	} else {
		d.resources.set(r, spec, d.number)
	}
}

// SetChunk enters a chunk, which never changes.
func (d *Draft) SetChunk(c *model.Chunk) { d.chunks.set(c.ID, c, d.number) }

// DeleteChunk removes a chunk that no reader can name any more.
func (d *Draft) DeleteChunk(id model.ChunkID) { d.chunks.delete(id, d.number) }

// shards is the number of parts of a Map. A map of 20,000 nodes has 80 entries in each.
const shards = 256

var seed = maphash.MakeSeed()

// Map is a map in 256 shards, immutable for all but the draft that is being written. An edit of n keys
// copies at most n shards, whatever the size of the map. The zero Map is empty.
type Map[K comparable, V any] struct {
	shards *[shards]shard[K, V]
	draft  uint64 // that made the array; zero: there is none
	size   int
}

// shard is a part of the entries, with the draft that made it.
type shard[K comparable, V any] struct {
	entries map[K]V
	draft   uint64
}

func (m *Map[K, V]) shard(key K) *shard[K, V] { return &m.shards[uint8(maphash.Comparable(seed, key))] }

// Get returns the value of a key.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	if m.shards == nil {
		return v, false
	}
	v, ok = m.shard(key).entries[key]
	return v, ok
}

// Value returns the value of a key; the zero value: the map has none.
func (m *Map[K, V]) Value(key K) V {
	v, _ := m.Get(key)
	return v
}

// All yields keys and values in no order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.shards == nil {
			return
		}
		for i := range m.shards {
			for k, v := range m.shards[i].entries {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// entriesToChange returns the entries beside a key, which the draft may change.
func (m *Map[K, V]) entriesToChange(key K, draft uint64) map[K]V {
	if m.draft != draft {
		next := new([shards]shard[K, V])
		if m.shards != nil {
			*next = *m.shards
		}
		m.shards, m.draft = next, draft
	}
	s := m.shard(key)
	if s.draft != draft {
		s.entries, s.draft = maps.Clone(s.entries), draft
		if s.entries == nil {
			s.entries = map[K]V{}
		}
	}
	return s.entries
}

func (m *Map[K, V]) set(key K, v V, draft uint64) {
	entries := m.entriesToChange(key, draft)
	before := len(entries)
	entries[key] = v
	m.size += len(entries) - before
}

func (m *Map[K, V]) delete(key K, draft uint64) {
	if _, ok := m.Get(key); ok {
		delete(m.entriesToChange(key, draft), key)
		m.size--
	}
}
