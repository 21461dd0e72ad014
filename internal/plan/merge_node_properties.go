package plan

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/wire"
)

// A property gets its value on a node through the chain global → namespace → group → node. A later level overrides an
// earlier one; two JSON objects are merged member by member, at any depth. Within a level no value overrides another:
// where two values of a level differ, the property has no value on that node but an error that names both, unless a
// later level sets one. A Property resource reaches only nodes of its own namespace, whatever its scope, unless its
// namespace is shared.

// propertyIndex has the Property resources by scope, and the checks that read each property. Properties that groups
// and nodes set in their own spec are in their definitions.
type propertyIndex struct {
	declared map[declarationKey][]*propertyDef
	sources  map[string]*propertySources // groups and resources with a value, by property
	readers  map[string][]model.UnitID   // units that read the property, by property
}

// declarationKey identifies one declaration of a property by name and scope. A scope is, for example, a group.
type declarationKey struct {
	property string
	scope    scope
}

// propertySources has the groups that set one property, and the number of nodes with their own value. It also
// counts the Property resources that set the property for single nodes. With it a look-up need not visit all
// groups of a node.
type propertySources struct {
	groups []directory.GroupID // ascending
	nodes  int
}

// newPropertyIndex returns an empty index of properties.
func newPropertyIndex() *propertyIndex {
	return &propertyIndex{declared: map[declarationKey][]*propertyDef{}, sources: map[string]*propertySources{}, readers: map[string][]model.UnitID{}}
}

// indexKey returns the property name and scope under which the index stores a Property resource. The key is the
// property's name and its scope.
func (d *propertyDef) indexKey() declarationKey { return declarationKey{d.property, d.scope} }

// add adds a Property resource to the index, and returns 1, because the index has one resource more. Like
// remove, it returns the change of the number of resources.
func (x *propertyIndex) add(d *propertyDef) int {
	x.declared[d.indexKey()] = append(x.declared[d.indexKey()], d)
	return 1
}

// remove removes a Property resource from the index, and returns -1, because the index has one resource less.
// The number is the change of the count of resources.
func (x *propertyIndex) remove(d *propertyDef) int {
	at := d.indexKey()
	x.declared[at] = slices.DeleteFunc(x.declared[at], func(o *propertyDef) bool { return o == d })
	if len(x.declared[at]) == 0 {
		delete(x.declared, at)
	}
	return -1
}

// groupsWith calls fn for each group of a node that sets a property, ascending.
func (x *propertyIndex) groupsWith(n *node, name string, fn func(directory.GroupID)) {
	s := x.sources[name]
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

// valuesAt returns the values of a property declared in one scope, for nodes of a given namespace.
func (x *propertyIndex) valuesAt(place declarationKey, ns, from string) (list []source) {
	for _, def := range x.declared[place] {
		if reachesNamespace(def.Namespace, ns) {
			list = append(list, source{def.value, fmt.Sprintf("property %s (%s)", def.Name, from), def.merge})
		}
	}
	return list
}

// nodeValues returns the values of a property that are declared for one node.
func (x *propertyIndex) nodeValues(n *node, name string) (list []source) {
	from := "node " + n.def.Name.Name
	if v, ok := n.def.properties.get(name); ok {
		list = append(list, source{value: v, from: from})
	}
	if s := x.sources[name]; s == nil || s.nodes == 0 {
		return list
	}
	for _, of := range [...]route.Name{n.def.Name, routeName("", n.def.Name.Name)} {
		list = append(list, x.valuesAt(declarationKey{name, scope{level: nodeLevel, node: of}}, n.def.Namespace, from)...)
	}
	return list
}

// updatePropertyUsers queues for recomputation all nodes whose value of a property may have changed. An edit in
// one scope changes a property.
func (f *fleet) updatePropertyUsers(p *recomputation, at declarationKey, resources int) {
	p.revalued = append(p.revalued, at)
	x := f.properties
	s := x.sources[at.property]
	if s == nil {
		s = &propertySources{}
		x.sources[at.property] = s
	}
	switch at.scope.level {
	case groupLevel:
		hasValue := len(x.declared[at]) > 0
		if g := f.group(at.scope.group); g.def != nil && !hasValue {
			_, hasValue = g.def.properties.get(at.property)
		}
		if hasValue {
			s.groups = insert(s.groups, at.scope.group)
		} else {
			s.groups = remove(s.groups, at.scope.group)
		}
	case nodeLevel:
		s.nodes += resources
	}
	if len(s.groups)+s.nodes == 0 {
		delete(x.sources, at.property)
	}
}

// source is one declared value of a property, with the name of its scope.
type source struct {
	value json.RawMessage
	from  string
	merge model.PropertyMerge
}

// resolver computes the property values of nodes, and caches shared values. It remembers the values that many nodes
// have in common.
type resolver struct {
	f    *fleet
	memo map[sharedValueKey]*wire.Property
	buf  []byte
}

// sharedValueKey is the cache key of a property value that several nodes share. The nodes belong to one namespace and to
// the same groups.
type sharedValueKey struct {
	property, ns string
	groups       string // ids of the node's groups that set the property, 4 bytes each
}

// resolver returns a resolver of property values with an empty cache.
func (f *fleet) resolver() *resolver {
	return &resolver{f: f, memo: map[sharedValueKey]*wire.Property{}}
}

// properties returns a node's values of the named properties. It leaves out properties without a value.
func (r *resolver) properties(n *node, names []string) []wire.Property {
	var list []wire.Property
	for _, name := range names {
		if v := r.property(n, name); v != nil {
			list = append(list, *v)
		}
	}
	return list
}

// property returns the value of a node's property. It returns nil if no scope declares a value.
func (r *resolver) property(n *node, name string) *wire.Property {
	switch name {
	case model.EntityProperty:
		return r.sensuEntity(n)
	case model.NodeModeProperty:
		return r.effectiveMode(n)
	}
	if own := r.f.properties.nodeValues(n, name); len(own) > 0 {
		return resolve(name, append(r.f.sharedSources(n, name), own))
	}
	r.buf = r.buf[:0]
	r.f.properties.groupsWith(n, name, func(g directory.GroupID) { r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(g)) })
	v, known := r.memo[sharedValueKey{name, n.def.Namespace, string(r.buf)}]
	if !known {
		v = resolve(name, r.f.sharedSources(n, name))
		r.memo[sharedValueKey{name, n.def.Namespace, string(r.buf)}] = v
	}
	return v
}

