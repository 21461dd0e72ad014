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

// precedence ranks directives of one technique, because a node runs only the first directive of each technique.
// The order is by priority, by the name of their first policy, then by their own name.
type precedence struct {
	technique route.Name
	priority  int
	policy    string
	name      string
}

// compare orders two directives of one technique, the winner first.
func (a *precedence) compare(b *precedence) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), strings.Compare(a.policy, b.policy), strings.Compare(a.name, b.name))
}

// reason explains to people why a directive wins over another directive of its technique.
func (a *precedence) reason(b *precedence) string {
	switch {
	case a.priority != b.priority:
		return fmt.Sprintf("its priority is %d, before %d", a.priority, b.priority)
	case a.policy != b.policy:
		return fmt.Sprintf("both have priority %d, and its policy %s comes before %s by name", a.priority, a.policy, b.policy)
	}
	return fmt.Sprintf("both have priority %d and policy %s, and its name comes first", a.priority, a.policy)
}

// precedenceOf returns the rank of a compiled directive among the directives of its technique. It returns nil for
// other units, and if the technique may run several times.
func precedenceOf(u *unit) *precedence {
	if u == nil {
		return nil
	}
	return u.precedence
}

// updatePrecedence recomputes after an edit which directives take precedence over others of the same technique.
// It counts the directives of each technique that may run only once on a node, and marks the nodes of a
// directive whose precedence changed.
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

// selectingUnits returns the ids of all checks and directives that select certain nodes, including overridden
// directives. Directives that others override also count.
func selectingUnits(s *unitSet) []model.UnitID {
	list := slices.Concat(s.ids, s.overridden)
	slices.Sort(list)
	return list
}

// splitOverridden splits the directives of a node into running directives and directives that another directive
// replaces. Checks always run. It computes each list of units once in a pass.
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

// dropUnchanged removes from the change lists each directive that a node both lost and gained again. A placement is a
// directive on a node; here it was both lost and gained.
func (p *recomputation) dropUnchanged(f *fleet) {
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

// overridingDirective returns the directive that runs on a node in place of a given, overridden directive. It returns nil if
// the other directive is not overridden there.
func (f inspection) overridingDirective(n *node, u *unit) *unit {
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
