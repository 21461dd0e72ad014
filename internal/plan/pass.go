package plan

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// An edit replaces one definition by another: *nodeDef, *groupDef, *checkDef,
// *propertyDef, *namespaceDef, *handlerDef or *secretDef, nil (untyped) for none. Swapped it
// undoes itself.
type edit struct{ old, new any }

func undo(edits []edit) []edit {
	back := make([]edit, 0, len(edits))
	for _, e := range slices.Backward(edits) {
		back = append(back, edit{old: e.new, new: e.old})
	}
	return back
}

// holding is one check on one node.
type holding struct {
	node  model.NodeID
	check model.CheckID
}

// pass is what one list of edits brings with it, gathered on the way down.
type pass struct {
	fresh    []*conditionState           // not evaluated yet
	nodes    *roaring.Bitmap             // whose groups and checks are to be computed
	groups   map[gid]bool                // whose members are to be computed
	checks   map[model.CheckID]bool      // whose holders are to be computed
	redefine map[model.CheckID]*checkDef // whose chunk differs: the definition before; nil: whose proxy nodes differ
	reread   []propertyPlace             // whose value differs
	build    *roaring.Bitmap             // nodes whose assignment is to be composed
	lost     []holding
	gained   []holding
	deleted  []*node         // with the content that they leave behind
	turned   []model.CheckID // of nodes that became proxy nodes, or are none any more

	oversized []string // nodes that would have to hold too much, in words
}

// apply makes the edits and brings everything derived up to date, except
// assignments: p.build says which. From top to bottom:
//
//  1. definitions and who mentions whom
//  2. conditions: a new one looks at each node it may hold on, once; a changed node
//     is looked at by each condition
//  3. members of changed groups, and of groups that contain them; who came or went
//     is a changed node from here on
//  4. groups of changed nodes
//  5. conditions that read node.groups
//  6. holders of changed checks; who came or went is built
//  7. checks of changed nodes
//  8. readers of changed properties
//  9. who runs proxy checks about nodes that came, went or changed
func (f *fleet) apply(edits []edit) *pass {
	p := &pass{
		nodes: roaring.New(), build: roaring.New(), groups: map[gid]bool{},
		checks: map[model.CheckID]bool{}, redefine: map[model.CheckID]*checkDef{},
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
	for id := range p.checks {
		f.retarget(p, id)
	}
	for id := range values32(p.nodes) {
		f.recheck(p, f.nodes[model.NodeID(id)])
	}
	p.build.Or(p.nodes)
	for _, place := range p.reread {
		p.build.Or(f.readersOf(place))
	}
	p.build.And(f.all) // deleted nodes are built no more
	f.retold(p)
	for id := range p.redefine {
		if c := f.checks[id]; c != nil {
			p.build.Or(c.holders)
		}
	}
	f.silent(p)
	return p
}

// deletedNodes are those that are gone, with their immutable ids.
func (p *pass) deletedNodes() map[model.NodeID]uuid.UUID {
	gone := make(map[model.NodeID]uuid.UUID, len(p.deleted))
	for _, n := range p.deleted {
		gone[n.def.id] = n.def.uid
	}
	return gone
}

// values32 iterates over a bitmap as it was at the start: the body may change it.
func values32(b *roaring.Bitmap) func(func(uint32) bool) {
	return slices.Values(b.ToArray())
}
