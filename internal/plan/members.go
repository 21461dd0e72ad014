package plan

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
)

// evaluate looks at changed nodes with every condition, and with fresh conditions at
// every node they may hold on: those that read groups, or those that do not.
func (f *fleet) evaluate(p *pass, readsGroups bool) {
	if readsGroups && f.groupReaders == 0 {
		return
	}
	for id := range values32(p.nodes) {
		n := f.nodes[model.NodeID(id)]
		f.show(n, readsGroups)
		f.conditionsOver(n.def.ns, func(s *conditionState) {
			if s.ReadsGroups() == readsGroups && !s.fresh {
				f.match(s, id)
			}
		})
	}
	for _, s := range p.fresh {
		if s.ReadsGroups() != readsGroups || s.refs == 0 {
			continue
		}
		over := f.all
		if s.key.ns != SharedNamespace {
			over = f.inNamespace[s.key.ns]
		}
		if over != nil {
			for id := range values32(over) {
				f.show(f.nodes[model.NodeID(id)], readsGroups)
				f.match(s, id)
			}
		}
		s.fresh = false
	}
}

func (f *fleet) show(n *node, groups bool) {
	f.candidate.Set(n.def.ns, n.def.name, n.def.labels, n.def.facts)
	f.operators.Set(n.def.ns, "", n.def.declared, nil)
	if groups {
		f.candidate.SetGroups(f.groupNames(n.groups))
	}
}

func (f *fleet) match(s *conditionState, id uint32) {
	f.counts.Conditions++
	seen := f.candidate
	if s.key.declared {
		seen = f.operators
	}
	if s.Match(seen) {
		s.matches.Add(id)
	} else {
		s.matches.Remove(id)
	}
}

// groupNames are the names of a set as people write them: shared groups with their
// namespace.
func (f *fleet) groupNames(s *groupSet) []string {
	if s.names == nil {
		s.names = make([]string, 0, len(s.ids))
		for _, g := range s.ids {
			s.names = append(s.names, f.groupName(g))
		}
		slices.Sort(s.names)
	}
	return s.names
}

func (f *fleet) groupName(g gid) string {
	r := f.gids.ref(g)
	if r.ns == SharedNamespace {
		return r.String()
	}
	return r.name
}

// refill computes the members of changed groups and, where they differ, of the
// groups that contain them. Whoever came or went joins p.nodes.
func (f *fleet) refill(p *pass) {
	reach := map[gid]bool{} // false: not yet, true: done or under way
	var up func(gid)
	up = func(g gid) {
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
	differs := map[gid]bool{}
	var fill func(gid)
	fill = func(g gid) {
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
		members := group.own.Clone()
		if joined := group.joined(); joined != nil {
			members.Or(joined)
		}
		if group.def != nil {
			members.Or(f.selected(f.heard(group.def), group.def.ns))
		}
		members.AndNot(edited)
		members.Or(roaring.And(group.members, edited))
		came := roaring.Xor(members, group.members)
		if came.IsEmpty() {
			return
		}
		differs[g] = true
		p.nodes.Or(came)
		group.members = members
	}
	for _, g := range slices.Sorted(maps.Keys(reach)) {
		fill(g)
	}
}

// regroup computes the groups of a node from nothing.
func (f *fleet) regroup(p *pass, n *node) {
	f.counts.Nodes++
	id, ns := uint32(n.def.id), n.def.ns
	found := slices.Clone(n.def.groups)
	for _, c := range n.def.claims {
		if f.groups[c.group].takes(c) {
			found = insert(found, c.group)
		}
	}
	add := func(list []gid) {
		for _, g := range list {
			if inScope(f.gids.ref(g).ns, ns) {
				found = insert(found, g)
			}
		}
	}
	for _, r := range [...]ref{n.def.ref, {"", n.def.name}} {
		if u := f.naming[r]; u != nil {
			add(u.groups)
		}
	}
	f.conditionsOver(ns, func(s *conditionState) {
		if len(s.users.groups) > 0 && s.matches.Contains(id) {
			add(s.users.groups)
		}
	})
	for todo := slices.Clone(found); len(todo) > 0; {
		g := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, parent := range f.groups[g].parents {
			if before := len(found); inScope(f.gids.ref(parent).ns, ns) && f.hears(f.groups[parent].def, g) {
				if found = insert(found, parent); len(found) > before {
					todo = append(todo, parent)
				}
			}
		}
	}
	difference(n.groups.ids, found,
		func(g gid) { f.groups[g].members.Remove(id) },
		func(g gid) { f.groups[g].members.Add(id) })
	f.groupSets.move(&n.groups, f.groupSets.intern(found))
}
