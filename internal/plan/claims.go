package plan

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
)

// claim is a group that an agent wants its node to be in. It is in it where the group
// says selfJoin, or an operator or the join token vouches for the node (mayJoin); never
// where the group is trusted.
type claim struct {
	group   gid
	vouched bool
}

// claims reads what an agent said. What names no group that it could be in is left out:
// intent takes no such thing.
func (p *Planner) claims(ns string, spec *model.NodeSpec) (list []claim) {
	if len(spec.AgentGroups) == 0 {
		return nil
	}
	var may []gid
	for _, name := range spec.JoinableGroups() {
		if r, ok := groupRef(ns, name); ok {
			may = append(may, p.gids.id(r))
		}
	}
	for _, name := range spec.AgentGroups {
		if r, ok := groupRef(ns, name); ok {
			g := p.gids.id(r)
			list = append(list, claim{g, slices.Contains(may, g)})
		}
	}
	slices.SortFunc(list, func(a, b claim) int { return cmp.Compare(a.group, b.group) })
	return slices.CompactFunc(list, func(a, b claim) bool { return a.group == b.group })
}

// claimant is one node's say in a group; a nil bitmap is nobody.
func (g *group) claimant(id uint32, c claim, add bool) {
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
	change(&g.claimed)
	if c.vouched {
		change(&g.vouched)
	}
}

// takes says whether the group takes a node in because its agent says so.
func (g *group) takes(c claim) bool {
	if g.def == nil {
		return c.vouched
	}
	return !g.def.trusted && (g.def.selfJoin || c.vouched)
}

// taking says the same, and why, in words.
func (g *group) taking(c claim) (yes bool, why string) {
	switch yes = g.takes(c); {
	case yes && c.vouched:
		return yes, "the node may: its join token (given), or an operator (mayJoin)"
	case yes:
		return yes, "the group lets agents in (selfJoin)"
	case g.def == nil:
		return yes, "there is no such group, and the node may not make it (mayJoin)"
	case g.def.trusted:
		return yes, "the group is trusted, which takes in no machine because that says so"
	}
	return yes, "neither the group (selfJoin: true) nor the node (mayJoin) allows it"
}

// joined are those whom it takes in; nil: nobody.
func (g *group) joined() *roaring.Bitmap {
	switch {
	case g.takes(claim{}): // everybody
		return g.claimed
	case g.takes(claim{vouched: true}):
		return g.vouched
	}
	return nil
}

// hears says whether the members of a group are members of one that lists it: a trusted
// group hears only groups that are.
func (f *fleet) hears(by *groupDef, inside gid) bool {
	if by == nil || !by.trusted {
		return true
	}
	g := f.groups[inside]
	return g != nil && g.def != nil && g.def.trusted
}

// heard are the targets of a group without the groups that it does not hear.
func (f *fleet) heard(def *groupDef) *targets {
	if !def.trusted {
		return def.targets
	}
	t := *def.targets
	t.groups = slices.DeleteFunc(slices.Clone(t.groups), func(inside gid) bool { return !f.hears(def, inside) })
	return &t
}

// JoinRequest is a group that a node's agent wants it to be in.
type JoinRequest struct {
	Group    string // shared ones with their namespace
	Accepted bool
	Reason   string
}

// JoinRequests lists those of a node, by name.
func (p *Planner) JoinRequests(id model.NodeID) []JoinRequest {
	return read(p, func(f *fleet) (list []JoinRequest) {
		n := f.nodes[id]
		if n == nil {
			return nil
		}
		for _, c := range n.def.claims {
			yes, why := f.groups[c.group].taking(c)
			list = append(list, JoinRequest{f.groupName(c.group), yes, why})
		}
		slices.SortFunc(list, func(a, b JoinRequest) int { return cmp.Compare(a.Group, b.Group) })
		return list
	})
}
