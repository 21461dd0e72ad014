package plan

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// placement is one unit on one node.
type placement struct {
	node model.NodeID
	unit model.UnitID
}

// pass is the work of one list of edits, gathered on the way down.
type pass struct {
	fresh     []*conditionState          // not evaluated yet
	nodes     *roaring.Bitmap            // whose groups and units are to be computed
	groups    map[directory.GroupID]bool // whose members are to be computed
	units     map[model.UnitID]bool      // whose nodes are to be computed
	redefined map[model.UnitID]*unit     // with another body: the unit before; nil: its proxy nodes differ
	revalued  []propertyPlace            // places whose value differs
	moved     *roaring.Bitmap            // nodes that change between two bodies of a unit
	turned    []model.UnitID             // of nodes that became proxy nodes, or are none any more

	build     *roaring.Bitmap // nodes whose assignment is to be composed
	placed    *roaring.Bitmap // nodes whose record in the directory may differ
	regrouped map[directory.GroupID]bool
	lost      []placement
	gained    []placement
	deleted   []*node  // with their last content
	oversized []string // nodes whose assignment would be too large, for people
}

// apply makes the edits and brings everything derived up to date, except assignments: p.build lists
// those. From top to bottom:
//
//  1. definitions, and the indexes of names, conditions and readers
//  2. conditions: a new one sees each node that it may select, once; a changed node is seen by each
//     condition
//  3. members of changed groups, and of groups that contain them; a node that joined or left a group is a
//     changed node from here on
//  4. groups of changed nodes
//  5. conditions that read node.groups
//  6. nodes of changed units; nodes that gained or lost a unit are built
//  7. units of changed nodes, and the body of a unit on nodes of a roll-out
//  8. readers of changed properties
//  9. runners of proxy checks about nodes that appeared, disappeared or changed
func (f *fleet) apply(edits []edit) *pass {
	p := &pass{
		nodes: roaring.New(), build: roaring.New(), moved: roaring.New(), groups: map[directory.GroupID]bool{}, regrouped: map[directory.GroupID]bool{},
		units: map[model.UnitID]bool{}, redefined: map[model.UnitID]*unit{},
	}
	f.counts.Passes++
	for _, e := range edits {
		f.define(p, e)
	}
	f.evaluate(p, false)
	f.refill(p)
	for id := range values32(p.nodes) {
		f.regroup(p, f.nodes[model.NodeID(id)])
	}
	f.evaluate(p, true)
	for id := range p.units {
		f.retarget(p, id)
	}
	for id := range values32(p.nodes) {
		f.reunit(p, f.nodes[model.NodeID(id)])
	}
	p.moved.AndNot(p.nodes)
	for id := range values32(roaring.And(p.moved, f.all)) {
		n := f.nodes[model.NodeID(id)]
		f.place(p, n, n.units.ids)
	}
	p.build.Or(p.nodes)
	for _, place := range p.revalued {
		p.build.Or(f.readersOf(place))
	}
	p.build.And(f.all) // deleted nodes are built no more
	f.markProxyRunners(p)
	for id := range p.redefined {
		if u := f.units[id]; u != nil {
			p.build.Or(u.nodes.Bitmap)
		}
	}
	p.placed = p.build.Clone()
	f.skipProxies(p)
	return p
}

// deletedNodes returns the removed nodes with their immutable ids.
func (p *pass) deletedNodes() map[model.NodeID]uuid.UUID {
	deleted := make(map[model.NodeID]uuid.UUID, len(p.deleted))
	for _, n := range p.deleted {
		deleted[n.def.ID] = n.def.UID
	}
	return deleted
}

// values32 iterates over a bitmap as it was at the start: the body may change it.
func values32(b *roaring.Bitmap) func(func(uint32) bool) {
	return slices.Values(b.ToArray())
}
