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

// snapshot is one immutable version of the directory.
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
	number     uint64 // of this draft: sets with it are not yet shared with readers
	nodes      mapDraft[model.NodeID, PlacedNode]
	nodeNames  mapDraft[route.Name, model.NodeID]
	uids       mapDraft[uuid.UUID, model.NodeID]
	byLabel    mapDraft[where.Pair, *nodeSet]
	byLabelKey mapDraft[unique.Handle[string], *nodeSet]
	members    mapDraft[string, *nodeSet]
	machines   int

	namespaces     mapDraft[string, *Namespace]
	namespaceNames mapDraft[model.NamespaceID, string]
	units          mapDraft[model.UnitID, PlacedUnit]
	unitNames      mapDraft[unitName, model.UnitID]
	groups         mapDraft[route.Name, Group]
	groupNames     []route.Name
	resources      mapDraft[Resource, model.Spec]
	chunks         mapDraft[model.ChunkID, *model.Chunk]
}

// seal makes a snapshot of the draft.
func (d *Draft) seal(revision int64) *snapshot {
	d.number++
	return &snapshot{
		revision: revision, nodes: d.nodes.seal(), nodeNames: d.nodeNames.seal(), uids: d.uids.seal(),
		byLabel: d.byLabel.seal(), byLabelKey: d.byLabelKey.seal(), members: d.members.seal(), machines: d.machines,
		namespaces: d.namespaces.seal(), namespaceNames: d.namespaceNames.seal(),
		units: d.units.seal(), unitNames: d.unitNames.seal(), groups: d.groups.seal(), groupNames: d.groupNames,
		resources: d.resources.seal(), chunks: d.chunks.seal(),
	}
}

// SetNode enters or replaces a node.
func (d *Draft) SetNode(n PlacedNode) {
	old, known := d.nodes.Get(n.ID)
	d.nodes.set(n.ID, n)
	if known && old.Node == n.Node {
		return // only groups, units or the assignment differ
	}
	if known {
		d.unindex(old.Node, n.Node)
	}
	d.nodeNames.set(n.Name, n.ID)
	if n.UID != uuid.Nil {
		d.uids.set(n.UID, n.ID)
	}
	enter(d, &d.members, "", n.ID)
	enter(d, &d.members, n.Namespace, n.ID)
	if !n.Proxy {
		d.machines++
	}
	for _, l := range n.Labels {
		if known && hasPair(old.Labels, l) {
			continue
		}
		enter(d, &d.byLabel, l, n.ID)
		if !known || !hasKey(old.Labels, l.Key) {
			enter(d, &d.byLabelKey, l.Key, n.ID)
		}
	}
}

// DeleteNode removes a node.
func (d *Draft) DeleteNode(id model.NodeID) {
	if old, known := d.nodes.Get(id); known {
		d.nodes.delete(id)
		d.unindex(old.Node, &Node{})
	}
}

// unindex removes the index entries of a node that its next record does not share.
func (d *Draft) unindex(old, next *Node) {
	if at, ok := d.nodeNames.Get(old.Name); ok && at == old.ID && next.Name != old.Name {
		d.nodeNames.delete(old.Name)
	}
	if at, ok := d.uids.Get(old.UID); ok && at == old.ID && next.UID != old.UID {
		d.uids.delete(old.UID)
	}
	if next.ID == 0 {
		leave(d, &d.members, "", old.ID)
	}
	if next.Namespace != old.Namespace {
		leave(d, &d.members, old.Namespace, old.ID)
	}
	if !old.Proxy {
		d.machines--
	}
	for _, l := range old.Labels {
		if hasPair(next.Labels, l) {
			continue
		}
		leave(d, &d.byLabel, l, old.ID)
		if !hasKey(next.Labels, l.Key) {
			leave(d, &d.byLabelKey, l.Key, old.ID)
		}
	}
}

func hasPair(pairs where.Pairs, p where.Pair) bool {
	v, ok := pairs.Get(p.Key.Value())
	return ok && v == p.Value.Value()
}

func hasKey(pairs where.Pairs, key unique.Handle[string]) bool {
	_, ok := pairs.Get(key.Value())
	return ok
}

// enter adds a node to a set of an index, leave removes it. A set that readers share is copied first.
func enter[K comparable](d *Draft, index *mapDraft[K, *nodeSet], key K, id model.NodeID) {
	set, _ := index.Get(key)
	switch {
	case set == nil:
		index.set(key, &nodeSet{roaring.BitmapOf(uint32(id)), d.number})
		return
	case set.draft != d.number:
		set = &nodeSet{set.Clone(), d.number}
		index.set(key, set)
	}
	set.Add(uint32(id))
}

func leave[K comparable](d *Draft, index *mapDraft[K, *nodeSet], key K, id model.NodeID) {
	set, _ := index.Get(key)
	if set == nil {
		return
	}
	if set.draft != d.number {
		set = &nodeSet{set.Clone(), d.number}
		index.set(key, set)
	}
	if set.Remove(uint32(id)); set.IsEmpty() {
		index.delete(key)
	}
}

