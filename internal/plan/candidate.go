package plan

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// Candidate is one node as a condition sees it. It is reused from node to node, so
// that matching a fleet does not allocate an activation for each: Set, then Match.
// Not safe for concurrent use.
type Candidate struct {
	name, namespace types.String
	labels, facts   pairMap
	groups          traits.Lister
	// The same as interfaces: made once.
	boxedLabels, boxedFacts celref.Val
	boxedName, boxedNS      celref.Val
}

var _ interpreter.Activation = (*Candidate)(nil)

// NewCandidate makes an empty one.
func NewCandidate() *Candidate {
	c := &Candidate{}
	c.boxedLabels, c.boxedFacts = &c.labels, &c.facts
	c.boxedName, c.boxedNS = types.String(""), types.String("")
	c.groups = types.NewStringList(types.DefaultTypeAdapter, nil)
	return c
}

// Set makes it show a node.
func (c *Candidate) Set(namespace, name string, labels, facts map[string]string, groups []string) {
	c.set(namespace, name, makePairs(labels), makePairs(facts))
	c.setGroups(groups)
}

func (c *Candidate) set(namespace, name string, labels, facts pairs) {
	if string(c.namespace) != namespace {
		c.namespace = types.String(namespace)
		c.boxedNS = c.namespace
	}
	c.name = types.String(name)
	c.boxedName = nil // made when asked for: few conditions read it
	c.labels.pairs, c.facts.pairs = labels, facts
}

func (c *Candidate) setGroups(groups []string) {
	c.groups = types.NewStringList(types.DefaultTypeAdapter, groups)
}

// ResolveName implements interpreter.Activation.
func (c *Candidate) ResolveName(name string) (any, bool) {
	switch name {
	case "node.labels":
		return c.boxedLabels, true
	case "node.facts":
		return c.boxedFacts, true
	case "node.name":
		if c.boxedName == nil {
			c.boxedName = c.name
		}
		return c.boxedName, true
	case "node.namespace":
		return c.boxedNS, true
	case "node.groups":
		return c.groups, true
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (c *Candidate) Parent() interpreter.Activation { return nil }

// pairMap shows pairs to CEL as a map of strings in which what is missing reads as
// "". It is deliberately no traits.Mapper: of a Mapper CEL asks Find, for which
// missing is an error.
type pairMap struct{ pairs pairs }

var (
	_ traits.Indexer     = (*pairMap)(nil)
	_ traits.FieldTester = (*pairMap)(nil)
	_ traits.Container   = (*pairMap)(nil)
	_ traits.Sizer       = (*pairMap)(nil)
	_ traits.Iterable    = (*pairMap)(nil)
)

// Get implements traits.Indexer.
func (m *pairMap) Get(index celref.Val) celref.Val {
	key, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	value, _ := m.pairs.get(string(key))
	return types.String(value)
}

// IsSet implements traits.FieldTester: has(node.labels.x).
func (m *pairMap) IsSet(field celref.Val) celref.Val { return m.Contains(field) }

// Contains implements traits.Container: "x" in node.labels.
func (m *pairMap) Contains(value celref.Val) celref.Val {
	key, ok := value.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	_, found := m.pairs.get(string(key))
	return types.Bool(found)
}

// Size implements traits.Sizer.
func (m *pairMap) Size() celref.Val { return types.Int(len(m.pairs)) }

// Iterator implements traits.Iterable: over the keys, as CEL does.
func (m *pairMap) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, m.keys()).Iterator()
}

func (m *pairMap) keys() []string {
	keys := make([]string, len(m.pairs))
	for i, p := range m.pairs {
		keys[i] = p.key.Value()
	}
	return keys
}

// ConvertToNative implements celref.Val.
func (m *pairMap) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return m.pairs.toMap(), nil
	}
	return nil, fmt.Errorf("labels do not convert to %s", t)
}

// ConvertToType implements celref.Val.
func (m *pairMap) ConvertToType(t celref.Type) celref.Val {
	if t == types.TypeType {
		return types.MapType
	}
	return types.NewErr("labels do not convert to %s", t.TypeName())
}

// Equal implements celref.Val: with a map literal, or the other of labels and facts.
func (m *pairMap) Equal(other celref.Val) celref.Val {
	if o, ok := other.(*pairMap); ok {
		other = types.DefaultTypeAdapter.NativeToValue(o.pairs.toMap())
	}
	return types.DefaultTypeAdapter.NativeToValue(m.pairs.toMap()).Equal(other)
}

// Type implements celref.Val.
func (m *pairMap) Type() celref.Type { return types.MapType }

// Value implements celref.Val.
func (m *pairMap) Value() any { return m.pairs.toMap() }