// declaredMode returns the declared mode of a node's directives, audit or enforce, by Rudder's precedence of
// settings. The order is a fixed mode of the namespace, audit of the node, the mode of a directive, of the
// node, of the namespace.
func (r *resolver) declaredMode(n *node) model.NodeMode {
	mode := model.NodeMode{Mode: model.ModeAudit}
	if of := r.f.namespaces[n.def.Namespace]; of != nil {
		mode.Mode = cmp.Or(of.PolicyMode.Mode, model.ModeAudit)
		if of.PolicyMode.Fixed {
			mode.Fixed = "namespace " + of.Name
		}
	}
	if mode.Fixed == "" && n.def.policyMode != "" {
		if mode.Mode = n.def.policyMode; mode.Mode == model.ModeAudit {
			mode.Fixed = "the node"
		}
	}
	return mode
}

// effectiveMode returns the mode, audit or enforce, that a node's assignment sets for the node's directives. It
// lists the directives that only audit there, because no operator chose the node for them. Nil: audit, unless a
// directive enforces.
func (r *resolver) effectiveMode(n *node) *wire.Property {
	mode := r.declaredMode(n)
	r.buf = r.buf[:0]
	for _, id := range n.units.ids {
		u := r.f.units[id].def
		if d := u.bodyFor(n.units).definition.AsDirective(); d != nil && newTrustRules(r.f).auditsOnly(u, d, &mode, n) {
			mode.Audit = append(mode.Audit, id)
			r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(id))
		}
	}
	if mode.Mode == model.ModeAudit && mode.Fixed == "" && len(mode.Audit) == 0 {
		return nil
	}
	key := sharedValueKey{property: model.NodeModeProperty, ns: mode.Mode, groups: mode.Fixed + "\x00" + string(r.buf)}
	known := r.memo[key]
	if known == nil {
		text, err := json.Marshal(mode)
		if err != nil {
			panic("BUG: encode a mode: " + err.Error())
		}
		known = &wire.Property{Name: model.NodeModeProperty, Value: text}
		r.memo[key] = known
	}
	return known
}

// sharedSources returns the values of a property that a node shares with others (global, namespace and group).
func (f *fleet) sharedSources(n *node, name string) [][]source {
	var groups []source
	x, ns := f.properties, n.def.Namespace
	x.groupsWith(n, name, func(g directory.GroupID) {
		from := "group " + f.groupNumbers.name(g).Name
		if def := f.groups[g].def; def != nil {
			if v, ok := def.properties.get(name); ok {
				groups = append(groups, source{value: v, from: from})
			}
		}
		groups = append(groups, x.valuesAt(declarationKey{name, scope{level: groupLevel, group: g}}, ns, from)...)
	})
	return [][]source{
		x.valuesAt(declarationKey{name, scope{level: globalLevel}}, ns, "global"),
		x.valuesAt(declarationKey{name, scope{level: namespaceLevel, ns: ns}}, ns, "namespace "+ns),
		groups,
	}
}

// valueConflict records a conflict in a merged property value between two scopes of the same level. Two groups,
// or other scopes of one level, set different values for the same key.
type valueConflict struct{ path, a, b string }

// jsonLeaf is a text, number, boolean, null or list inside a merged property value. It names the scope that declares
// the value.
type jsonLeaf struct {
	text  string // compact JSON
	from  string
	parts []string // texts of the lists or texts that this one joins; nil: it joins none
}

// jsonObject is a JSON object in a merged property value, with its members by name
type jsonObject map[string]any // values are of type object, leaf or clash

