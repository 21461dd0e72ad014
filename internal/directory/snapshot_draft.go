package directory

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// snapshot is one immutable version of the directory of nodes, checks and groups. Readers use it without a
// lock. Versions share the shards of maps and the node sets that did not change: a Draft copies a shard or set
// of an older version before it changes it.
type snapshot struct {
	revision   int64
	nodes      Map[model.NodeID, NodeEntry]
	nodeNames  Map[route.Name, model.NodeID]
	byLabel    Map[where.Pair, *nodeSet]
	byLabelKey Map[unique.Handle[string], *nodeSet]
	members    Map[string, *nodeSet] // nodes by namespace; "": all nodes
	polled     Map[string, *nodeSet] // "": nodes with an agent of Zabbix that the server polls
	machines   int                   // nodes that are no proxy nodes

	namespaces     Map[string, *Namespace]
	namespaceNames Map[model.NamespaceID, string]
	withSenders    []*Namespace // those with ZabbixFrom or RudderFrom
	units          Map[model.UnitID, UnitEntry]
	unitNames      Map[unitKey, model.UnitID]
	groups         Map[route.Name, Group]
	groupNames     []route.Name // names by GroupID; the list only grows
	resources      Map[ResourceKey, model.Spec]
	definitions    Map[model.DefinitionID, *model.Definition]
}

// nodeSet is the set of nodes under one key of an index, such as a label's nodes. Several snapshots share the
// same set. Only the draft that made the set may change it, and only before it is published.
type nodeSet struct {
	*roaring.Bitmap
	draft uint64
}

// Draft collects the planner's changes for the next snapshot of the directory. The planner alone changes it, from one
// goroutine at a time. Readers see the changes after Publish.
type Draft struct {
	snapshot
	number uint64 // number of this draft, from 1; shards and sets with the number are not yet shared with readers
	of     *Directory
}

// Publish replaces the snapshot of the directory that readers see by the content of the draft. revision is the
// revision of the declared resources from which the draft was compiled.
func (d *Draft) Publish(revision int64) {
	d.revision = revision
	d.number++
	now := d.snapshot
	d.of.now.Store(&now)
}

// Notify calls every function registered by Directory.Subscribe with a list of published changes.
func (d *Draft) Notify(c Change) {
	d.of.mu.Lock()
	subscribers := d.of.subscribers
	d.of.mu.Unlock()
	for _, fn := range subscribers {
		fn(c)
	}
}

// SetNode adds or replaces the record of a node in the draft of the next directory snapshot.
func (d *Draft) SetNode(n NodeEntry) {
	old, known := d.nodes.Get(n.ID)
	d.nodes.set(n.ID, n, d.number)
	switch {
	case !known:
		old.Node = unknownNode
	case old.Node == n.Node:
		return // indexes do not change: only groups, units or the assignment of the node differ
	default:
		d.removeFromIndexes(old.Node, n.Node)
	}
	d.nodeNames.set(n.Name, n.ID, d.number)
	d.updateIndexSets(n.Node, old.Node, true)
}

// DeleteNode removes the record of a node from the draft of the next directory snapshot.
func (d *Draft) DeleteNode(id model.NodeID) {
	if old, known := d.nodes.Get(id); known {
		d.nodes.delete(id, d.number)
		d.removeFromIndexes(old.Node, unknownNode)
	}
}

// removeFromIndexes removes a node from the indexes of its old names and labels. It keeps the names and labels that
// the new record also has.
func (d *Draft) removeFromIndexes(old, next *Node) {
	if at, ok := d.nodeNames.Get(old.Name); ok && at == old.ID && next.Name != old.Name {
		d.nodeNames.delete(old.Name, d.number)
	}
	d.updateIndexSets(old, next, false)
}

// updateIndexSets adds a node to (or removes a node from) the indexes of its namespace and labels. It skips the
// sets that the other record of the node also belongs to.
func (d *Draft) updateIndexSets(n, other *Node, add bool) {
	if other.ID == 0 {
		changeIndexSet(d, &d.members, "", n.ID, add)
	}
	if other.Namespace != n.Namespace {
		changeIndexSet(d, &d.members, n.Namespace, n.ID, add)
	}
	if n.ZabbixAgent != nil && other.ZabbixAgent == nil {
		changeIndexSet(d, &d.polled, "", n.ID, add)
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
		changeIndexSet(d, &d.byLabel, l, n.ID, add)
		if !shared {
			changeIndexSet(d, &d.byLabelKey, l.Key, n.ID, add)
		}
	}
}

