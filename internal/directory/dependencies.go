package directory

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Bounds of a problem's dependencies, and of the wait until a failed dependency is noticed.
const (
	maxDependencies = 32
	maxSettle       = 2 * time.Minute
)

// Dependencies lists the checks that the problems of a check on a node depend on: those on its upstream
// nodes, the farthest first, then the checks of dependsOn, and the dependencies of those. It leaves out
// checks that do not exist.
func (d *Directory) Dependencies(node model.NodeID, check model.CheckID) (list []route.Dependency) {
	now := d.now.Load()
	n := now.nodes.Value(node).Node
	if n == nil {
		return nil
	}
	for at := n; at.Upstream != nil && len(list) < maxDependencies; {
		upstream := now.nodes.Value(now.nodeNames.Value(at.Upstream.Node)).Node
		if upstream == nil {
			break
		}
		if m, ok := now.dependency(upstream, at.Upstream.Check); ok {
			m.Behind = true
			list = append(list, m)
		}
		at = upstream
	}
	slices.Reverse(list)
	u := now.units.Value(check)
	if u.Unit == nil {
		return list
	}
	for todo := slices.Clone(u.DependsOn); len(todo) > 0 && len(list) < maxDependencies; todo = todo[1:] {
		m, ok := now.dependency(n, todo[0])
		if !ok || m.Check == check || slices.ContainsFunc(list, func(x route.Dependency) bool { return x.Node == node && x.Check == m.Check }) {
			continue
		}
		list = append(list, m)
		if next := now.units.Value(m.Check); next.Unit != nil {
			todo = append(todo, next.DependsOn...)
		}
	}
	return list
}

func (s *snapshot) dependency(node *Node, check route.Name) (route.Dependency, bool) {
	m := route.Dependency{Node: node.ID, Name: route.Name{Namespace: node.Namespace, Name: node.Name.Name + "/" + check.Name}, Settle: maxSettle}
	if m.Check = model.BuiltinCheck(check.Name); m.Check != 0 {
		return m, true
	}
	u := s.unit(checkKind, check)
	if u.Unit == nil {
		return m, false
	}
	m.Check = u.ID
	if c := u.Chunk.AsCheck(); c != nil && c.Interval > 0 {
		m.Settle = min(maxSettle, c.Interval*time.Duration(max(1, c.FailAfter))+c.Timeout)
	}
	return m, true
}
