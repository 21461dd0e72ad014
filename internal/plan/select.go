package plan

import (
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Select says which nodes the targets of a namespace name now; nothing is declared by it.
// A condition is asked of every node that the namespace reaches.
func (p *Planner) Select(namespace string, t *model.Targets) ([]model.NodeID, error) {
	p.compiling.Lock()
	compiled, err := p.targets(namespace, t)
	p.compiling.Unlock()
	if err != nil {
		return nil, err
	}
	return read(p, func(f *fleet) []model.NodeID {
		return nodeIDs(f.selectedBy(compiled, namespace, func(c *condition) *roaring.Bitmap { return f.ask(c, namespace) }))
	}), nil
}

// ask asks a condition of every node in reach; the fleet does not change by it.
func (f *fleet) ask(c *condition, namespace string) *roaring.Bitmap {
	found, over := roaring.New(), f.all
	if namespace != SharedNamespace {
		over = f.inNamespace[namespace]
	}
	if over == nil {
		return found
	}
	shown := where.NewNode()
	for id := range values32(over) {
		n := f.nodes[model.NodeID(id)]
		shown.Set(n.def.ns, n.def.name, n.def.labels, n.def.facts)
		if c.ReadsGroups() {
			names := make([]string, len(n.groups.ids))
			for i, g := range n.groups.ids {
				names[i] = f.groupName(g)
			}
			shown.SetGroups(names)
		}
		if c.Match(shown) {
			found.Add(id)
		}
	}
	return found
}

// matching keeps the nodes of a set that a selector selects, by the label index. It changes from.
func (f *fleet) matching(from *roaring.Bitmap, s directory.Selector) *roaring.Bitmap {
	return s.Filter(from, func(p where.Pair) *roaring.Bitmap { return f.byLabel[p] }, func(key unique.Handle[string]) *roaring.Bitmap { return f.byLabelKey[key] })
}
