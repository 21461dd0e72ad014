package plan

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// targets are compiled model.Targets: the union of groups, nodes and where, less
// except.
type targets struct {
	groups []directory.GroupID
	nodes  []route.Name
	where  *condition
	except *targets
}

// targets compiles the targets of a resource of a namespace; nil for nil.
func (c *compiler) targets(ns string, t *model.Targets) (*targets, error) {
	if t == nil {
		return nil, nil
	}
	out := &targets{}
	for _, name := range t.Groups {
		r, ok := groupName(ns, name)
		if !ok {
			return nil, model.Errorf(model.Invalid, "group %q is of another namespace", name).
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
		return nil, fmt.Errorf("except: %w", err)
	}
	return out, nil
}

// conditions lists every condition, also of except.
func (t *targets) conditions() (list []*condition) {
	for ; t != nil; t = t.except {
		if t.where != nil {
			list = append(list, t.where)
		}
	}
	return list
}

// selected is the set of nodes that the targets of owner name: bitmap algebra, no
// node is looked at.
func (f *fleet) selected(t *targets, owner string) *roaring.Bitmap {
	return f.selectedBy(t, owner, func(c *condition) *roaring.Bitmap { return f.conditions.matches(c) })
}

// selectedBy is selected with another way to find where a condition holds.
func (f *fleet) selectedBy(t *targets, owner string, holds func(*condition) *roaring.Bitmap) *roaring.Bitmap {
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
		set.AndNot(f.selectedBy(t.except, owner, holds))
	}
	return set
}

// lands asks the same of one node.
func (f *fleet) lands(t *targets, owner string, n *node) bool {
	if t == nil || !reaches(owner, n.def.Namespace) || !f.chosen(t, n) {
		return false
	}
	return t.except == nil || !f.lands(t.except, owner, n)
}

func (f *fleet) chosen(t *targets, n *node) bool {
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
