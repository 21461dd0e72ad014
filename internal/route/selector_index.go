package route

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// selector is a compiled model.Selector, which selects problems. Names in the selector are resolved in one namespace.
// A problem must meet all of its criteria.
type selector struct {
	namespace string
	targets   *targets // nil: all nodes (of the namespace; of all namespaces in shared)
	checks    []string // nil: all checks
	statuses  [4]bool  // all false: all statuses
	severity  model.Severity
	labels    map[string]string
	where     *where.CompiledCondition // condition over the problem; nil: none
}

// targets is a compiled model.Targets, which selects nodes by names, groups and a condition.
type targets struct {
	groups []Name
	nodes  []Name // listed nodes; without a namespace: the node of that name in any namespace
	where  *where.Condition
	except *targets
}

// compileSelector compiles a selector in a resource, for problems of the resource's namespace.
func compileSelector(namespace string, s *model.Selector) (*selector, error) {
	c := &selector{namespace: namespace}
	if s == nil {
		return c, nil
	}
	c.checks, c.labels = s.Checks, s.Labels
	for _, word := range s.Statuses {
		status, ok := model.ParseStatus(word)
		if !ok {
			return nil, model.Errorf(model.Invalid, "unknown status %q", word).WithHint("write warning, critical or unknown")
		}
		c.statuses[status] = true
	}
	if s.Severity != "" {
		severity, ok := model.ParseSeverity(s.Severity)
		if !ok {
			return nil, model.Errorf(model.Invalid, "unknown severity %q", s.Severity)
		}
		c.severity = severity
	}
	var err error
	if s.Where != "" {
		if c.where, err = problemConditions.Compile(s.Where); err != nil {
			return nil, err
		}
	}
	c.targets, err = compileTargets(namespace, s.Targets)
	return c, err
}

// compileTargets compiles the targets of a resource, whose plain names belong to the resource's namespace.
func compileTargets(namespace string, t *model.Targets) (*targets, error) {
	if t == nil {
		return nil, nil
	}
	c := &targets{}
	for _, g := range t.Groups {
		ns, name := model.SplitRef(namespace, g)
		c.groups = append(c.groups, Name{ns, name})
	}
	for _, n := range t.Nodes {
		ns, name := model.SplitRef(namespace, n)
		if namespace == model.SharedNamespaceName && ns == namespace {
			ns = ""
		}
		c.nodes = append(c.nodes, Name{ns, name})
	}
	var err error
	if t.Where != "" {
		if c.where, err = where.Compile(t.Where); err != nil {
			return nil, err
		}
	}
	c.except, err = compileTargets(namespace, t.Except)
	return c, err
}

// matches reports whether the selector matches a problem.
func (s *selector) matches(m *Problem) bool {
	if s.namespace != m.Node.Namespace && s.namespace != model.SharedNamespaceName {
		return false
	}
	if m.Severity < s.severity || s.statuses != [4]bool{} && !s.statuses[m.Status&3] {
		return false
	}
	if s.checks != nil && !slices.ContainsFunc(s.checks, m.hasCheck) {
		return false
	}
	for key, value := range s.labels {
		if m.label(key) != value {
			return false
		}
	}
	return (s.targets == nil || s.targets.includes(m)) && (s.where == nil || s.where.Evaluate(m))
}

// includes reports whether the targets select the problem's node.
func (t *targets) includes(m *Problem) bool {
	chosen := slices.ContainsFunc(t.nodes, func(n Name) bool {
		return n.Name == m.Node.Name && (n.Namespace == "" || n.Namespace == m.Node.Namespace)
	}) ||
		slices.ContainsFunc(t.groups, func(g Name) bool { return slices.Contains(m.Groups, g) }) ||
		t.where != nil && m.satisfiesCondition(t.where)
	return chosen && (t.except == nil || !t.except.includes(m))
}

// index maps selectors to values of type T, and finds all entries whose selector matches a problem. A selector is
// stored under the keys of only one of its criteria: its nodes and groups, one of its labels, or its checks. The
// index takes the criterion with the fewest selectors, because a thousand silences of the group "all" may each name
// another check. A condition over nodes adds the values that it requires. A selector without criteria is stored under
// its namespace; an entry without a selector is found by its name alone. It is not safe for concurrent use.
type index[T any] struct {
	entries map[Name]*entry[T]
	byKey   map[indexKey][]*entry[T]
}

// entry is one entry of the index, a selector with its name and its value. It also has the index keys under which it
// is stored.
type entry[T any] struct {
	name     Name
	selector *selector // nil: the entry matches no problem
	value    T
	keys     []indexKey
}

// indexKey is one value in a selector, such as a check name, by which the index finds selectors. By these
// values the index finds selectors.
type indexKey struct {
	by        kind
	namespace string // of a node, group or check, or else of the selector's resource; empty: any
	name      string
	value     string // value of a label
}

// kind is the kind of an index key, such as check, label or node.
type kind uint8

const (
	byNode kind = iota
	byGroup
	byLabel
	byCheck
	byNamespace
)

// newIndex returns an empty index.
func newIndex[T any]() *index[T] {
	return &index[T]{entries: map[Name]*entry[T]{}, byKey: map[indexKey][]*entry[T]{}}
}

