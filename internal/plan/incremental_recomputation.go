package plan

import (
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// placement identifies one check, directive or Template on one node.
type placement struct {
	node model.NodeID
	unit model.UnitID
}

// recomputation collects the groups, checks and nodes that the planner has to recompute. A list of edits of resources
// makes this work necessary.
type recomputation struct {
	fresh          []*conditionState            // new conditions, not evaluated yet
	nodes          *roaring.Bitmap              // nodes whose groups and units have to be computed
	groups         map[directory.GroupID]bool   // groups whose members have to be computed
	units          map[model.UnitID]bool        // units whose nodes have to be computed
	redefined      map[model.UnitID]*unit       // the unit before its body changed; nil: only its proxy nodes changed
	revalued       []declarationKey             // places of properties whose value changed
	moved          *roaring.Bitmap              // nodes that move between two bodies of a unit, or whose directives change their precedence
	overruled      map[string][2][]model.UnitID // results of overrule by the ids of the units
	changedProxies []model.UnitID               // units of nodes that became proxy nodes or are proxy nodes no more
	retrusted      map[model.UnitID]bool        // directives that may enforce on other nodes than before

	build     *roaring.Bitmap // nodes whose assignment has to be composed
	remode    *roaring.Bitmap // nodes whose list of directives that only audit has to be computed
	placed    *roaring.Bitmap // nodes whose record in the directory may have changed
	regrouped map[directory.GroupID]bool
	removed   []placement
	gained    []placement
	deleted   []*node                // deleted nodes, with their last content
	before    map[model.UnitID]*unit // definitions of edited units before the edits
	steps     stopwatch
	oversized []string // nodes whose assignment would be too large, for people

	conditionTime time.Duration // of the new conditions
	costly        error         // why a trial fails: its new conditions take too much time
}

// apply applies edits of resources, and recomputes the members of groups and the nodes of checks. It does not
// recompute assignments. From top to bottom:
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
//
// Conditions see changed, too: nodes whose inventories changed; nil: none.
func (f *fleet) apply(edits []definitionEdit, changed *roaring.Bitmap) *recomputation {
	p := &recomputation{
		nodes: roaring.New(), build: roaring.New(), remode: roaring.New(), moved: roaring.New(), groups: map[directory.GroupID]bool{}, regrouped: map[directory.GroupID]bool{},
		units: map[model.UnitID]bool{}, redefined: map[model.UnitID]*unit{}, retrusted: map[model.UnitID]bool{}, overruled: map[string][2][]model.UnitID{},
		before: map[model.UnitID]*unit{}, steps: stopwatch{now: f.now, last: f.now()},
	}
	f.counts.Passes++
	for _, e := range edits {
		f.applyEdit(p, e)
	}
	if changed != nil {
		p.nodes.Or(changed)
	}
	p.steps.lap("definitions")
	f.evaluate(p, false)
	p.steps.lap("conditions")
	f.updateMembersOfGroups(p)
	p.steps.lap("members of groups")
	for id := range bitmapIDs(p.nodes) {
		f.updateGroupsOfNode(p, f.nodes[model.NodeID(id)])
	}
	p.steps.lap("groups of nodes")
	f.evaluate(p, true)
	p.steps.lap("conditions over groups")
	for id := range p.units {
		f.updateTargets(p, id)
	}
	p.steps.lap("nodes of units")
	for id := range bitmapIDs(p.nodes) {
		f.updateUnitsOfNode(p, f.nodes[model.NodeID(id)])
	}
	p.moved.AndNot(p.nodes)
	for id := range bitmapIDs(roaring.And(p.moved, f.all)) {
		n := f.nodes[model.NodeID(id)]
		f.assignUnits(p, n, selectingUnits(n.units))
	}
	p.dropUnchanged(f)
	p.steps.lap("units of nodes")
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
	for id := range p.retrusted {
		if u := f.units[id]; u != nil {
			p.build.Or(u.nodes.Bitmap)
			p.remode.Or(u.nodes.Bitmap)
		}
	}
	p.placed = p.build.Clone()
	f.dropProxyNodes(p)
	p.steps.lap("affected nodes")
	return p
}

// stopwatch measures how long each of the planner's steps takes.
type stopwatch struct {
	now  func() time.Time
	last time.Time
	laps []intent.StepTime
}

// lap records how long the planner's last step took.
func (s *stopwatch) lap(step string) {
	at := s.now()
	s.laps = append(s.laps, intent.StepTime{Step: step, Duration: at.Sub(s.last)})
	s.last = at
}

// deletedNodes returns the ids of the nodes that the edits deleted, each with the node's UUID.
func (p *recomputation) deletedNodes() map[model.NodeID]uuid.UUID {
	deleted := make(map[model.NodeID]uuid.UUID, len(p.deleted))
	for _, n := range p.deleted {
		deleted[n.def.ID] = n.def.UID
	}
	return deleted
}

// bitmapIDs iterates over the ids in a bitmap, also if the bitmap changes during the iteration. So the loop may
// change the bitmap.
func bitmapIDs(b *roaring.Bitmap) func(func(uint32) bool) {
	return slices.Values(b.ToArray())
}

// applyEdit applies one edit of a resource to the compiled definitions and indexes. It marks the groups, checks and
// nodes to recompute.
func (f *fleet) applyEdit(p *recomputation, e definitionEdit) {
	switch def := newestDefinition(e.new, e.old).(type) {
	case *nodeDef:
		f.defineNode(p, oldDefinition[*nodeDef](e), newDefinition[*nodeDef](e))
	case *groupDef:
		f.defineGroup(p, def.id, oldDefinition[*groupDef](e), newDefinition[*groupDef](e))
	case *unit:
		f.defineUnit(p, def.ID, oldDefinition[*unit](e), newDefinition[*unit](e))
	case *propertyDef:
		if old := oldDefinition[*propertyDef](e); old != nil {
			f.updatePropertyUsers(p, old.indexKey(), f.properties.remove(old))
		}
		if new := newDefinition[*propertyDef](e); new != nil {
			f.updatePropertyUsers(p, new.indexKey(), f.properties.add(new))
		}
	case *directory.Namespace:
		var was, is model.NamespacePolicyMode
		if old := oldDefinition[*directory.Namespace](e); old != nil {
			was = old.PolicyMode
			delete(f.namespaces, old.Name)
		}
		if new := newDefinition[*directory.Namespace](e); new != nil {
			is = new.PolicyMode
			f.namespaces[new.Name] = new
		}
		if was != is {
			p.revalued = append(p.revalued, declarationKey{model.NodeModeProperty, scope{level: namespaceLevel, ns: def.Name}})
		}
	case *resourceDef:
		if delete(f.resources, def.ResourceKey); e.new != nil {
			f.resources[def.ResourceKey] = def
		}
	}
}

// newestDefinition returns the new compiled form of an edited resource, or the old form of a removed resource.
// For a removed resource it returns the compiled resource before the edit.
func newestDefinition(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

// oldDefinition returns the compiled form of a resource before its edit. It returns nil if the form is not of type D.
func oldDefinition[D any](e definitionEdit) D { d, _ := e.old.(D); return d }

// newDefinition returns the compiled form of a resource after its edit. It returns nil if the form is not of type D.
func newDefinition[D any](e definitionEdit) D { d, _ := e.new.(D); return d }

// defineNode replaces the definition of a node, and queues its groups and checks for recomputation.
func (f *fleet) defineNode(p *recomputation, old, new *nodeDef) {
	if old != nil {
		id := uint32(old.ID)
		for _, g := range old.groups {
			f.group(g).assigned.Remove(id)
		}
		for _, r := range old.requests {
			f.group(r.group).setJoinRequest(id, r, false)
		}
		bare := old.Name.Name
		if f.byBareName[bare] = remove(f.byBareName[bare], old.ID); len(f.byBareName[bare]) == 0 {
			delete(f.byBareName, bare)
		}
		f.proxies.Remove(id)
		f.exempt.Remove(id)
		clearBit(f.inNamespace, old.Namespace, id)
		if new == nil || new.Namespace != old.Namespace {
			f.conditions.inNamespace(old.Namespace, func(s *conditionState) { s.matches.Remove(id) })
		}
	}
	if new == nil {
		f.removeNode(p, old.ID)
		return
	}
	id := uint32(new.ID)
	for _, g := range new.groups {
		f.group(g).assigned.Add(id)
	}
	for _, r := range new.requests {
		f.group(r.group).setJoinRequest(id, r, true)
	}
	f.byBareName[new.Name.Name] = insert(f.byBareName[new.Name.Name], new.ID)
	bitmapForKey(f.inNamespace, new.Namespace).Add(id)
	f.all.Add(id)
	if new.Proxy {
		f.proxies.Add(id)
	}
	if new.exempt {
		f.exempt.Add(id)
	}
	if n := f.nodes[new.ID]; n != nil {
		if n.def.Proxy != new.Proxy {
			p.changedProxies = append(p.changedProxies, n.units.ids...)
		}
		n.def = new
	} else {
		f.nodes[new.ID] = &node{def: new, groups: f.groupSets.empty, units: f.unitSets.empty}
		f.groupSets.empty.refs++
		f.unitSets.empty.refs++
	}
	p.nodes.Add(id)
}

// removeNode removes a deleted node from its groups and checks. It records the checks of the node as removed.
func (f *fleet) removeNode(p *recomputation, id model.NodeID) {
	n := f.nodes[id]
	for _, g := range n.groups.ids {
		f.groups[g].members.remove(id)
		p.regrouped[g] = true
	}
	for _, u := range n.units.ids {
		f.units[u].nodes.remove(id)
		p.removed = append(p.removed, placement{id, u})
	}
	for _, u := range n.units.overridden {
		f.units[u].overridden.Remove(uint32(id))
	}
	f.groupSets.moveReference(&n.groups, f.groupSets.empty)
	f.unitSets.moveReference(&n.units, f.unitSets.empty)
	f.groupSets.empty.refs--
	f.unitSets.empty.refs--
	f.oversized -= min(n.excess, 1)
	delete(f.nodes, id)
	f.all.Remove(uint32(id))
	p.nodes.Remove(uint32(id))
	p.deleted = append(p.deleted, n)
}

// defineGroup replaces the definition of a group, and queues its members and checks for recomputation.
func (f *fleet) defineGroup(p *recomputation, id directory.GroupID, old, new *groupDef) {
	g := f.group(id)
	g.def = new
	var before, after targets
	if old != nil {
		before = *old.targets
		f.updateDependents(before, func(u *dependents) { u.groups = remove(u.groups, id) })
		for _, child := range before.groups {
			f.group(child).parents = remove(f.group(child).parents, id)
		}
	}
	if new != nil {
		after = *new.targets
		p.fresh = append(p.fresh, f.conditions.acquire(after.conditions())...)
		f.updateDependents(after, func(u *dependents) { u.groups = insert(u.groups, id) })
		for _, child := range after.groups {
			f.group(child).parents = insert(f.group(child).parents, id)
		}
	}
	f.conditions.release(before.conditions())
	p.groups[id], p.regrouped[id] = true, true
	p.recheckGroupTrust(f, id, old, new)
	if (old != nil && old.trusted) != (new != nil && new.trusted) {
		for _, parent := range g.parents { // a trusted parent contains trusted groups only
			p.groups[parent] = true
		}
	}
	for _, def := range []*groupDef{old, new} {
		if def == nil {
			continue
		}
		for _, v := range def.properties {
			f.updatePropertyUsers(p, declarationKey{v.name, scope{level: groupLevel, group: id}}, 0)
		}
	}
}

// defineUnit replaces the definition of a check, and queues the check's nodes for recomputation.
func (f *fleet) defineUnit(p *recomputation, id model.UnitID, old, new *unit) {
	u := f.units[id]
	p.before[id] = old
	if old != nil {
		for _, name := range old.propertiesRead() {
			f.properties.readers[name] = remove(f.properties.readers[name], id)
		}
		for _, t := range old.targetLists() {
			f.updateDependents(*t, func(u *dependents) { u.units = remove(u.units, id) })
			for _, g := range t.groups {
				f.group(g).units = remove(f.group(g).units, id)
			}
		}
	} else {
		u = &placedUnit{nodes: newSharedSet(), overridden: roaring.New()}
		f.units[id] = u
	}
	u.def = new // nil: updateTargets removes the unit from its nodes, then forgets the unit
	if new != nil {
		for _, name := range new.propertiesRead() {
			f.properties.readers[name] = insert(f.properties.readers[name], id)
		}
		for _, t := range new.targetLists() {
			p.fresh = append(p.fresh, f.conditions.acquire(t.conditions())...)
			f.updateDependents(*t, func(u *dependents) { u.units = insert(u.units, id) })
			for _, g := range t.groups {
				f.group(g).units = insert(f.group(g).units, id)
			}
		}
	}
	for _, t := range old.targetLists() {
		f.conditions.release(t.conditions())
	}
	p.units[id] = true
	p.updatePrecedence(f, u, old, new)
	if old == nil || new == nil {
		return
	}
	p.recheckUnitTrust(f, id, old, new)
	if old.definition != new.definition || old.next != new.next {
		p.redefined[id] = old
	}
	if old.next != nil || new.next != nil {
		for n := range bitmapIDs(u.nodes.Bitmap) {
			if at := f.nodes[model.NodeID(n)]; at.units.runsNewVersion(id) != new.runsNewVersion(at) {
				p.moved.Add(n)
			}
		}
	}
	if (old.proxies == nil) != (new.proxies == nil) {
		// Nodes that run the check get an event of their own by the edit, or lose theirs: a proxy check has events of
		// proxy nodes only.
		list := &p.removed
		if new.proxies == nil {
			list = &p.gained
		}
		for n := range bitmapIDs(f.runners(u)) {
			*list = append(*list, placement{model.NodeID(n), id})
		}
	}
}

// updateDependents calls change for the dependents (groups and checks) of each node name or condition in
// targets. A dependent is a group or check with these targets; change adds it to the dependents or removes it.
// The conditions must be acquired.
func (f *fleet) updateDependents(t targets, change func(*dependents)) {
	for _, name := range t.nodes {
		u := f.mentions[name]
		if u == nil {
			u = &dependents{}
			f.mentions[name] = u
		}
		if change(u); len(u.groups)+len(u.units) == 0 {
			delete(f.mentions, name)
		}
	}
	if t.where != nil {
		change(&f.conditions.byKey[t.where.key].dependents)
	}
}
