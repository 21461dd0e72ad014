package plan

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// retarget computes the nodes of a unit whose targets may have changed.
func (f *fleet) retarget(p *pass, id model.UnitID) {
	f.counts.Units++
	u := f.units[id]
	nodes := roaring.New()
	if u.def != nil {
		nodes = f.nodesOf(u.def)
	}
	for n := range values32(roaring.Xor(nodes, u.nodes.Bitmap)) {
		if p.nodes.Contains(n) && u.def != nil {
			continue // reunit does the same for all its units at once
		}
		at := f.nodes[model.NodeID(n)]
		if nodes.Contains(n) {
			f.place(p, at, insert(slices.Clone(at.units.ids), id))
		} else {
			f.place(p, at, remove(slices.Clone(at.units.ids), id))
		}
	}
	if u.def == nil {
		delete(f.units, id)
	}
}

// reunit computes the units of a node from nothing.
func (f *fleet) reunit(p *pass, n *node) {
	id := uint32(n.def.ID)
	var found []model.UnitID
	add := func(list []model.UnitID) {
		for _, u := range list {
			if f.landsOn(f.units[u].def, n) {
				found = append(found, u)
			}
		}
	}
	for _, g := range n.groups.ids {
		add(f.groups[g].units)
	}
	for _, name := range [...]route.Name{n.def.Name, routeName("", n.def.Name.Name)} {
		if u := f.mentions[name]; u != nil {
			add(u.units)
		}
	}
	f.conditions.inNamespace(n.def.Namespace, func(s *conditionState) {
		if len(s.users.units) > 0 && s.matches.Contains(id) {
			add(s.users.units)
		}
	})
	slices.Sort(found)
	f.place(p, n, slices.Compact(found))
}

// place gives a node a list of units, each with the body that the node is to have.
func (f *fleet) place(p *pass, n *node, units []model.UnitID) {
	id := n.def.ID
	difference(n.units.ids, units,
		func(u model.UnitID) {
			f.units[u].nodes.remove(id)
			p.lost = append(p.lost, placement{id, u})
		},
		func(u model.UnitID) {
			f.units[u].nodes.add(id)
			p.gained = append(p.gained, placement{id, u})
		})
	var next []model.UnitID
	for _, u := range units {
		if f.units[u].def.onNext(uint32(id)) {
			next = append(next, u)
		}
	}
	f.unitSets.move(&n.units, f.unitSets.intern(units, next))
	p.build.Add(uint32(id))
}

// readersOf returns the nodes that read a property and see this place of the chain.
func (f *fleet) readersOf(at propertyPlace) *roaring.Bitmap {
	readers := roaring.New()
	for _, u := range f.properties.readers[at.property] {
		readers.Or(f.units[u].nodes.Bitmap)
	}
	switch at.scope.level {
	case namespaceLevel:
		if of := f.inNamespace[at.scope.ns]; of != nil {
			readers.And(of)
		} else {
			readers.Clear()
		}
	case groupLevel:
		readers.And(f.group(at.scope.group).members.Bitmap)
	case nodeLevel:
		only := roaring.New()
		for _, id := range f.nodesNamed(at.scope.node) {
			only.Add(uint32(id))
		}
		readers.And(only)
	}
	return readers
}
