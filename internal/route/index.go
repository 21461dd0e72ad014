package route

import (
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// index finds, of many things that pick problems, those that pick this one. Each is posted
// under the narrowest that it names: its nodes and groups, else a label, else its checks,
// else its namespace. A condition over nodes names none of them, and is asked each time.
// Not safe for concurrent use.
type index[T any] struct {
	entries map[Name]*entry[T]
	posted  map[post]map[Name]*entry[T]
}

type entry[T any] struct {
	selector *selector
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
	return &index[T]{entries: map[Name]*entry[T]{}, posted: map[post]map[Name]*entry[T]{}}
}

// set posts what is called so, in the place of what was.
func (x *index[T]) set(name Name, s *selector, value T) {
	x.remove(name)
	e := &entry[T]{s, value, s.posts()}
	x.entries[name] = e
	for _, p := range e.posts {
		if x.posted[p] == nil {
			x.posted[p] = map[Name]*entry[T]{}
		}
		x.posted[p][name] = e
	}
}

func (x *index[T]) remove(name Name) {
	e := x.entries[name]
	if e == nil {
		return
	}
	delete(x.entries, name)
	for _, p := range e.posts {
		if delete(x.posted[p], name); len(x.posted[p]) == 0 {
			delete(x.posted, p)
		}
	}
}

// find lists what picks the problem, by name.
func (x *index[T]) find(m *Matter) []Name {
	var found []Name
	look := func(p post) {
		for name, e := range x.posted[p] {
			if e.selector.takes(m) {
				found = append(found, name)
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
		look(post{by: byCheck, namespace: ns, name: m.Check.Name})
		look(post{by: byNamespace, namespace: ns})
		if ns == model.SharedNamespaceName && m.Node.Namespace == ns {
			break
		}
	}
	slices.SortFunc(found, Name.compare)
	return slices.Compact(found)
}

// posts are where the selector is found for every problem that it takes.
func (s *selector) posts() (list []post) {
	if t := s.targets; t != nil && t.where == nil {
		for _, n := range t.nodes {
			list = append(list, post{by: byNode, namespace: n.Namespace, name: n.Name})
		}
		for _, g := range t.groups {
			list = append(list, post{by: byGroup, namespace: g.Namespace, name: g.Name})
		}
		return unique(list)
	}
	for key, value := range s.labels {
		return []post{{by: byLabel, name: key, value: value}}
	}
	if s.checks == nil {
		return []post{{by: byNamespace, namespace: s.namespace}}
	}
	for _, c := range s.checks {
		_, name := model.SplitRef(s.namespace, c)
		list = append(list, post{by: byCheck, namespace: s.namespace, name: name})
	}
	return unique(list)
}

func unique(list []post) []post {
	seen := map[post]bool{}
	for _, p := range list {
		seen[p] = true
	}
	return slices.Collect(maps.Keys(seen))
}
