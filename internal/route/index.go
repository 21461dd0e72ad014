package route

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// index finds, of many things that pick problems, those that pick this one. Each is posted
// under one of what it names, its nodes and groups, one of its labels or its checks: that
// under which fewest are, for a thousand silences of the group all may name a thousand checks.
// A condition over nodes names what it cannot hold without. What names none of them is posted
// under its namespace.
// Not safe for concurrent use.
type index[T any] struct {
	entries map[Name]*entry[T]
	posted  map[post][]*entry[T]
}

type entry[T any] struct {
	name     Name
	selector selector
	value    T
	posts    []post
}

// post is where an entry is looked for.
type post struct {
	by        kind
	namespace string // of a node, group or check; of the resource, where only that is known. Empty: any
	name      string
	value     string // of a label
}

type kind uint8

const (
	byNode kind = iota
	byGroup
	byLabel
	byCheck
	byNamespace
)

func newIndex[T any]() *index[T] {
	return &index[T]{entries: map[Name]*entry[T]{}, posted: map[post][]*entry[T]{}}
}

// set posts what is called so, in the place of what was.
func (x *index[T]) set(name Name, s *selector, value T) {
	x.remove(name)
	e := &entry[T]{name, *s, value, x.narrowest(s)}
	x.entries[name] = e
	for _, p := range e.posts {
		x.posted[p] = append(x.posted[p], e)
	}
}

func (x *index[T]) remove(name Name) {
	e := x.entries[name]
	if e == nil {
		return
	}
	delete(x.entries, name)
	for _, p := range e.posts {
		list := x.posted[p]
		i, last := slices.Index(list, e), len(list)-1
		list[i], list[last] = list[last], nil
		if x.posted[p] = list[:last]; last == 0 {
			delete(x.posted, p)
		}
	}
}

// find lists what picks the problem, by name.
func (x *index[T]) find(m *Problem) []Name {
	var found []Name
	look := func(p post) {
		for _, e := range x.posted[p] {
			if e.selector.takes(m) {
				found = append(found, e.name)
			}
		}
	}
	look(post{by: byNode, namespace: m.Node.Namespace, name: m.Node.Name})
	look(post{by: byNode, name: m.Node.Name})
	for _, g := range m.Groups {
		look(post{by: byGroup, namespace: g.Namespace, name: g.Name})
	}
	for key, value := range m.Labels {
		look(post{by: byLabel, name: key, value: value})
	}
	for _, ns := range [...]string{m.Node.Namespace, model.SharedNamespaceName} {
		look(post{by: byCheck, namespace: ns, name: m.Check().Name})
		look(post{by: byNamespace, namespace: ns})
		if ns == model.SharedNamespaceName && m.Node.Namespace == ns {
			break
		}
	}
	slices.SortFunc(found, Name.compare)
	return slices.Compact(found)
}

// narrowest is where the selector is posted: under all of what it names of one kind, of the
// kind under which fewest are by now.
func (x *index[T]) narrowest(s *selector) []post {
	best, fewest := []post{{by: byNamespace, namespace: s.namespace}}, math.MaxInt
	for _, posts := range s.names() {
		n := 0
		for _, p := range posts {
			n += len(x.posted[p])
		}
		if n < fewest {
			best, fewest = posts, n
		}
	}
	return best
}

// names are what a problem must have one of, kind by kind.
func (s *selector) names() (kinds [][]post) {
	if s.targets != nil {
		kinds = s.targets.names(s.namespace)
	}
	for _, key := range slices.Sorted(maps.Keys(s.labels)) {
		if value := s.labels[key]; value != "" { // a problem without the label has this value too
			kinds = append(kinds, []post{{by: byLabel, name: key, value: value}})
		}
	}
	if s.checks != nil {
		var list []post
		for _, c := range s.checks {
			_, name := model.SplitRef(s.namespace, c)
			list = append(list, post{by: byCheck, namespace: s.namespace, name: name})
		}
		kinds = append(kinds, unique(list))
	}
	return kinds
}

// names are what a node must have one of: what the targets list, or else one of what their
// condition needs, whichever that is.
func (t *targets) names(namespace string) (kinds [][]post) {
	var list []post
	for _, n := range t.nodes {
		list = append(list, post{by: byNode, namespace: n.Namespace, name: n.Name})
	}
	for _, g := range t.groups {
		list = append(list, post{by: byGroup, namespace: g.Namespace, name: g.Name})
	}
	if t.where == nil {
		return [][]post{unique(list)}
	}
	for _, n := range t.where.Needs() {
		switch n.Of {
		case where.Name:
			kinds = append(kinds, unique(append(list, post{by: byNode, name: n.Value})))
		case where.Label:
			kinds = append(kinds, unique(append(list, post{by: byLabel, name: n.Key, value: n.Value})))
		case where.Group:
			ns, name := model.SplitRef(namespace, n.Value)
			if namespace != model.SharedNamespaceName || strings.Contains(n.Value, "/") { // else the node's own group, of any namespace
				kinds = append(kinds, unique(append(list, post{by: byGroup, namespace: ns, name: name})))
			}
		}
	}
	return kinds
}

func unique(list []post) []post {
	seen := map[post]bool{}
	for _, p := range list {
		seen[p] = true
	}
	return slices.Collect(maps.Keys(seen))
}