// set compiles a selector and stores the result with a value under a name. A nil selector matches no problem. An error
// leaves the former value.
func (x *index[T]) set(name Name, selects *model.Selector, value T) error {
	var compiled *selector
	if selects != nil {
		var err error
		if compiled, err = compileSelector(name.Namespace, selects); err != nil {
			return err
		}
	}
	x.put(name, compiled, value)
	return nil
}

// put stores a compiled selector with its value under a name, and replaces an earlier entry.
func (x *index[T]) put(name Name, selects *selector, value T) {
	e := &entry[T]{name: name, selector: selects, value: value}
	x.remove(name)
	x.entries[name] = e
	if e.selector != nil {
		e.keys = x.rarestCriterion(e.selector)
	}
	for _, p := range e.keys {
		x.byKey[p] = append(x.byKey[p], e)
	}
}

// remove removes the selector with the given name from the index.
func (x *index[T]) remove(name Name) {
	e := x.entries[name]
	if e == nil {
		return
	}
	delete(x.entries, name)
	for _, p := range e.keys {
		list := x.byKey[p]
		i, last := slices.Index(list, e), len(list)-1
		list[i], list[last] = list[last], nil
		if x.byKey[p] = list[:last]; last == 0 {
			delete(x.byKey, p)
		}
	}
}

// find returns all entries of the index whose selector matches a problem, sorted by name.
func (x *index[T]) find(m *Problem) []*entry[T] {
	var found []*entry[T]
	addMatches := func(p indexKey) {
		for _, e := range x.byKey[p] {
			if e.selector.matches(m) {
				found = append(found, e)
			}
		}
	}
	addMatches(indexKey{by: byNode, namespace: m.Node.Namespace, name: m.Node.Name})
	addMatches(indexKey{by: byNode, name: m.Node.Name})
	for _, g := range m.Groups {
		addMatches(indexKey{by: byGroup, namespace: g.Namespace, name: g.Name})
	}
	for _, labels := range [...]map[string]string{m.Labels, m.Tags} { // a tag hides a label of the node from selectors, not from conditions
		for key, value := range labels {
			addMatches(indexKey{by: byLabel, name: key, value: value})
		}
	}
	for _, ns := range [...]string{m.Node.Namespace, model.SharedNamespaceName} {
		addMatches(indexKey{by: byCheck, namespace: ns, name: m.title()})
		addMatches(indexKey{by: byNamespace, namespace: ns})
		if ns == model.SharedNamespaceName && m.Node.Namespace == ns {
			break
		}
	}
	slices.SortFunc(found, func(a, b *entry[T]) int { return a.name.compare(b.name) })
	return slices.Compact(found)
}

// rarestCriterion returns the keys of the selector criterion under which the index has the fewest selectors.
// Under those keys the index has the fewest selectors so far.
func (x *index[T]) rarestCriterion(s *selector) []indexKey {
	best, fewest := []indexKey{{by: byNamespace, namespace: s.namespace}}, math.MaxInt
	for _, posts := range s.criteria() {
		n := 0
		for _, p := range posts {
			n += len(x.byKey[p])
		}
		if n < fewest {
			best, fewest = posts, n
		}
	}
	return best
}

// criteria returns one list of index keys per criterion of a selector, such as checks or labels. Each matching problem
// has at least one key of every list.
func (s *selector) criteria() (kinds [][]indexKey) {
	if s.targets != nil {
		kinds = s.targets.criteria(s.namespace)
	}
	for _, key := range slices.Sorted(maps.Keys(s.labels)) {
		if value := s.labels[key]; value != "" { // an empty value also matches problems without the label
			kinds = append(kinds, []indexKey{{by: byLabel, name: key, value: value}})
		}
	}
	if s.checks != nil {
		var list []indexKey
		for _, c := range s.checks {
			_, name := model.SplitRef(s.namespace, c)
			list = append(list, indexKey{by: byCheck, namespace: s.namespace, name: name})
		}
		kinds = append(kinds, uniqueKeys(list))
	}
	return kinds
}

// criteria returns the keys under which the index can find targets, from nodes, groups and the CEL condition.
func (t *targets) criteria(namespace string) (kinds [][]indexKey) {
	var list []indexKey
	for _, n := range t.nodes {
		list = append(list, indexKey{by: byNode, namespace: n.Namespace, name: n.Name})
	}
	for _, g := range t.groups {
		list = append(list, indexKey{by: byGroup, namespace: g.Namespace, name: g.Name})
	}
	if t.where == nil {
		return [][]indexKey{uniqueKeys(list)}
	}
	for _, n := range t.where.IndexTerms() {
		switch n.Of {
		case where.Name:
			kinds = append(kinds, uniqueKeys(append(list, indexKey{by: byNode, name: n.Value})))
		case where.Label:
			kinds = append(kinds, uniqueKeys(append(list, indexKey{by: byLabel, name: n.Key, value: n.Value})))
		case where.Group:
			ns, name := model.SplitRef(namespace, n.Value)
			if namespace != model.SharedNamespaceName || strings.Contains(n.Value, "/") {
				kinds = append(kinds, uniqueKeys(append(list, indexKey{by: byGroup, namespace: ns, name: name})))
			}
		}
	}
	return kinds
}

// uniqueKeys returns index keys without duplicates.
func uniqueKeys(list []indexKey) []indexKey {
	seen := map[indexKey]bool{}
	for _, p := range list {
		seen[p] = true
	}
	return slices.Collect(maps.Keys(seen))
}
