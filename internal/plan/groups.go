package plan

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// evaluate looks at changed nodes with every condition, and with fresh conditions at
// every node they may hold on: those that read groups, or those that do not.
func (f *fleet) evaluate(p *pass, readsGroups bool) {
	if readsGroups && f.conditions.groupReaders == 0 {
		return
	}
	see := func(n *node) {
		var groups func() []string
		if readsGroups {
			groups = func() []string { return f.groupNames(n.groups) }
		}
		f.conditions.set(n.def, groups)
	}
	match := func(s *conditionState, id uint32) {
		f.counts.Conditions++
		f.conditions.match(s, id)
	}
	for id := range values32(p.nodes) {
		n := f.nodes[model.NodeID(id)]
		see(n)
		f.conditions.inNamespace(n.def.Namespace, func(s *conditionState) {
			if s.ReadsGroups() == readsGroups && !s.fresh {
				match(s, id)
			}
		})
	}
	for _, s := range p.fresh {
		if s.ReadsGroups() != readsGroups || s.refs == 0 {
			continue
		}
		over := f.all
		if s.key.ns != shared {
			over = f.inNamespace[s.key.ns]
		}
		if over != nil {
			for id := range values32(over) {
				see(f.nodes[model.NodeID(id)])
				match(s, id)
			}
		}
		s.fresh = false
	}
}

// groupNames are the names of a set as people write them: shared groups with their
// namespace.
func (f *fleet) groupNames(s *groupSet) []string {
	if s.names == nil {
		s.names = make([]string, 0, len(s.ids))
		for _, g := range s.ids {
			s.names = append(s.names, f.groupText(g))
		}
		slices.Sort(s.names)
	}
	return s.names
}

// refill computes the members of changed groups and, where they differ, of the
// groups that contain them. Whoever came or went joins p.nodes.
func (f *fleet) refill(p *pass) {
	reach := map[directory.GroupID]bool{} // false: not yet, true: done or under way
	var up func(directory.GroupID)
	up = func(g directory.GroupID) {
		if _, seen := reach[g]; !seen {
			reach[g] = false
			for _, parent := range f.group(g).parents {
				up(parent)
			}
		}
	}
	for g := range p.groups {
		up(g)
	}
	// Nodes with a new definition keep their old bits here, right or wrong: regroup
	// computes their groups one by one and changes the bits by the difference.
	edited := p.nodes.Clone()
	differs := map[directory.GroupID]bool{}
	var fill func(directory.GroupID)
	fill = func(g directory.GroupID) {
		if reach[g] {
			return // a cycle ends here: intent refuses it, we only do not hang
		}
		reach[g] = true
		group, due := f.groups[g], p.groups[g]
		if group.def != nil {
			for _, child := range group.def.targets.groups {
				if _, within := reach[child]; within {
					fill(child)
					due = due || differs[child]
				}
			}
		}
		if !due {
			return
		}
		f.counts.Groups++
		members := group.assigned.Clone()
		if joined := group.joined(); joined != nil {
			members.Or(joined)
		}
		if group.def != nil {
			members.Or(f.selected(f.containedBy(group.def), group.def.Namespace))
		}
		members.AndNot(edited)
		members.Or(roaring.And(group.members.Bitmap, edited))
		came := roaring.Xor(members, group.members.Bitmap)
		if came.IsEmpty() {
			return
		}
		differs[g] = true
		p.nodes.Or(came)
		group.members = sharedSet{Bitmap: members}
		p.regrouped[g] = true
	}
	for _, g := range slices.Sorted(maps.Keys(reach)) {
		fill(g)
	}
}

// regroup computes the groups of a node from nothing.
func (f *fleet) regroup(p *pass, n *node) {
	f.counts.Nodes++
	id, ns := uint32(n.def.ID), n.def.Namespace
	found := slices.Clone(n.def.groups)
	for _, c := range n.def.requests {
		if f.groups[c.group].accepts(c) {
			found = insert(found, c.group)
		}
	}
	add := func(list []directory.GroupID) {
		for _, g := range list {
			if reaches(f.groupNumbers.name(g).Namespace, ns) {
				found = insert(found, g)
			}
		}
	}
	for _, r := range [...]route.Name{n.def.Name, routeName("", n.def.Name.Name)} {
		if u := f.mentions[r]; u != nil {
			add(u.groups)
		}
	}
	f.conditions.inNamespace(ns, func(s *conditionState) {
		if len(s.users.groups) > 0 && s.matches.Contains(id) {
			add(s.users.groups)
		}
	})
	for todo := slices.Clone(found); len(todo) > 0; {
		g := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, parent := range f.groups[g].parents {
			if before := len(found); reaches(f.groupNumbers.name(parent).Namespace, ns) && f.contains(f.groups[parent].def, g) {
				if found = insert(found, parent); len(found) > before {
					todo = append(todo, parent)
				}
			}
		}
	}
	difference(n.groups.ids, found,
		func(g directory.GroupID) { f.groups[g].members.remove(n.def.ID); p.regrouped[g] = true },
		func(g directory.GroupID) { f.groups[g].members.add(n.def.ID); p.regrouped[g] = true })
	f.groupSets.move(&n.groups, f.groupSets.intern(found, nil))
}
