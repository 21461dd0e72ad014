package plan

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// An edit replaces one definition by another: *nodeDef, *groupDef, *checkDef,
// *propertyDef, *namespaceDef or *handlerDef, nil (untyped) for none. Swapped it
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
	fresh    []*conditionState      // not evaluated yet
	nodes    *roaring.Bitmap        // whose groups and checks are to be computed
	groups   map[gid]bool           // whose members are to be computed
	checks   map[model.CheckID]bool // whose holders are to be computed
	redefine map[model.CheckID]bool // whose chunk differs
	reread   []propertyPlace        // whose value differs
	build    *roaring.Bitmap        // nodes whose assignment is to be composed
	lost     []holding
	gained   []holding
	deleted  []*node // with the content that they leave behind
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
func (f *fleet) apply(edits []edit) *pass {
	p := &pass{
		nodes: roaring.New(), build: roaring.New(), groups: map[gid]bool{},
		checks: map[model.CheckID]bool{}, redefine: map[model.CheckID]bool{},
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
	for id := range p.redefine {
		if c := f.checks[id]; c != nil {
			p.build.Or(c.holders)
		}
	}
	for _, place := range p.reread {
		p.build.Or(f.readersOf(place))
	}
	p.build.And(f.all) // deleted nodes are built no more
	return p
}

func (p *pass) deletedIDs() (ids []model.NodeID) {
	for _, n := range p.deleted {
		ids = append(ids, n.def.id)
	}
	return ids
}

func (f *fleet) define(p *pass, e edit) {
	switch def := first(e.new, e.old).(type) {
	case *nodeDef:
		old, _ := e.old.(*nodeDef)
		new, _ := e.new.(*nodeDef)
		f.defineNode(p, old, new)
	case *groupDef:
		old, _ := e.old.(*groupDef)
		new, _ := e.new.(*groupDef)
		f.defineGroup(p, def.id, old, new)
	case *checkDef:
		old, _ := e.old.(*checkDef)
		new, _ := e.new.(*checkDef)
		f.defineCheck(p, def.id, old, new)
	case *propertyDef:
		if old, ok := e.old.(*propertyDef); ok {
			at := propertyPlace{old.property, old.scope}
			f.properties[at] = slices.DeleteFunc(f.properties[at], func(d *propertyDef) bool { return d == old })
			if len(f.properties[at]) == 0 {
				delete(f.properties, at)
			}
			p.reread = append(p.reread, at)
		}
		if new, ok := e.new.(*propertyDef); ok {
			at := propertyPlace{new.property, new.scope}
			f.properties[at] = append(f.properties[at], new)
			p.reread = append(p.reread, at)
		}
	case *namespaceDef:
		if old, ok := e.old.(*namespaceDef); ok {
			delete(f.namespaces, old.name)
			delete(f.namespaceOf, old.id)
		}
		if new, ok := e.new.(*namespaceDef); ok {
			f.namespaces[new.name] = new
			f.namespaceOf[new.id] = new.name
		}
	case *handlerDef:
		delete(f.handlers, def.ref)
		if new, ok := e.new.(*handlerDef); ok {
			f.handlers[new.ref] = new
		}
	}
}

func first(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

func (f *fleet) defineNode(p *pass, old, new *nodeDef) {
	if old != nil {
		id := uint32(old.id)
		for _, g := range old.groups {
			f.group(g).own.Remove(id)
		}
		for _, l := range old.labels {
			clearBit(f.byLabel, l, id)
			clearBit(f.byLabelKey, l.key, id)
		}
		delete(f.byName, old.ref)
		f.byBareName[old.name] = remove(f.byBareName[old.name], old.id)
		if len(f.byBareName[old.name]) == 0 {
			delete(f.byBareName, old.name)
		}
		if f.byUID[old.uid] == old.id {
			delete(f.byUID, old.uid)
		}
		clearBit(f.inNamespace, old.ns, id)
		if new == nil || new.ns != old.ns {
			f.conditionsOver(old.ns, func(s *conditionState) { s.matches.Remove(id) })
		}
	}
	if new == nil {
		f.removeNode(p, old.id)
		return
	}
	id := uint32(new.id)
	for _, g := range new.groups {
		f.group(g).own.Add(id)
	}
	for _, l := range new.labels {
		bitmapOf(f.byLabel, l).Add(id)
		bitmapOf(f.byLabelKey, l.key).Add(id)
	}
	f.byName[new.ref] = new.id
	f.byBareName[new.name] = insert(f.byBareName[new.name], new.id)
	if new.uid != uuid.Nil {
		f.byUID[new.uid] = new.id
	}
	bitmapOf(f.inNamespace, new.ns).Add(id)
	f.all.Add(id)
	if n := f.nodes[new.id]; n != nil {
		n.def = new
	} else {
		f.nodes[new.id] = &node{def: new, groups: f.groupSets.empty, checks: f.checkSets.empty}
		f.groupSets.empty.refs++
		f.checkSets.empty.refs++
	}
	p.nodes.Add(id)
}

func (f *fleet) removeNode(p *pass, id model.NodeID) {
	n := f.nodes[id]
	for _, g := range n.groups.ids {
		f.groups[g].members.Remove(uint32(id))
	}
	for _, c := range n.checks.ids {
		f.checks[c].holders.Remove(uint32(id))
		p.lost = append(p.lost, holding{id, c})
	}
	f.groupSets.move(&n.groups, f.groupSets.empty)
	f.checkSets.move(&n.checks, f.checkSets.empty)
	f.groupSets.empty.refs--
	f.checkSets.empty.refs--
	delete(f.nodes, id)
	f.all.Remove(uint32(id))
	p.nodes.Remove(uint32(id))
	p.deleted = append(p.deleted, n)
}

func (f *fleet) defineGroup(p *pass, id gid, old, new *groupDef) {
	g := f.group(id)
	g.def = new
	var before, after targets
	if old != nil {
		before = *old.targets
		f.mention(p, before, func(u *users) { u.groups = remove(u.groups, id) })
		for _, child := range before.groups {
			f.group(child).parents = remove(f.group(child).parents, id)
		}
	}
	if new != nil {
		after = *new.targets
		for _, c := range after.conditions() {
			f.acquire(c, p)
		}
		f.mention(p, after, func(u *users) { u.groups = insert(u.groups, id) })
		for _, child := range after.groups {
			f.group(child).parents = insert(f.group(child).parents, id)
		}
	}
	for _, c := range before.conditions() {
		f.release(c)
	}
	p.groups[id] = true
	for _, def := range []*groupDef{old, new} {
		if def == nil {
			continue
		}
		for _, v := range def.props {
			p.reread = append(p.reread, propertyPlace{v.name, scope{level: grouped, group: id}})
		}
	}
}

func (f *fleet) defineCheck(p *pass, id model.CheckID, old, new *checkDef) {
	c := f.checks[id]
	if old != nil {
		delete(f.checkByName, old.ref)
		for _, name := range old.props {
			f.readers[name] = remove(f.readers[name], id)
		}
		if old.targets != nil {
			f.mention(p, *old.targets, func(u *users) { u.checks = remove(u.checks, id) })
			for _, g := range old.targets.groups {
				f.group(g).checks = remove(f.group(g).checks, id)
			}
		}
	} else {
		c = &check{holders: roaring.New()}
		f.checks[id] = c
	}
	if new != nil {
		c.def = new
		f.checkByName[new.ref] = id
		for _, name := range new.props {
			f.readers[name] = insert(f.readers[name], id)
		}
		if new.targets != nil {
			for _, cond := range new.targets.conditions() {
				f.acquire(cond, p)
			}
			f.mention(p, *new.targets, func(u *users) { u.checks = insert(u.checks, id) })
			for _, g := range new.targets.groups {
				f.group(g).checks = insert(f.group(g).checks, id)
			}
		}
	} else {
		c.def = nil // retarget takes it from its holders, then forgets it
	}
	if old != nil && old.targets != nil {
		for _, cond := range old.targets.conditions() {
			f.release(cond)
		}
	}
	p.checks[id] = true
	if old != nil && new != nil && old.chunk != new.chunk {
		p.redefine[id] = true
	}
}

// mention enters somebody in, or strikes him from, the indexes by node name and by
// condition. The condition must be acquired.
func (f *fleet) mention(p *pass, t targets, change func(*users)) {
	for _, r := range t.nodes {
		change(f.usersOf(r))
		f.dropUsers(r)
	}
	if t.where != nil {
		change(&f.conditions[t.where.key].users)
	}
}

// evaluate looks at changed nodes with every condition, and with fresh conditions at
// every node they may hold on: those that read groups, or those that do not.
func (f *fleet) evaluate(p *pass, readsGroups bool) {
	for id := range values32(p.nodes) {
		n := f.nodes[model.NodeID(id)]
		f.show(n, readsGroups)
		f.conditionsOver(n.def.ns, func(s *conditionState) {
			if s.readsGroups == readsGroups && !s.fresh {
				f.match(s, id)
			}
		})
	}
	for _, s := range p.fresh {
		if s.readsGroups != readsGroups || s.refs == 0 {
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
	f.candidate.set(n.def.ns, n.def.name, n.def.labels, n.def.facts)
	if groups {
		f.candidate.setGroups(f.groupNames(n.groups))
	}
}

func (f *fleet) match(s *conditionState, id uint32) {
	f.counts.Conditions++
	if s.Match(f.candidate) {
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
		if group.def != nil {
			members.Or(f.selected(group.def.targets, group.def.ns))
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
			if before := len(found); inScope(f.gids.ref(parent).ns, ns) {
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

// retarget computes the holders of a check whose targets may have changed.
func (f *fleet) retarget(p *pass, id model.CheckID) {
	f.counts.Checks++
	c := f.checks[id]
	holders := roaring.New()
	if c.def != nil {
		holders = f.selected(c.def.targets, c.def.ns)
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
			def := f.checks[c].def
			if inScope(def.ns, ns) && (def.targets.except == nil || !f.lands(def.targets.except, def.ns, n)) {
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

// values32 iterates over a bitmap as it was at the start: the body may change it.
func values32(b *roaring.Bitmap) func(func(uint32) bool) {
	return slices.Values(b.ToArray())
}
