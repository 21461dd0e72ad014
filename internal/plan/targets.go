package plan

import (
	"fmt"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// targets are compiled model.Targets: the union of groups, nodes and where, less
// except.
type targets struct {
	groups []gid
	nodes  []ref
	where  *condition
	except *targets
}

// conditionKey names one condition over the nodes that its owner may reach. Equal
// conditions of one namespace are evaluated once. Conditions of trusted groups see
// declared labels only.
type conditionKey struct {
	ns, expr string
	declared bool
}

type condition struct {
	key conditionKey
	*where.Condition
}

func (p *Planner) targets(ns string, t *model.Targets) (*targets, error) {
	if t == nil {
		return nil, nil
	}
	c := &targets{}
	for _, name := range t.Groups {
		r, ok := groupRef(ns, name)
		if !ok {
			return nil, model.Errorf(model.Invalid, "group %q is of another namespace", name).
				WithHint("name a group of %s, or shared/NAME", ns)
		}
		c.groups = insert(c.groups, p.gids.id(r))
	}
	for _, name := range t.Nodes {
		c.nodes = append(c.nodes, nodeRef(ns, name))
	}
	if t.Where != "" {
		w, err := p.compiled(t.Where)
		if err != nil {
			return nil, err
		}
		c.where = &condition{key: conditionKey{ns: ns, expr: t.Where}, Condition: w}
	}
	var err error
	c.except, err = p.targets(ns, t.Except)
	if err != nil {
		return nil, fmt.Errorf("except: %w", err)
	}
	return c, nil
}

// conditions lists every condition, those of except included.
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
	return f.selectedBy(t, owner, func(c *condition) *roaring.Bitmap { return f.conditions[c.key].matches })
}

// selectedBy is selected with another way to find where a condition holds.
func (f *fleet) selectedBy(t *targets, owner string, holds func(*condition) *roaring.Bitmap) *roaring.Bitmap {
	set := roaring.New()
	if t == nil {
		return set
	}
	for _, g := range t.groups {
		if group := f.groups[g]; group != nil {
			set.Or(group.members)
		}
	}
	for _, r := range t.nodes {
		for _, id := range f.named(r) {
			set.Add(uint32(id))
		}
	}
	if t.where != nil {
		set.Or(holds(t.where))
	}
	if owner != SharedNamespace {
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
	if t == nil || !inScope(owner, n.def.ns) || !f.chosen(t, n) {
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
		if r.matches(n.def.ref) {
			return true
		}
	}
	return t.where != nil && f.conditions[t.where.key].matches.Contains(uint32(n.def.id))
}

func (r ref) matches(node ref) bool { return r.name == node.name && (r.ns == "" || r.ns == node.ns) }

// named are the nodes that a ref means.
func (f *fleet) named(r ref) []model.NodeID {
	if r.ns == "" {
		return f.byBareName[r.name]
	}
	if id, ok := f.byName[r]; ok {
		return []model.NodeID{id}
	}
	return nil
}

// gid is the number of a group's name inside the planner: smaller and faster to
// compare than the name. A name that resources mention has one whether or not the
// group is declared. Never used again.
type gid uint32

type gids struct {
	mu   sync.Mutex
	ids  map[ref]gid
	refs []ref
}

func (g *gids) id(r ref) gid {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, ok := g.ids[r]
	if !ok {
		if g.ids == nil {
			g.ids = map[ref]gid{}
		}
		id = gid(len(g.refs))
		g.ids[r] = id
		g.refs = append(g.refs, r)
	}
	return id
}

func (g *gids) ref(id gid) ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refs[id]
}

func (g *gids) known(r ref) (gid, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, ok := g.ids[r]
	return id, ok
}

// insert and remove keep a sorted list of different values.
func insert[T ~uint32](list []T, v T) []T {
	i, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, i, v)
}

func remove[T ~uint32](list []T, v T) []T {
	i, found := slices.BinarySearch(list, v)
	if !found {
		return list
	}
	return slices.Delete(list, i, i+1)
}

// difference calls gone for what only before has and come for what only after has.
// Both are sorted.
func difference[T ~uint32](before, after []T, gone, come func(T)) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			gone(before[0])
			before = before[1:]
		case len(before) == 0 || after[0] < before[0]:
			come(after[0])
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
}

// maxCompiled bounds the conditions kept compiled beside those in use.
const maxCompiled = 4096

// compiled compiles a condition once. The caller holds compiling.
func (p *Planner) compiled(expr string) (*where.Condition, error) {
	if w := p.wheres[expr]; w != nil {
		return w, nil
	}
	w, err := where.Compile(expr)
	if err != nil {
		return nil, err
	}
	if len(p.wheres) >= maxCompiled {
		clear(p.wheres)
	}
	p.wheres[expr] = w
	return w, nil
}