// SetUnit enters or replaces a unit. Nobody may change its set of nodes afterwards.
func (d *Draft) SetUnit(u PlacedUnit) {
	if old, known := d.units.Get(u.ID); known && old.Name != u.Name {
		d.forgetUnitName(old.Unit)
	}
	d.units.set(u.ID, u)
	d.unitNames.set(unitName{u.Kind, u.Name}, u.ID)
}

// DeleteUnit removes a unit.
func (d *Draft) DeleteUnit(id model.UnitID) {
	if old, known := d.units.Get(id); known {
		d.units.delete(id)
		d.forgetUnitName(old.Unit)
	}
}

// forgetUnitName removes a name, unless another unit has it by now.
func (d *Draft) forgetUnitName(u *Unit) {
	name := unitName{u.Kind, u.Name}
	if id, _ := d.unitNames.Get(name); id == u.ID {
		d.unitNames.delete(name)
	}
}

// SetGroup enters or replaces a group. Nobody may change its members afterwards.
func (d *Draft) SetGroup(name route.Name, g Group) { d.groups.set(name, g) }

// SetGroupNames sets the names of groups by GroupID. The list may only grow.
func (d *Draft) SetGroupNames(names []route.Name) { d.groupNames = names }

// SetNamespace enters or replaces a namespace.
func (d *Draft) SetNamespace(n *Namespace) {
	d.namespaces.set(n.Name, n)
	d.namespaceNames.set(n.ID, n.Name)
}

// DeleteNamespace removes a namespace.
func (d *Draft) DeleteNamespace(n *Namespace) {
	d.namespaces.delete(n.Name)
	d.namespaceNames.delete(n.ID)
}

// SetResource enters or replaces a resource; a nil spec removes it.
func (d *Draft) SetResource(r Resource, spec model.Spec) {
	if spec == nil {
		d.resources.delete(r)
		return
	}
	d.resources.set(r, spec)
}

// SetChunk enters a chunk, which never changes.
func (d *Draft) SetChunk(c *model.Chunk) { d.chunks.set(c.ID, c) }

// DeleteChunk removes a chunk that no reader can name any more.
func (d *Draft) DeleteChunk(id model.ChunkID) { d.chunks.delete(id) }

// shards is the number of parts of a Map. A map of 20,000 nodes has 80 entries in each.
const shards = 256

var seed = maphash.MakeSeed()

func shardOf[K comparable](key K) uint8 { return uint8(maphash.Comparable(seed, key)) }

// Map is an immutable map in 256 shards. Versions of a map share the shards in which they agree: an edit
// of n keys copies at most n shards, whatever the size of the map. The zero Map is empty.
type Map[K comparable, V any] struct {
	shards *[shards]map[K]V
	size   int
}

// Get returns the value of a key.
func (m Map[K, V]) Get(key K) (v V, ok bool) {
	if m.shards == nil {
		return v, false
	}
	v, ok = m.shards[shardOf(key)][key]
	return v, ok
}

// Value returns the value of a key; the zero value: the map has none.
func (m Map[K, V]) Value(key K) V {
	v, _ := m.Get(key)
	return v
}

// Len returns the number of keys.
func (m Map[K, V]) Len() int { return m.size }

// All yields keys and values in no order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.shards == nil {
			return
		}
		for _, shard := range m.shards {
			for k, v := range shard {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// mapDraft is the next version of a Map. It owns the shards that it has copied since the last seal.
// One goroutine uses it.
type mapDraft[K comparable, V any] struct {
	Map[K, V]
	changed bool
	owned   [shards]bool
}

// shard returns the shard of a key for writing.
func (d *mapDraft[K, V]) shard(key K) map[K]V {
	if !d.changed {
		next := new([shards]map[K]V)
		if d.shards != nil {
			*next = *d.shards
		}
		d.shards, d.changed = next, true
	}
	i := shardOf(key)
	if !d.owned[i] {
		d.owned[i] = true
		if d.shards[i] = maps.Clone(d.shards[i]); d.shards[i] == nil {
			d.shards[i] = map[K]V{}
		}
	}
	return d.shards[i]
}

func (d *mapDraft[K, V]) set(key K, v V) {
	shard := d.shard(key)
	before := len(shard)
	shard[key] = v
	d.size += len(shard) - before
}

func (d *mapDraft[K, V]) delete(key K) {
	if _, ok := d.Get(key); ok {
		delete(d.shard(key), key)
		d.size--
	}
}

// seal returns the map for readers. The draft copies shards again from now on.
func (d *mapDraft[K, V]) seal() Map[K, V] {
	if d.changed {
		d.changed, d.owned = false, [shards]bool{}
	}
	return d.Map
}
