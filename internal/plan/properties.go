package plan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// The value of a property on a node comes through the chain global → namespace →
// group → node. A later level wins; two JSON objects are merged member by member,
// all the way down. Within a level nobody wins: where two say different things, the
// property has no value on that node but an error that names both, unless a later
// level settles it. A Property resource reaches only nodes of its own namespace,
// whatever its scope, unless it is in the namespace "shared".

// source is one place that gives a value.
type source struct {
	value json.RawMessage
	from  string // for people
}

// resolver finds values for one pass and remembers what nodes have in common.
type resolver struct {
	f    *fleet
	memo map[commonKey]*wire.Property
	buf  []byte
}

// commonKey names one value that nodes share because they give none themselves.
type commonKey struct {
	property, ns string
	groups       string // those of the node that give the property a value, 4 bytes each
}

func (f *fleet) resolver() *resolver {
	return &resolver{f: f, memo: map[commonKey]*wire.Property{}}
}

// properties are the values that a node has for names; what is unset is left out.
func (r *resolver) properties(n *node, names []string) []wire.Property {
	var list []wire.Property
	for _, name := range names {
		if v := r.property(n, name); v != nil {
			list = append(list, *v)
		}
	}
	return list
}

func (r *resolver) property(n *node, name string) *wire.Property {
	own := r.f.ofNode(n, name)
	if len(own) > 0 {
		return resolve(name, append(r.f.common(n, name), own))
	}
	r.buf = r.buf[:0]
	r.f.groupsWith(n, name, func(g gid) { r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(g)) })
	v, known := r.memo[commonKey{name, n.def.ns, string(r.buf)}]
	if !known {
		v = resolve(name, r.f.common(n, name))
		r.memo[commonKey{name, n.def.ns, string(r.buf)}] = v
	}
	return v
}

// revalue notes that the value of a property at one place may differ, in the pass and in
// the index of places, where so many Property resources were added.
func (f *fleet) revalue(p *pass, at propertyPlace, resources int) {
	p.reread = append(p.reread, at)
	s := f.sources[at.property]
	if s == nil {
		s = &propertySources{}
		f.sources[at.property] = s
	}
	switch at.scope.level {
	case grouped:
		given := len(f.properties[at]) > 0
		if g := f.group(at.scope.group); g.def != nil && !given {
			_, given = g.def.props.get(at.property)
		}
		if given {
			s.groups = insert(s.groups, at.scope.group)
		} else {
			s.groups = remove(s.groups, at.scope.group)
		}
	case ofNode:
		s.nodes += resources
	}
	if len(s.groups)+s.nodes == 0 {
		delete(f.sources, at.property)
	}
}

// groupsWith calls fn for the groups of a node that give a property a value, ascending.
func (f *fleet) groupsWith(n *node, name string, fn func(gid)) {
	s := f.sources[name]
	if s == nil {
		return
	}
	few, many := s.groups, n.groups.ids
	if len(few) > len(many) {
		few, many = many, few
	}
	for _, g := range few {
		if _, both := slices.BinarySearch(many, g); both {
			fn(g)
		}
	}
}

// common are the levels above the node.
func (f *fleet) common(n *node, name string) [][]source {
	var groups []source
	f.groupsWith(n, name, func(g gid) {
		from := "group " + f.gids.ref(g).name
		if def := f.groups[g].def; def != nil {
			if v, ok := def.props.get(name); ok {
				groups = append(groups, source{v, from})
			}
		}
		groups = append(groups, f.declared(n, propertyPlace{name, scope{level: grouped, group: g}}, from)...)
	})
	return [][]source{
		f.declared(n, propertyPlace{name, scope{level: global}}, "global"),
		f.declared(n, propertyPlace{name, scope{level: namespaced, ns: n.def.ns}}, "namespace "+n.def.ns),
		groups,
	}
}

