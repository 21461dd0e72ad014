package plan

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// joinRequest is a group that an agent wants its node to be in. The group accepts it if it says selfJoin,
// or if an operator or the join token vouches for the node (mayJoin); a trusted group never does.
type joinRequest struct {
	group   directory.GroupID
	vouched bool
}

// setRequest enters or removes the request of one node.
func (g *group) setRequest(id uint32, r joinRequest, add bool) {
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
	change(&g.wanted)
	if r.vouched {
		change(&g.vouched)
	}
}

// accepts reports whether the group takes a node in because its agent wants it.
func (g *group) accepts(r joinRequest) bool {
	if g.def == nil {
		return r.vouched
	}
	return !g.def.trusted && (g.def.selfJoin || r.vouched)
}

// decide returns the same answer with its reason for people.
func (g *group) decide(r joinRequest) (accepted bool, reason string) {
	switch accepted = g.accepts(r); {
	case accepted && r.vouched:
		return accepted, "the node may: its join token (given), or an operator (mayJoin)"
	case accepted:
		return accepted, "the group lets agents in (selfJoin)"
	case g.def == nil:
		return accepted, "the group does not exist, and the node may not make it (mayJoin)"
	case g.def.trusted:
		return accepted, "the group is trusted: no machine can bring itself in"
	}
	return accepted, "neither the group (selfJoin: true) nor the node (mayJoin) allows it"
}

// joined returns the nodes whose requests the group accepts; nil: none.
func (g *group) joined() *roaring.Bitmap {
	switch {
	case g.accepts(joinRequest{}):
		return g.wanted
	case g.accepts(joinRequest{vouched: true}):
		return g.vouched
	}
	return nil
}

// contains reports whether the members of a group are members of a group that lists it: a trusted group
// contains trusted groups only.
func (f *fleet) contains(outer *groupDef, inner directory.GroupID) bool {
	if outer == nil || !outer.trusted {
		return true
	}
	g := f.groups[inner]
	return g != nil && g.def != nil && g.def.trusted
}

// containedBy returns the targets of a group without the groups that it does not contain.
func (f *fleet) containedBy(def *groupDef) *targets {
	if !def.trusted {
		return def.targets
	}
	t := *def.targets
	t.groups = slices.DeleteFunc(slices.Clone(t.groups), func(inner directory.GroupID) bool { return !f.contains(def, inner) })
	return &t
}

// JoinRequest is a group that a node's agent wants its node to be in.
type JoinRequest struct {
	Group    string // shared groups with their namespace
	Accepted bool
	Reason   string
}

// JoinRequests lists the join requests of a node, by name.
func (i *Inspector) JoinRequests(id model.NodeID) (list []JoinRequest) {
	i.read(func(f *fleet) {
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
