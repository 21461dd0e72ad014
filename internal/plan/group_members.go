package plan

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// evaluate evaluates every condition on the changed nodes, and each new condition on all nodes. A new condition sees
// only the nodes that it may select. If readsGroups is true, it evaluates only conditions that read node.groups, else
// only the other ones.
func (f *fleet) evaluate(p *recomputation, readsGroups bool) {
	if readsGroups && f.conditions.groupReaders == 0 {
		return
	}
	see := func(n *node) {
		var groups func() []string
		if readsGroups {
			groups = func() []string { return f.groupNames(n.groups) }
		}
		f.conditions.setNode(n.def, groups)
	}
	match := func(s *conditionState, id uint32) {
		f.counts.Conditions++
		f.conditions.match(s, id)
	}
	for id := range bitmapIDs(p.nodes) {
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
		began, limited, cancel := f.now(), context.Background(), context.CancelFunc(func() {})
		if f.limitsConditions {
			if limited, cancel = context.WithTimeout(limited, maxConditionTime); len(s.EntryTerms()) > 0 && f.newSearch != nil {
				f.conditions.searchBy(f.newSearch(limited))
			}
		}
		over := f.all
		if s.key.ns != shared {
			over = f.inNamespace[s.key.ns]
		}
		if over != nil {
			for id := range bitmapIDs(over) {
				see(f.nodes[model.NodeID(id)])
				if match(s, id); f.limitsConditions && p.exceedsConditionTime(s, f.now().Sub(began), limited.Err() != nil) {
					break // the preview fails
				}
			}
		}
		if f.limitsConditions && f.search != nil {
			f.conditions.searchBy(f.search)
		}
		cancel()
		p.conditionTime += f.now().Sub(began)
		s.fresh = false
	}
}

// searchBy sets the function by which conditions search the inventory of a node.
func (x *conditionIndex) searchBy(search EntrySearch) {
	x.all.SetInventory(func(t *where.EntryTerm) (found, known bool) { return search(x.seen, t) })
}

// Limits of the time of new conditions in a preview. The preview is under the locks of the planner, and each later pass
// evaluates the conditions again for changed nodes.
const (
	maxConditionTime  = 2 * time.Second  // of one condition over all nodes that it may select
	maxConditionsTime = 30 * time.Second // of all new conditions of a change
)

// exceedsConditionTime reports whether a new condition takes too much time, and keeps the reason for the preview. ended: its
// search in inventories has ended before its result.
func (p *recomputation) exceedsConditionTime(s *conditionState, took time.Duration, ended bool) bool {
	switch {
	case p.costly != nil:
	case ended || took > maxConditionTime:
		p.costly = s.timeError()
	case p.conditionTime+took > maxConditionsTime:
		p.costly = model.Errorf(model.Limited, "the new conditions (where) of this change take more than %s over all nodes", maxConditionsTime).WithHint("apply the change in several parts")
	}
	return p.costly != nil
}

// timeError returns the error for a condition that takes too much time.
func (c *condition) timeError() error {
	return model.Errorf(model.Limited, "where: the condition %q takes more than %s over all nodes that it may select", model.Shorten(c.key.expr), maxConditionTime).
		WithHint("compare labels and facts with == and startsWith(), in place of exists(), all() and matches()")
}

// groupNames returns the names of a node's groups, with a prefix for groups of the namespace shared
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