func (f *fleet) ofNode(n *node, name string) (list []source) {
	if v, ok := n.def.props.get(name); ok {
		list = append(list, source{v, "node " + n.def.name})
	}
	if s := f.sources[name]; s == nil || s.nodes == 0 {
		return list
	}
	for _, r := range [...]ref{n.def.ref, {"", n.def.name}} {
		list = append(list, f.declared(n, propertyPlace{name, scope{level: ofNode, node: r}}, "node "+n.def.name)...)
	}
	return list
}

// declared are the Property resources at one place that may reach the node.
func (f *fleet) declared(n *node, at propertyPlace, from string) (list []source) {
	for _, def := range f.properties[at] {
		if inScope(def.ns, n.def.ns) {
			list = append(list, source{def.value, fmt.Sprintf("property %s (%s)", def.ref, from)})
		}
	}
	return list
}

// clash stands in a value tree where two sources of one level differ.
type clash struct{ path, a, b string }

// leaf remembers who gave a value, for the sentence about a clash.
type leaf struct {
	text string // compact JSON
	from string
}

type object map[string]any // of object, leaf or clash

// resolve merges the levels; nil where nobody says anything.
func resolve(name string, levels [][]source) *wire.Property {
	value := merged(name, levels)
	if value == nil {
		return nil
	}
	if c := firstClash(value); c != nil {
		return &wire.Property{Name: name, Error: fmt.Sprintf("%s is set differently by %s and by %s", model.Shorten(c.path), model.Shorten(c.a), model.Shorten(c.b))}
	}
	var out bytes.Buffer
	write(&out, value)
	if out.Len() > wire.MaxBody {
		return &wire.Property{Name: name, Error: fmt.Sprintf("all that is said of it together has %d bytes here, at most %d", out.Len(), wire.MaxBody)}
	}
	return &wire.Property{Name: name, Value: out.Bytes()}
}

// maxDepth is how deep objects are merged; what lies deeper is one value.
const maxDepth = 16

func tree(s source, depth int) any {
	if trimmed := bytes.TrimSpace(s.value); depth < maxDepth && len(trimmed) > 0 && trimmed[0] == '{' {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(trimmed, &members); err == nil {
			o := make(object, len(members))
			for key, v := range members {
				o[key] = tree(source{v, s.from}, depth+1)
			}
			return o
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, s.value); err != nil || compact.Len() == 0 {
		return leaf{"null", s.from} // apply refuses what is not JSON
	}
	return leaf{compact.String(), s.from}
}

// join merges two sources of one level.
func join(path string, a, b any) any {
	if a == nil {
		return b
	}
	x, xIs := a.(object)
	y, yIs := b.(object)
	if xIs && yIs {
		for _, key := range slices.Sorted(maps.Keys(y)) {
			x[key] = join(path+"."+key, x[key], y[key])
		}
		return x
	}
	if c, is := a.(clash); is {
		return c
	}
	p, pIs := a.(leaf)
	q, qIs := b.(leaf)
	if pIs && qIs && p.text == q.text {
		return a
	}
	return clash{path, origin(a), origin(b)}
}

// override lays a later level over an earlier one. Both trees are ours to change.
func override(under, over any) any {
	if over == nil {
		return under
	}
	x, xIs := under.(object)
	y, yIs := over.(object)
	if !xIs || !yIs {
		return over
	}
	for key, v := range y {
		x[key] = override(x[key], v)
	}
	return x
}

func origin(v any) string {
	switch v := v.(type) {
	case leaf:
		return v.from
	case clash:
		return v.a
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			return origin(v[key])
		}
	}
	return "an empty object"
}

func firstClash(v any) *clash {
	switch v := v.(type) {
	case clash:
		return &v
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if c := firstClash(v[key]); c != nil {
				return c
			}
		}
	}
	return nil
}

// write prints compact JSON with members in order: equal values are equal bytes.
func write(out *bytes.Buffer, v any) {
	switch v := v.(type) {
	case leaf:
		out.WriteString(v.text)
	case object:
		out.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				out.WriteByte(',')
			}
			quoted, _ := json.Marshal(key) // a string always encodes
			out.Write(quoted)
			out.WriteByte(':')
			write(out, v[key])
		}
		out.WriteByte('}')
	}
}