// resolve merges the declared values of a property, from all scopes, into the value for a node. The levels go from
// global to node. It returns nil if no level declares a value.
func resolve(name string, levels [][]source) *wire.Property {
	value := mergeLevels(name, levels)
	if value == nil {
		return nil
	}
	if c := findConflict(value); c != nil {
		return &wire.Property{Name: name, Error: fmt.Sprintf("%s has different values from %s and %s", model.Shorten(c.path), model.Shorten(c.a), model.Shorten(c.b))}
	}
	var out bytes.Buffer
	writeJSON(&out, value)
	if out.Len() > wire.MaxBody {
		return &wire.Property{Name: name, Error: fmt.Sprintf("the merged value has %d bytes on this node, the limit is %d", out.Len(), wire.MaxBody)}
	}
	return &wire.Property{Name: name, Value: out.Bytes()}
}

// maxDepth is the depth to which JSON objects are merged member by member. A deeper object counts as one value.
const maxDepth = 16

// parseTree parses a JSON value as nested objects, up to maxDepth levels. Deeper objects stay unparsed.
func parseTree(s source, depth int) any {
	if trimmed := bytes.TrimSpace(s.value); depth < maxDepth && len(trimmed) > 0 && trimmed[0] == '{' {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(trimmed, &members); err == nil {
			o := make(jsonObject, len(members))
			for key, v := range members {
				o[key] = parseTree(source{value: v, from: s.from}, depth+1)
			}
			return o
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, s.value); err != nil || compact.Len() == 0 {
		return jsonLeaf{text: "null", from: s.from} // apply refuses invalid JSON
	}
	return jsonLeaf{text: compact.String(), from: s.from}
}

// mergeValues merges two JSON values of the same scope level, such as of two groups. Different values become a
// conflict.
func mergeValues(path string, a, b any) any {
	if a == nil {
		return b
	}
	x, xIs := a.(jsonObject)
	y, yIs := b.(jsonObject)
	if xIs && yIs {
		for _, key := range slices.Sorted(maps.Keys(y)) {
			x[key] = mergeValues(path+"."+key, x[key], y[key])
		}
		return x
	}
	if c, is := a.(valueConflict); is {
		return c
	}
	p, pIs := a.(jsonLeaf)
	q, qIs := b.(jsonLeaf)
	if pIs && qIs && p.text == q.text {
		return a
	}
	return valueConflict{path, originOf(a), originOf(b)}
}

// overrideTree merges a JSON value of a narrower scope over the value of a wider scope. A node is narrower than a
// group, for example. Objects are merged key by key. It may change both trees.
func overrideTree(under, over any, mode model.PropertyMerge) any {
	if over == nil {
		return under
	}
	x, xIs := under.(jsonObject)
	y, yIs := over.(jsonObject)
	switch {
	case xIs && yIs && mode.Objects != model.MergeOverride:
		for key, v := range y {
			x[key] = overrideTree(x[key], v, mode)
		}
		return x
	case xIs || yIs:
		return over
	}
	a, aIs := under.(jsonLeaf)
	b, bIs := over.(jsonLeaf)
	if !aIs || !bIs {
		return over
	}
	return joinLeaves(a, b, mode)
}

// joinLeaves joins two lists or texts from a wider and a narrower scope by the mode of inheritance. Other values
// replace the wider one.
func joinLeaves(under, over jsonLeaf, mode model.PropertyMerge) jsonLeaf {
	how, separator := "", ""
	switch kind := string(under.text[0]) + string(over.text[0]); {
	case kind == "[[":
		how, separator = mode.Lists, ","
	case kind == `""`:
		how = mode.Texts
	}
	first, second := under, over
	switch how {
	case model.MergePrepend:
		first, second = over, under
	case model.MergeAppend:
	default:
		return over
	}
	if first.text == "[]" || second.text == "[]" {
		separator = ""
	}
	out := jsonLeaf{text: first.text[:len(first.text)-1] + separator + second.text[1:], from: over.from}
	for _, leaf := range []jsonLeaf{under, over} {
		if out.parts = append(out.parts, leaf.parts...); leaf.parts == nil {
			out.parts = append(out.parts, leaf.text)
		}
	}
	return out
}

// originOf names the scope that declares a value, such as "group web", for an error message
func originOf(v any) string {
	switch v := v.(type) {
	case jsonLeaf:
		return v.from
	case valueConflict:
		return v.a
	case jsonObject:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			return originOf(v[key])
		}
	}
	return "an empty object"
}

// findConflict finds two scopes of the same level (such as two groups) that declare different property values. It
// returns nil if there is no conflict.
func findConflict(v any) *valueConflict {
	switch v := v.(type) {
	case valueConflict:
		return &v
	case jsonObject:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if c := findConflict(v[key]); c != nil {
				return c
			}
		}
	}
	return nil
}

// writeJSON writes a merged property value as compact JSON with sorted members. So equal values have equal bytes.
func writeJSON(out *bytes.Buffer, v any) {
	switch v := v.(type) {
	case jsonLeaf:
		out.WriteString(v.text)
	case jsonObject:
		out.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				out.WriteByte(',')
			}
			quoted, _ := json.Marshal(key) // a string always encodes
			out.Write(quoted)
			out.WriteByte(':')
			writeJSON(out, v[key])
		}
		out.WriteByte('}')
	}
}
