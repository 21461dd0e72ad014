package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// A technique that is not multi-instance runs once on a node. Of the directives of such a technique that policies put on
// the node, the one with the best precedence runs; it overrides the others there. The result depends only on the set of
// directives, so it is computed once for all nodes with the same set.

// precedence orders directives of one technique, of which only one runs on a node: by priority, by the name of their
// first policy, then by their own name.
type precedence struct {
	technique route.Name
	priority  int
	policy    string
	name      string
}

// compare returns a negative number if this directive wins over another one of the same technique.
func (a *precedence) compare(b *precedence) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), strings.Compare(a.policy, b.policy), strings.Compare(a.name, b.name))
}

// reason returns a text that explains to people why this directive wins over another.
func (a *precedence) reason(b *precedence) string {
	switch {
	case a.priority != b.priority:
		return fmt.Sprintf("its priority is %d, before %d", a.priority, b.priority)
	case a.policy != b.policy:
		return fmt.Sprintf("both have priority %d, and its policy %s comes before %s by name", a.priority, a.policy, b.policy)
	}
	return fmt.Sprintf("both have priority %d and policy %s, and its name comes first", a.priority, a.policy)
}

// precedenceOf returns the precedence of a compiled directive, or nil if the unit is no directive or its technique
// may run several times.
func precedenceOf(u *unit) *precedence {
	if u == nil {
		return nil
	}
	return u.precedence
}

// updatePrecedence counts, after an edit, the directives of each technique that may run only once on a node, and
// marks the nodes of a directive whose precedence changed.
func (p *recomputation) updatePrecedence(f *fleet, u *placedUnit, old, new *unit) {
	was, is := precedenceOf(old), precedenceOf(new)
	if was == is || was != nil && is != nil && *was == *is {
		return
	}
	if was != nil {
		if f.rivals[was.technique]--; f.rivals[was.technique] == 1 {
			f.contested--
		} else if f.rivals[was.technique] == 0 {
			delete(f.rivals, was.technique)
		}
	}
	if is != nil {
		if f.rivals[is.technique]++; f.rivals[is.technique] == 2 {
			f.contested++
		}
	}
	p.moved.Or(u.selectedNodes())
}

// selectingUnits returns the ids of all checks and directives that select nodes with this set of checks, also of the
// directives that others override.
func selectingUnits(s *unitSet) []model.UnitID {
	list := slices.Concat(s.ids, s.overridden)
	slices.Sort(list)
	return list
}

// splitOverridden splits the units (checks, directives) that select a node into those that run there and those that
// others override. It computes each list of units once in a pass.
func (p *recomputation) splitOverridden(f *fleet, selected []model.UnitID) (units, lost []model.UnitID) {
	if f.contested == 0 {
		return selected, nil
	}
	key := string(appendIDs(nil, selected))
	if known, ok := p.overruled[key]; ok {
		return known[0], known[1]
	}
	best := map[route.Name]*precedence{}
	for _, id := range selected {
		if is := precedenceOf(f.units[id].def); is != nil && (best[is.technique] == nil || is.compare(best[is.technique]) < 0) {
			best[is.technique] = is
		}
	}
	for _, id := range selected {
		if is := precedenceOf(f.units[id].def); is != nil && best[is.technique] != is {
			lost = append(lost, id)
		} else {
			units = append(units, id)
		}
	}
	p.overruled[key] = [2][]model.UnitID{units, lost}
	return units, lost
}

// dropUnmoved removes the placements (of a directive on a node) that were both lost and gained in one recomputation, and so
// have not changed.
func (p *recomputation) dropUnmoved(f *fleet) {
	if len(p.overruled) == 0 || len(p.removed) == 0 || len(p.gained) == 0 {
		return
	}
	net := map[placement]int{}
	for _, at := range p.gained {
		net[at]++
	}
	for _, at := range p.removed {
		net[at]--
	}
	settled := func(at placement) bool {
		u := f.units[at.unit]
		return net[at] == 0 && u != nil && precedenceOf(u.def) != nil
	}
	p.removed, p.gained = slices.DeleteFunc(p.removed, settled), slices.DeleteFunc(p.gained, settled)
}

// overriderOf returns the directive that runs on a node in place of another, or nil if the other one is not
// overridden there.
func (f inspection) overriderOf(n *node, u *unit) *unit {
	if _, lost := slices.BinarySearch(n.units.overridden, u.ID); !lost {
		return nil
	}
	for _, id := range n.units.ids {
		if by := f.units[id].def; by.precedence != nil && by.precedence.technique == u.precedence.technique {
			return by
		}
	}
	return nil
}