// updateMembersOfGroups recomputes the members of changed groups. It goes on with the groups that contain a group with
// other members than before. Nodes that joined or left a group are added to p.nodes.
func (f *fleet) updateMembersOfGroups(p *recomputation) {
	reach := map[directory.GroupID]bool{} // groups to compute; false: not visited yet
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
	// Members of edited nodes stay as they were here, right or wrong: updateGroupsOfNode computes the groups of each
	// such node later and corrects the members by the difference.
	edited := p.nodes.Clone()
	differs := map[directory.GroupID]bool{}
	var fill func(directory.GroupID)
	fill = func(g directory.GroupID) {
		if reach[g] {
			return // a cycle of groups ends here: intent refuses cycles, the planner only must not hang
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
		if joined := group.acceptedNodes(); joined != nil {
			members.Or(joined)
		}
		if group.def != nil {
			members.Or(f.selectedNodes(f.permittedTargets(group.def), group.def.Namespace))
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

// updateGroupsOfNode recomputes the groups to which a node belongs.
func (f *fleet) updateGroupsOfNode(p *recomputation, n *node) {
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
			if reachesNamespace(f.groupNumbers.name(g).Namespace, ns) {
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
		if len(s.dependents.groups) > 0 && s.matches.Contains(id) {
			add(s.dependents.groups)
		}
	})
	for todo := slices.Clone(found); len(todo) > 0; {
		g := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, parent := range f.groups[g].parents {
			if before := len(found); reachesNamespace(f.groupNumbers.name(parent).Namespace, ns) && f.mayContain(f.groups[parent].def, g) {
				if found = insert(found, parent); len(found) > before {
					todo = append(todo, parent)
				}
			}
		}
	}
	difference(n.groups.ids, found,
		func(g directory.GroupID) { f.groups[g].members.remove(n.def.ID); p.regrouped[g] = true },
		func(g directory.GroupID) { f.groups[g].members.add(n.def.ID); p.regrouped[g] = true })
	f.groupSets.moveReference(&n.groups, f.groupSets.intern(found, nil, nil))
}

// conditionIndex has the conditions of all groups and checks, with the nodes that each condition selects. A condition
// that several resources of one namespace use is evaluated once.
type conditionIndex struct {
	byKey        map[conditionKey]*conditionState
	byNamespace  map[string][]*conditionState // by the namespace of the group or unit that uses the condition
	groupReaders int                          // number of conditions that read node.groups

	inventoryReaders int          // number of conditions that read inventories
	seen             model.NodeID // of setNode
	all              *where.Node  // the node of set, for conditions
	operators        *where.Node  // the same node with operators' labels alone, for trusted groups
}

// conditionKey identifies a condition by its expression and by a namespace. The condition may select nodes of this
// namespace. Conditions of trusted groups read only the labels that operators set.
type conditionKey struct {
	ns, expr       string
	operatorLabels bool
}

// condition is a compiled CEL condition on nodes, with its key in the index of conditions. A condition is a boolean
// expression in CEL.
type condition struct {
	key conditionKey
	*where.Condition
}

// conditionState has a condition, its selected nodes, and the groups and checks that use the condition. Its users are
// the groups and units to which the condition adds nodes; a condition in targets.except has none.
type conditionState struct {
	*condition
	matches *roaring.Bitmap
	refs    int
	fresh   bool // the condition was not evaluated yet
	dependents
}

// newConditionIndex returns an empty index of conditions.
func newConditionIndex() *conditionIndex {
	return &conditionIndex{
		byKey: map[conditionKey]*conditionState{}, byNamespace: map[string][]*conditionState{},
		all: where.NewNode(), operators: where.NewNode(),
	}
}

// acquire adds the conditions to the index, or counts one more use of known conditions. It returns the conditions that
// were not in use before.
func (x *conditionIndex) acquire(list []*condition) (fresh []*conditionState) {
	for _, c := range list {
		s := x.byKey[c.key]
		if s == nil {
			s = &conditionState{condition: c, matches: roaring.New(), fresh: true}
			x.byKey[c.key] = s
			x.byNamespace[c.key.ns] = append(x.byNamespace[c.key.ns], s)
			fresh = append(fresh, s)
			if c.ReadsGroups() {
				x.groupReaders++
			}
			if c.InventorySections() != 0 {
				x.inventoryReaders++
			}
		}
		s.refs++
	}
	return fresh
}

// release counts one use less of each condition, and drops unused conditions from the index.
func (x *conditionIndex) release(list []*condition) {
	for _, c := range list {
		s := x.byKey[c.key]
		if s.refs--; s.refs > 0 {
			continue
		}
		delete(x.byKey, c.key)
		if c.ReadsGroups() {
			x.groupReaders--
		}
		if c.InventorySections() != 0 {
			x.inventoryReaders--
		}
		x.byNamespace[c.key.ns] = slices.DeleteFunc(x.byNamespace[c.key.ns], func(o *conditionState) bool { return o == s })
	}
}

// inNamespace calls fn for each condition that may select nodes of a namespace
func (x *conditionIndex) inNamespace(ns string, fn func(*conditionState)) {
	for _, s := range x.byNamespace[ns] {
		fn(s)
	}
	if ns != shared {
		for _, s := range x.byNamespace[shared] {
			fn(s)
		}
	}
}

// matches returns the nodes that a condition selects according to the index, without a new evaluation.
func (x *conditionIndex) matches(c *condition) *roaring.Bitmap { return x.byKey[c.key].matches }

// setNode chooses the node on which the next calls of match evaluate conditions.
func (x *conditionIndex) setNode(n *nodeDef, groups func() []string) {
	x.seen = n.ID
	x.all.Set(n.Namespace, n.Name.Name, n.Labels, n.Facts)
	x.operators.Set(n.Namespace, "", n.operatorLabels, nil)
	if groups != nil {
		x.all.SetGroups(groups())
	}
}

// match evaluates a condition on the node that the last call of setNode has chosen. Then it adds the node to the
// condition's nodes or removes it.
func (x *conditionIndex) match(s *conditionState, id uint32) {
	seen := x.all
	if s.key.operatorLabels {
		seen = x.operators
	}
	if s.Match(seen) {
		s.matches.Add(id)
	} else {
		s.matches.Remove(id)
	}
}

// joinRequest is the request of a node's agent to join a group. The group accepts the request if the group says
// selfJoin, or if an operator or the join token vouches for the node (mayJoin). A trusted group never accepts one.
type joinRequest struct {
	group   directory.GroupID
	vouched bool
}

// setJoinRequest stores or deletes the request of a node to join a group.
func (g *group) setJoinRequest(id uint32, r joinRequest, add bool) {
	change := func(b **roaring.Bitmap) {
		switch {
		case add && *b == nil:
			*b = roaring.BitmapOf(id)
		case add:
			(*b).Add(id)
		case *b != nil:
			(*b).Remove(id)
		}
	}
	change(&g.pending)
	if r.vouched {
		change(&g.vouched)
	}
}

// accepts reports whether the group accepts a node's request to join.
func (g *group) accepts(r joinRequest) bool {
	if g.def == nil {
		return r.vouched
	}
	return !g.def.trusted && (g.def.selfJoin || r.vouched)
}

// decide decides whether the group accepts a node's request to join, and returns the reason.
func (g *group) decide(r joinRequest) (accepted bool, reason string) {
	switch accepted = g.accepts(r); {
	case accepted && r.vouched:
		return accepted, "the join token (given) or an operator (mayJoin) allows it"
	case accepted:
		return accepted, "the group accepts agents (selfJoin)"
	case g.def == nil:
		return accepted, "the group does not exist, and the node may not create it (mayJoin)"
	case g.def.trusted:
		return accepted, "the group is trusted: no machine can join it by itself"
	}
	return accepted, "neither the group (selfJoin: true) nor the node (mayJoin) allows it"
}

// acceptedNodes returns the nodes whose requests to join the group are accepted. It returns nil if the group accepts
// none.
func (g *group) acceptedNodes() *roaring.Bitmap {
	switch {
	case g.accepts(joinRequest{}):
		return g.pending
	case g.accepts(joinRequest{vouched: true}):
		return g.vouched
	}
	return nil
}

// mayContain reports whether one group may include the members of another group, given which groups are
// trusted. A trusted group contains only trusted groups.
func (f *fleet) mayContain(outer *groupDef, inner directory.GroupID) bool {
	if outer == nil || !outer.trusted {
		return true
	}
	g := f.groups[inner]
	return g != nil && g.def != nil && g.def.trusted
}

// permittedTargets returns the targets of a group, without untrusted inner groups if the group is trusted. A
// trusted group must contain only trusted groups.
func (f *fleet) permittedTargets(def *groupDef) *targets {
	if !def.trusted {
		return def.targets
	}
	t := *def.targets
	t.groups = slices.DeleteFunc(slices.Clone(t.groups), func(inner directory.GroupID) bool { return !f.mayContain(def, inner) })
	return &t
}

// JoinRequest is the request of a node's agent to join one group, with the decision and its reason.
type JoinRequest struct {
	Group    string // name of the group; shared groups with their namespace
	Accepted bool
	Reason   string
}

// JoinRequests lists the join requests of a node, sorted by name of the group.
func (i *Inspector) JoinRequests(id model.NodeID) (list []JoinRequest) {
	i.withFleet(func(f inspection) {
		if n := f.nodes[id]; n != nil {
			for _, r := range n.def.requests {
				accepted, reason := f.groups[r.group].decide(r)
				list = append(list, JoinRequest{f.groupText(r.group), accepted, reason})
			}
		}
	})
	slices.SortFunc(list, func(a, b JoinRequest) int { return cmp.Compare(a.Group, b.Group) })
	return list
}