// changeIndexSet adds a node to (or removes a node from) the nodes under one key of an index.
func changeIndexSet[K comparable](d *Draft, index *Map[K, *nodeSet], key K, id model.NodeID, add bool) {
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

// SetUnit adds or replaces the record of a check or Template in the draft. Nobody may change its set of nodes
// afterwards.
func (d *Draft) SetUnit(u UnitEntry) {
	if old, known := d.units.Get(u.ID); known && old.Name != u.Name {
		d.removeUnitName(old.Unit)
	}
	d.units.set(u.ID, u, d.number)
	d.unitNames.set(unitKey{u.Kind, u.Name}, u.ID, d.number)
}

// DeleteUnit removes the record of a check or Template from the draft of the next directory snapshot.
func (d *Draft) DeleteUnit(id model.UnitID) {
	if old, known := d.units.Get(id); known {
		d.units.delete(id, d.number)
		d.removeUnitName(old.Unit)
	}
}

// removeUnitName removes the name of a check or Template from the draft's index of names. It leaves the name if
// another check or Template has taken it.
func (d *Draft) removeUnitName(u *Unit) {
	if name := (unitKey{u.Kind, u.Name}); d.unitNames.Value(name) == u.ID {
		d.unitNames.delete(name, d.number)
	}
}

// SetGroup adds or replaces the record of a group in the draft of the next directory snapshot. Nobody may
// change its members afterwards.
func (d *Draft) SetGroup(name route.Name, g Group) { d.groups.set(name, g, d.number) }

// SetGroupNames sets the list of group names, indexed by GroupID, in the draft of the next directory snapshot.
// GroupID is the index in the list. Names may be added to the list, but not changed.
func (d *Draft) SetGroupNames(names []route.Name) { d.groupNames = names }

// SetNamespace adds or replaces the record of a namespace in the draft of the next directory snapshot.
func (d *Draft) SetNamespace(n *Namespace) {
	d.setSenderNamespace(n.ID, n)
	d.namespaces.set(n.Name, n, d.number)
	d.namespaceNames.set(n.ID, n.Name, d.number)
}

// DeleteNamespace removes the record of a namespace from the draft of the next directory snapshot.
func (d *Draft) DeleteNamespace(n *Namespace) {
	d.setSenderNamespace(n.ID, nil)
	d.namespaces.delete(n.Name, d.number)
	d.namespaceNames.delete(n.ID, d.number)
}

// setSenderNamespace updates one namespace's entry in the list of namespaces that accept data from Zabbix or
// Rudder. Such a namespace accepts values from outside (field zabbixFrom). A nil namespace only removes the
// entry.
func (d *Draft) setSenderNamespace(id model.NamespaceID, n *Namespace) {
	list := slices.DeleteFunc(slices.Clone(d.withSenders), func(x *Namespace) bool { return x.ID == id })
	if n != nil && len(n.ZabbixFrom)+len(n.RudderFrom) > 0 {
		list = append(list, n)
	}
	d.withSenders = list
}

// SetResource adds or replaces a resource, such as a handler, in the draft of the next directory snapshot. A
// nil specification removes the resource.
func (d *Draft) SetResource(r ResourceKey, spec model.Spec) {
	if spec == nil {
		d.resources.delete(r, d.number)
	} else {
		d.resources.set(r, spec, d.number)
	}
}

// SetDefinition adds a compiled check or Template to the draft of the next directory snapshot. A definition
// never changes.
func (d *Draft) SetDefinition(c *model.Definition) { d.definitions.set(c.ID, c, d.number) }

// DeleteDefinition removes a compiled check or Template from the draft of the next directory snapshot. No
// reader can request such a definition any more.
func (d *Draft) DeleteDefinition(id model.DefinitionID) { d.definitions.delete(id, d.number) }

// shards is the number of parts of a persistent Map. A map of 20,000 nodes has about 80 entries in each shard.
const shards = 256

var seed = maphash.MakeSeed()

// Map is a hash map in 256 parts, whose copies of earlier versions stay valid after a change. A change copies
// one shard, and older versions stay valid. Only the draft that is being written can change a Map; published
// versions are immutable. A change of n keys copies at most n shards, for a map of any size. The zero Map is
// empty.
type Map[K comparable, V any] struct {
	shards *[shards]shard[K, V]
	draft  uint64 // number of the draft that made the array; zero: the array is missing
	size   int
}

// shard is one of the 256 parts of a Map, copied at a change of its entries. The draft with the number draft may
// change the shard without copying it.
type shard[K comparable, V any] struct {
	entries map[K]V
	draft   uint64
}

// shard returns the part of the map in which a key is stored
func (m *Map[K, V]) shard(key K) *shard[K, V] { return &m.shards[uint8(maphash.Comparable(seed, key))] }

// Get returns the value of a key, and reports whether the map has the key.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	if m.shards == nil {
		return v, false
	}
	v, ok = m.shard(key).entries[key]
	return v, ok
}

// Value returns the value of a key, or the zero value for a missing key. It returns the zero value if the map
// does not have the key.
func (m *Map[K, V]) Value(key K) V {
	v, _ := m.Get(key)
	return v
}

// All iterates over all keys and values in no particular order
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

// entriesToChange returns the entries of a key's part of the map, for a change. The first change in a draft copies the
// part, which is a shard. The draft may change them: the shard was copied if an older draft made it.
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

// set sets the value of a key in the map's next version, without changing published versions.
func (m *Map[K, V]) set(key K, v V, draft uint64) {
	entries := m.entriesToChange(key, draft)
	before := len(entries)
	entries[key] = v
	m.size += len(entries) - before
}

// delete removes a key from the map's next version, without changing published versions.
func (m *Map[K, V]) delete(key K, draft uint64) {
	if _, ok := m.Get(key); ok {
		delete(m.entriesToChange(key, draft), key)
		m.size--
	}
}
