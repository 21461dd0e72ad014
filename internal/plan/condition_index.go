package plan

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/where"
)

// conditionIndex has every condition that a group or unit uses, and the nodes that it selects. Equal
// conditions of one namespace are evaluated once.
type conditionIndex struct {
	byKey        map[conditionKey]*conditionState
	byNamespace  map[string][]*conditionState // of the resource that has it
	groupReaders int                          // conditions that read node.groups
	all          *where.Node                  // a node as conditions see it
	operators    *where.Node                  // the same node with operators' labels alone
}

// conditionKey identifies a condition over the nodes that its owner may reach. Conditions of trusted
// groups see operators' labels alone.
type conditionKey struct {
	ns, expr       string
	operatorLabels bool
}

type condition struct {
	key conditionKey
	*where.Condition
}

// conditionState is a condition with the nodes that it selects. users are the groups and units to which
// it adds nodes; a condition of an except has none.
type conditionState struct {
	*condition
	matches *roaring.Bitmap
	refs    int
	fresh   bool // not evaluated yet
	users
}

func newConditionIndex() *conditionIndex {
	return &conditionIndex{
		byKey: map[conditionKey]*conditionState{}, byNamespace: map[string][]*conditionState{},
		all: where.NewNode(), operators: where.NewNode(),
	}
}

// acquire counts a user of each condition and returns the new ones.
func (x *conditionIndex) acquire(list []*condition) (fresh []*conditionState) {
	for _, c := range list {
		s := x.byKey[c.key]
		if s == nil {
			s = &conditionState{condition: c, matches: roaring.New(), fresh: true}
			x.byKey[c.key] = s
			x.byNamespace[c.key.ns] = append(x.byNamespace[c.key.ns], s)
			fresh = append(fresh, s)
			if c.ReadsGroups() {
				x.groupReaders++
			}
		}
		s.refs++
	}
	return fresh
}

// release takes back a user of each condition; the last one removes it.
func (x *conditionIndex) release(list []*condition) {
	for _, c := range list {
		s := x.byKey[c.key]
		if s.refs--; s.refs > 0 {
			continue
		}
		delete(x.byKey, c.key)
		if c.ReadsGroups() {
			x.groupReaders--
		}
		x.byNamespace[c.key.ns] = slices.DeleteFunc(x.byNamespace[c.key.ns], func(o *conditionState) bool { return o == s })
	}
}

// inNamespace calls fn for the conditions that may select nodes of a namespace.
func (x *conditionIndex) inNamespace(ns string, fn func(*conditionState)) {
	for _, s := range x.byNamespace[ns] {
		fn(s)
	}
	if ns != shared {
		for _, s := range x.byNamespace[shared] {
			fn(s)
		}
	}
}

// matches returns the nodes that a condition in use selects.
func (x *conditionIndex) matches(c *condition) *roaring.Bitmap { return x.byKey[c.key].matches }

// set makes a node the one that the next matches see.
func (x *conditionIndex) set(n *nodeDef, groups func() []string) {
	x.all.Set(n.Namespace, n.Name.Name, n.Labels, n.Facts)
	x.operators.Set(n.Namespace, "", n.operatorLabels, nil)
	if groups != nil {
		x.all.SetGroups(groups())
	}
}

// match evaluates a condition on the node of set.
func (x *conditionIndex) match(s *conditionState, id uint32) {
	seen := x.all
	if s.key.operatorLabels {
		seen = x.operators
	}
	if s.Match(seen) {
		s.matches.Add(id)
	} else {
		s.matches.Remove(id)
	}
}
