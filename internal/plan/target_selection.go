package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/wire"
)

// updateTargets recomputes the nodes that the targets of a check select.
func (f *fleet) updateTargets(p *recomputation, id model.UnitID) {
	f.counts.Units++
	u := f.units[id]
	nodes := roaring.New()
	if u.def != nil {
		nodes = f.placementNodes(u.def)
	}
	for n := range bitmapIDs(roaring.Xor(nodes, u.selectedNodes())) {
		if p.nodes.Contains(n) && u.def != nil {
			continue // updateUnitsOfNode computes all units of this node at once
		}
		at := f.nodes[model.NodeID(n)]
		if nodes.Contains(n) {
			f.assignUnits(p, at, insert(selectingUnits(at.units), id))
		} else {
			f.assignUnits(p, at, remove(selectingUnits(at.units), id))
		}
	}
	if u.def == nil {
		delete(f.units, id)
	}
}

// updateUnitsOfNode recomputes which checks a node runs
func (f *fleet) updateUnitsOfNode(p *recomputation, n *node) {
	id := uint32(n.def.ID)
	var found []model.UnitID
	add := func(list []model.UnitID) {
		for _, u := range list {
			if f.runsOn(f.units[u].def, n) {
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
		if len(s.dependents.units) > 0 && s.matches.Contains(id) {
			add(s.dependents.units)
		}
	})
	slices.Sort(found)
	f.assignUnits(p, n, slices.Compact(found))
}

// assignUnits decides which of a node's selected checks and directives run, and stores the result. It also sets
// the version of each in a gradual roll-out.
func (f *fleet) assignUnits(p *recomputation, n *node, selected []model.UnitID) {
	id := n.def.ID
	units, lost := p.splitOverridden(f, selected)
	difference(n.units.overridden, lost,
		func(u model.UnitID) { f.units[u].overridden.Remove(uint32(id)) },
		func(u model.UnitID) { f.units[u].overridden.Add(uint32(id)) })
	difference(n.units.ids, units,
		func(u model.UnitID) {
			f.units[u].nodes.remove(id)
			p.removed = append(p.removed, placement{id, u})
		},
		func(u model.UnitID) {
			f.units[u].nodes.add(id)
			p.gained = append(p.gained, placement{id, u})
		})
	var next []model.UnitID
	for _, u := range units {
		if f.units[u].def.runsNewVersion(n) {
			next = append(next, u)
		}
	}
	f.unitSets.moveReference(&n.units, f.unitSets.intern(units, next, lost))
	p.build.Add(uint32(id))
}

// readersOf returns all nodes in a property's scope with at least one check that reads the property.
func (f *fleet) readersOf(at declarationKey) *roaring.Bitmap {
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

// targets are the compiled targets of a resource, which select nodes. They select all nodes of the listed groups, the
// listed nodes and the nodes of the condition, without the nodes of except.
type targets struct {
	groups []directory.GroupID
	nodes  []route.Name
	where  *condition
	except *targets
}

// targets compiles the targets of a resource in a namespace. nil targets stay nil.
func (c *compiler) targets(ns string, t *model.Targets) (*targets, error) {
	if t == nil {
		return nil, nil
	}
	out := &targets{}
	for _, name := range t.Groups {
		r, ok := groupName(ns, name)
		if !ok {
			return nil, model.Errorf(model.Invalid, "group %q belongs to another namespace", name).
				WithHint("name a group of %s, or shared/NAME", ns)
		}
		out.groups = insert(out.groups, c.groups.number(r))
	}
	for _, name := range t.Nodes {
		out.nodes = append(out.nodes, nodeName(ns, name))
	}
	if t.Where != "" {
		w, err := c.condition(t.Where)
		if err != nil {
			return nil, err
		}
		out.where = &condition{key: conditionKey{ns: ns, expr: t.Where}, Condition: w}
	}
	var err error
	out.except, err = c.targets(ns, t.Except)
	if err != nil {
		return nil, fmt.Errorf("exceptions (except): %w", err)
	}
	return out, nil
}

// conditions returns all conditions in the targets, also the conditions under except
func (t *targets) conditions() (list []*condition) {
	for ; t != nil; t = t.except {
		if t.where != nil {
			list = append(list, t.where)
		}
	}
	return list
}

// selectedNodes returns the nodes that the targets of a resource select. owner is the namespace of the resource. It
// combines bitmaps and visits no node.
func (f *fleet) selectedNodes(t *targets, owner string) *roaring.Bitmap {
	return f.selectedNodesBy(t, owner, func(c *condition) *roaring.Bitmap { return f.conditions.matches(c) })
}

// selectedNodesBy returns the nodes that targets select, and evaluates conditions by a given function. The
// function holds returns the nodes that match a condition.
func (f *fleet) selectedNodesBy(t *targets, owner string, holds func(*condition) *roaring.Bitmap) *roaring.Bitmap {
	set := roaring.New()
	if t == nil {
		return set
	}
	for _, g := range t.groups {
		if group := f.groups[g]; group != nil {
			set.Or(group.members.Bitmap)
		}
	}
	for _, r := range t.nodes {
		for _, id := range f.nodesNamed(r) {
			set.Add(uint32(id))
		}
	}
	if t.where != nil {
		set.Or(holds(t.where))
	}
	if owner != shared {
		if of := f.inNamespace[owner]; of != nil {
			set.And(of)
		} else {
			set.Clear()
		}
	}
	if t.except != nil {
		set.AndNot(f.selectedNodesBy(t.except, owner, holds))
	}
	return set
}

// targetsSelect reports whether the targets of a resource select a given node. owner is the namespace of the resource.
func (f *fleet) targetsSelect(t *targets, owner string, n *node) bool {
	if t == nil || !reachesNamespace(owner, n.def.Namespace) || !f.matchesAnyTarget(t, n) {
		return false
	}
	return t.except == nil || !f.targetsSelect(t.except, owner, n)
}

// matchesAnyTarget reports whether targets select a node by group, name or condition. It ignores their exceptions.
func (f *fleet) matchesAnyTarget(t *targets, n *node) bool {
	for _, g := range t.groups {
		if n.groups.has(g) {
			return true
		}
	}
	for _, r := range t.nodes {
		if matchesNode(r, n.def.Name) {
			return true
		}
	}
	return t.where != nil && f.conditions.matches(t.where).Contains(uint32(n.def.ID))
}

// A proxy check lands on two sorts of nodes: machines run the check, and proxy nodes are its subjects. Both are nodes of
// the unit. The assignments of the machines name the proxy nodes.

// placementNodes returns the nodes on which a check takes effect, both machines and proxy nodes. These are
// machines that run the check and proxy nodes that it is about.
func (f *fleet) placementNodes(u *unit) *roaring.Bitmap {
	on := f.selectedNodes(u.targets, u.Namespace)
	for _, p := range u.policies {
		on.Or(f.selectedNodes(p.targets, p.policy.Namespace))
	}
	if u.policies != nil {
		on.AndNot(f.exempt)
	}
	on.AndNot(f.proxies)
	if u.proxies != nil && u.targets != nil {
		subjects := f.selectedNodes(u.proxies, u.Namespace)
		subjects.And(f.proxies)
		on.Or(subjects)
	}
	return on
}

// runsOn reports whether a node runs a check, or is a proxy node that the check examines. The caller found the
// unit by the node's groups, names or labels, so only proxies, namespace and except remain to be tested.
func (f *fleet) runsOn(u *unit, n *node) bool {
	switch {
	case n.def.Proxy:
		return u.targets != nil && f.targetsSelect(u.proxies, u.Namespace, n)
	case u.proxies != nil: // the node may have been found by the unit's proxies alone
		return f.targetsSelect(u.targets, u.Namespace, n)
	case u.policies != nil:
		return !n.def.exempt && slices.ContainsFunc(u.policies, func(p policyTargets) bool { return f.targetsSelect(p.targets, p.policy.Namespace, n) })
	}
	return reachesNamespace(u.Namespace, n.def.Namespace) && (u.targets.except == nil || !f.targetsSelect(u.targets.except, u.Namespace, n))
}

// runners returns the machines that run a check, without its proxy nodes.
func (f *fleet) runners(u *placedUnit) *roaring.Bitmap {
	return roaring.AndNot(u.nodes.Bitmap, f.proxies)
}

// markProxyRunners queues the machines of a proxy check for new assignments, because its proxy nodes changed.
func (f *fleet) markProxyRunners(p *recomputation) {
	mark := func(id model.UnitID) {
		if u := f.units[id]; u != nil && u.def != nil && u.def.proxies != nil {
			p.redefined[id] = nil
		}
	}
	for _, list := range [...][]placement{p.removed, p.gained} {
		for _, at := range list {
			if n := f.nodes[at.node]; n == nil || n.def.Proxy {
				mark(at.unit)
			}
		}
	}
	for _, id := range p.changedProxies {
		mark(id)
	}
	for id := range bitmapIDs(roaring.And(p.build, f.proxies)) {
		for _, u := range f.nodes[model.NodeID(id)].units.ids {
			mark(u)
		}
	}
}

// dropProxyNodes removes proxy nodes, which run no agent, from the list of nodes with new assignments. A proxy
// node has no agent. It also discards the compositions of their unit sets, so that a machine with the same set
// composes it again.
func (f *fleet) dropProxyNodes(p *recomputation) {
	for id := range bitmapIDs(roaring.And(p.build, f.proxies)) {
		f.nodes[model.NodeID(id)].units.composed = nil
	}
	p.build.AndNot(f.proxies)
}

// proxyTargets lists the proxy nodes of each proxy check in a set of checks. The machine sends results about these
// proxy nodes. It returns nil if the set has no proxy check.
func (b *builder) proxyTargets(s *unitSet, leftOut []model.UnitID, definitions []*model.Definition) *directory.ProxyTargets {
	var list wire.ProxyChecks
	names := map[model.NodeID][]string{} // names of the properties that the checks about each proxy node read
	sets := map[string]int{}             // index in list.Sets, by the node ids of the set
	found := false
	for _, id := range s.ids {
		u := b.f.units[id]
		if u.def.proxies == nil || slices.Contains(leftOut, id) {
			continue
		}
		found = true
		body := u.def.bodyFor(s)
		subjects := nodeIDs(roaring.And(u.nodes.Bitmap, b.f.proxies))
		key := string(nodeListKey(subjects))
		at, known := sets[key]
		if !known {
			at = len(list.Sets)
			sets[key] = at
			list.Sets = append(list.Sets, wire.ProxySet{Nodes: subjects})
		}
		list.Sets[at].Definitions = append(list.Sets[at].Definitions, body.definition.ID)
		read := body.properties
		if body.definition.AsCheck().OwnEntity {
			read = nil
		}
		for _, n := range subjects {
			names[n] = append(names[n], read...)
		}
	}
	if !found {
		return nil
	}
	for i := range list.Sets {
		slices.Sort(list.Sets[i].Definitions)
	}
	var nodes []directory.ProxyNode
	for _, id := range slices.Sorted(maps.Keys(names)) {
		n, read := b.f.nodes[id], names[id]
		slices.Sort(read)
		list.Nodes = append(list.Nodes, wire.ProxyNode{Node: id, Name: n.def.Name.Name, Properties: b.resolver.properties(n, slices.Compact(read))})
		nodes = append(nodes, directory.ProxyNode{ID: id, UID: n.def.UID, Namespace: b.f.namespaceID(n.def.Namespace)})
	}
	return directory.NewProxyTargets(list, nodes, definitions)
}

// nodeIDs converts a bitmap of node ids to an ascending list.
func nodeIDs(b *roaring.Bitmap) []model.NodeID {
	ids := make([]model.NodeID, 0, b.GetCardinality())
	for it := b.Iterator(); it.HasNext(); {
		ids = append(ids, model.NodeID(it.Next()))
	}
	return ids
}

// nodeListKey encodes a list of node ids as a map key.
func nodeListKey(ids []model.NodeID) []byte {
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = append(key, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	}
	return key
}
