package plan

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
)

// retarget computes the holders of a check whose targets may have changed.
func (f *fleet) retarget(p *pass, id model.CheckID) {
	f.counts.Checks++
	c := f.checks[id]
	holders := roaring.New()
	if c.def != nil {
		holders = f.holdersOf(c.def)
	}
	for n := range values32(roaring.Xor(holders, c.holders)) {
		if p.nodes.Contains(n) && c.def != nil {
			continue // recheck does the same for all its checks at once
		}
		at := f.nodes[model.NodeID(n)]
		if holders.Contains(n) {
			f.hold(p, at, insert(slices.Clone(at.checks.ids), id))
		} else {
			f.hold(p, at, remove(slices.Clone(at.checks.ids), id))
		}
	}
	if c.def == nil {
		delete(f.checks, id)
	}
}

// recheck computes the checks of a node from nothing.
func (f *fleet) recheck(p *pass, n *node) {
	id, ns := uint32(n.def.id), n.def.ns
	var found []model.CheckID
	add := func(list []model.CheckID) {
		for _, c := range list {
			if f.reached(f.checks[c].def, n) {
				found = append(found, c)
			}
		}
	}
	for _, g := range n.groups.ids {
		add(f.groups[g].checks)
	}
	for _, r := range [...]ref{n.def.ref, {"", n.def.name}} {
		if u := f.naming[r]; u != nil {
			add(u.checks)
		}
	}
	f.conditionsOver(ns, func(s *conditionState) {
		if len(s.users.checks) > 0 && s.matches.Contains(id) {
			add(s.users.checks)
		}
	})
	slices.Sort(found)
	f.hold(p, n, slices.Compact(found))
}

// hold gives a node a list of checks.
func (f *fleet) hold(p *pass, n *node, checks []model.CheckID) {
	id := n.def.id
	difference(n.checks.ids, checks,
		func(c model.CheckID) {
			f.checks[c].holders.Remove(uint32(id))
			p.lost = append(p.lost, holding{id, c})
		},
		func(c model.CheckID) {
			f.checks[c].holders.Add(uint32(id))
			p.gained = append(p.gained, holding{id, c})
		})
	f.checkSets.move(&n.checks, f.checkSets.intern(checks))
	p.build.Add(uint32(id))
}

// readersOf are the nodes that read a property and see this place of the chain.
func (f *fleet) readersOf(at propertyPlace) *roaring.Bitmap {
	readers := roaring.New()
	for _, c := range f.readers[at.property] {
		readers.Or(f.checks[c].holders)
	}
	switch at.scope.level {
	case namespaced:
		if of := f.inNamespace[at.scope.ns]; of != nil {
			readers.And(of)
		} else {
			readers.Clear()
		}
	case grouped:
		readers.And(f.group(at.scope.group).members)
	case ofNode:
		only := roaring.New()
		for _, id := range f.named(at.scope.node) {
			only.Add(uint32(id))
		}
		readers.And(only)
	}
	return readers
}
