package plan

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Inspector answers people from the definitions themselves: why a unit lands on a node, where a value
// comes from, which faults nodes have. It holds the planner's read lock while it looks; look-ups on a hot
// path belong into the directory.
type Inspector struct{ p *Planner }

// Inspector returns the inspector of this planner.
func (p *Planner) Inspector() *Inspector { return &Inspector{p} }

func (i *Inspector) read(fn func(*fleet)) {
	i.p.mu.RLock()
	defer i.p.mu.RUnlock()
	fn(i.p.fleet)
}

// NodeProperties returns a look-up of the properties of a node. It covers all properties, an assignment
// only those that its chunks read.
func (i *Inspector) NodeProperties(id model.NodeID) model.PropertyValues {
	return func(name string) (value []byte, conflict string, ok bool) {
		i.read(func(f *fleet) {
			n := f.nodes[id]
			if n == nil {
				return
			}
			if v := f.resolver().property(n, name); v != nil {
				value, conflict, ok = v.Value, v.Error, true
			}
		})
		return value, conflict, ok
	}
}

// Placement counts the users of a declared resource; zero: it is not declared.
func (i *Inspector) Placement(key intent.Key) (l intent.Placement) {
	i.read(func(f *fleet) { l = f.placementOf(f.definitions[key]) })
	return l
}

// Select returns the nodes of targets that a namespace would declare; an error where a condition does not
// compile. It evaluates a condition on every node that the namespace reaches.
func (i *Inspector) Select(namespace string, t *model.Targets) (ids []model.NodeID, err error) {
	i.p.compiling.Lock()
	compiled, err := i.p.compiler.targets(namespace, t)
	i.p.compiling.Unlock()
	if err != nil {
		return nil, err
	}
	i.read(func(f *fleet) {
		ids = nodeIDs(f.selectedBy(compiled, namespace, func(c *condition) *roaring.Bitmap { return f.evaluateOnce(c, namespace) }))
	})
	return ids, nil
}

// evaluateOnce returns the nodes in reach that a condition selects. It changes nothing in the fleet.
func (f *fleet) evaluateOnce(c *condition, namespace string) *roaring.Bitmap {
	found, over := roaring.New(), f.all
	if namespace != shared {
		over = f.inNamespace[namespace]
	}
	if over == nil {
		return found
	}
	seen := where.NewNode()
	for id := range values32(over) {
		n := f.nodes[model.NodeID(id)]
		seen.Set(n.def.Namespace, n.def.Name.Name, n.def.Labels, n.def.Facts)
		if c.ReadsGroups() {
			names := make([]string, len(n.groups.ids))
			for i, g := range n.groups.ids {
				names[i] = f.groupText(g)
			}
			seen.SetGroups(names)
		}
		if c.Match(seen) {
			found.Add(id)
		}
	}
	return found
}
