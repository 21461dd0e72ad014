package plan

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// front is what a node is behind.
type front struct{ node, check ref }

func frontOf(ns string, b *model.Upstream) *front {
	if b == nil {
		return nil
	}
	var f front
	f.node.ns, f.node.name = model.SplitRef(ns, b.Node)
	f.check.ns, f.check.name = model.SplitRef(ns, b.CheckName())
	return &f
}

func checkRefs(ns string, names []string) (list []ref) {
	for _, name := range names {
		var r ref
		r.ns, r.name = model.SplitRef(ns, name)
		list = append(list, r)
	}
	return list
}

// hangsElse says whether an edit changes what something hangs on.
func hangsElse(e edit) bool {
	switch first(e.new, e.old).(type) {
	case *nodeDef:
		old, _ := e.old.(*nodeDef)
		new, _ := e.new.(*nodeDef)
		if old == nil || new == nil || old.behind == nil || new.behind == nil {
			return old != nil && old.behind != nil || new != nil && new.behind != nil
		}
		return *old.behind != *new.behind
	case *checkDef:
		old, _ := e.old.(*checkDef)
		new, _ := e.new.(*checkDef)
		if old == nil || new == nil {
			return old != nil && len(old.dependsOn) > 0 || new != nil && len(new.dependsOn) > 0
		}
		return !slices.Equal(old.dependsOn, new.dependsOn)
	}
	return false
}

// Bounds of what one problem hangs on, and of how long is waited for it to be noticed.
const (
	maxMasters = 32
	maxSettle  = 2 * time.Minute
)

// Dependencies lists what the problems of a check on a node hang on: the nodes in front, the farthest
// first, then the checks that it depends on, and those that they depend on. What does not
// exist is left out.
func (p *Planner) Dependencies(node model.NodeID, check model.CheckID) []route.Dependency {
	return read(p, func(f *fleet) []route.Dependency { return f.masters(node, check) })
}

func (f *fleet) masters(node model.NodeID, check model.CheckID) (list []route.Dependency) {
	n := f.nodes[node]
	if n == nil {
		return nil
	}
	for at := n.def; at.behind != nil && len(list) < maxMasters; {
		ahead := f.nodes[f.byName[at.behind.node]]
		if ahead == nil {
			break
		}
		if m, ok := f.master(ahead.def, at.behind.check); ok {
			m.Behind = true
			list = append(list, m)
		}
		at = ahead.def
	}
	slices.Reverse(list)
	if c := f.checks[check]; c != nil && c.def != nil {
		for wanted := slices.Clone(c.def.dependsOn); len(wanted) > 0 && len(list) < maxMasters; wanted = wanted[1:] {
			m, ok := f.master(n.def, wanted[0])
			if !ok || m.Check == check || slices.ContainsFunc(list, func(x route.Dependency) bool { return x.Node == node && x.Check == m.Check }) {
				continue
			}
			list = append(list, m)
			if c := f.checks[m.Check]; c != nil && c.def != nil {
				wanted = append(wanted, c.def.dependsOn...)
			}
		}
	}
	return list
}

func (f *fleet) master(node *nodeDef, check ref) (route.Dependency, bool) {
	m := route.Dependency{Node: node.id, Name: route.Name{Namespace: node.ns, Name: node.name + "/" + check.name}, Settle: maxSettle}
	if m.Check = model.BuiltinCheck(check.name); m.Check != 0 {
		return m, true
	}
	c := f.checks[f.checkByName[check]]
	if c == nil || c.def == nil {
		return m, false
	}
	m.Check = c.def.id
	if of := c.def.chunk; of.Interval > 0 {
		m.Settle = min(maxSettle, of.Interval*time.Duration(max(1, of.FailAfter))+of.Timeout)
	}
	return m, true
}
