package where

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unique"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/model"
)

// Node holds one node's name, labels, facts and groups as CEL variables of a condition. One Node is reused for a
// whole fleet, so that matching allocates no activation per node: Set, then Match. Not safe for concurrent use.
type Node struct {
	name, namespace types.String
	labels, facts   pairMap
	groups          traits.Lister
	// the values as interfaces, allocated once
	boxedLabels, boxedFacts celref.Val
	boxedName, boxedNS      celref.Val

	terms    []*EntryTerm
	hasEntry func(*EntryTerm) (found, known bool)
}

var _ interpreter.Activation = (*Node)(nil)

// NewNode returns an empty Node.
func NewNode() *Node {
	n := &Node{}
	n.boxedLabels, n.boxedFacts = &n.labels, &n.facts
	n.boxedName, n.boxedNS = types.String(""), types.String("")
	n.groups = types.NewStringList(types.DefaultTypeAdapter, nil)
	return n
}

// Set sets a node's namespace, name, labels and facts. Groups stay as they were; see SetGroups.
func (n *Node) Set(namespace, name string, labels, facts Pairs) {
	if string(n.namespace) != namespace {
		n.namespace = types.String(namespace)
		n.boxedNS = n.namespace
	}
	n.name = types.String(name)
	n.boxedName = nil // boxed at first use: few conditions read it
	n.labels.pairs, n.facts.pairs = labels, facts
}

// SetGroups sets a node's groups.
func (n *Node) SetGroups(groups []string) {
	n.groups = types.NewStringList(types.DefaultTypeAdapter, groups)
}

// SetInventory sets the function that decides whether the node's inventory satisfies an exists() or all() term.
// It reports whether an entry of the node's inventory matches the term. known is false if the node has no
// inventory: a condition that the term would decide is then false, whatever the term is.
func (n *Node) SetInventory(hasEntry func(*EntryTerm) (found, known bool)) { n.hasEntry = hasEntry }

// errNoInventory is the value of inventory terms for a node without inventory.
var errNoInventory = types.NewErr("the node has no inventory")

// UseTerms sets the exists() and all() terms over inventories that the next evaluation uses.
func (n *Node) UseTerms(terms []*EntryTerm) { n.terms = terms }

// nodeVariables declares the CEL variables of a node, such as node.labels.
func nodeVariables() []cel.EnvOption {
	pairs := cel.MapType(cel.StringType, cel.StringType)
	return []cel.EnvOption{
		cel.Variable("node.name", cel.StringType),
		cel.Variable("node.namespace", cel.StringType),
		cel.Variable("node.labels", pairs),
		cel.Variable("node.facts", pairs),
		cel.Variable("node.groups", cel.ListType(cel.StringType)),
	}
}

// ResolveName returns the value of a CEL variable of the node.
func (n *Node) ResolveName(name string) (any, bool) {
	switch name {
	case "node.labels":
		return n.boxedLabels, true
	case "node.facts":
		return n.boxedFacts, true
	case "node.name":
		if n.boxedName == nil {
			n.boxedName = n.name
		}
		return n.boxedName, true
	case "node.namespace":
		return n.boxedNS, true
	case "node.groups":
		return n.groups, true
	}
	for _, t := range n.terms {
		if t.variable == name {
			if n.hasEntry == nil {
				return errNoInventory, true
			}
			found, known := n.hasEntry(t)
			if !known {
				return errNoInventory, true
			}
			return types.Bool(found != t.all), true
		}
	}
	return nil, false
}

// Parent returns nil, because a node has no outer scope of variables.
func (n *Node) Parent() interpreter.Activation { return nil }

// pairMap presents labels or facts to CEL as a map of strings. A missing key has the value "". pairMap does not
// implement traits.Mapper: CEL would then call Find, for which a missing key is an error.
type pairMap struct{ pairs Pairs }

// TextMap returns labels as the value of a CEL variable. A missing key has the value "".
func TextMap(labels map[string]string) celref.Val { return &pairMap{MakePairs(labels)} }

var (
	_ traits.Indexer     = (*pairMap)(nil)
	_ traits.FieldTester = (*pairMap)(nil)
	_ traits.Container   = (*pairMap)(nil)
	_ traits.Sizer       = (*pairMap)(nil)
	_ traits.Iterable    = (*pairMap)(nil)
)

// Get returns the value of a label or fact, or "" for a missing key.
func (m *pairMap) Get(index celref.Val) celref.Val {
	key, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	value, _ := m.pairs.Get(string(key))
	return types.String(value)
}

// IsSet evaluates an expression such as has(node.labels.x). It reports whether the key exists.
func (m *pairMap) IsSet(field celref.Val) celref.Val { return m.Contains(field) }

// Contains reports whether labels or facts have a key, for CEL expressions such as "x" in node.labels.
func (m *pairMap) Contains(value celref.Val) celref.Val {
	key, ok := value.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	_, found := m.pairs.Get(string(key))
	return types.Bool(found)
}

// Size returns the number of labels or facts.
func (m *pairMap) Size() celref.Val { return types.Int(len(m.pairs)) }

// Iterator iterates over the keys of labels or facts, as CEL maps do.
func (m *pairMap) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, m.keys()).Iterator()
}

// keys returns the keys of the labels or facts.
func (m *pairMap) keys() []string {
	keys := make([]string, len(m.pairs))
	for i, p := range m.pairs {
		keys[i] = p.Key.Value()
	}
	return keys
}

// ConvertToNative converts labels or facts to a Go map.
func (m *pairMap) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return m.pairs.Map(), nil
	}
	return nil, fmt.Errorf("cannot convert a map of labels or facts to %s", t)
}

// ConvertToType returns the CEL type map, or an error for any other target type.
func (m *pairMap) ConvertToType(t celref.Type) celref.Val {
	if t == types.TypeType {
		return types.MapType
	}
	return types.NewErr("cannot convert labels to %s", t.TypeName())
}

// Equal reports whether labels or facts equal another map.
func (m *pairMap) Equal(other celref.Val) celref.Val {
	if o, ok := other.(*pairMap); ok {
		other = types.DefaultTypeAdapter.NativeToValue(o.pairs.Map())
	}
	return types.DefaultTypeAdapter.NativeToValue(m.pairs.Map()).Equal(other)
}

// Type returns the CEL type of labels and facts, which is a map.
func (m *pairMap) Type() celref.Type { return types.MapType }

// Value returns labels or facts as a Go value, for CEL.
func (m *pairMap) Value() any { return m.pairs.Map() }

// readsPairs reports whether the text of a condition mentions labels or facts. Then its error gets a hint about labels
// and facts.
func readsPairs(expr string) bool {
	return strings.Contains(expr, "node.facts") || strings.Contains(expr, "node.labels")
}

// orderOperators lists the comparisons that differ between texts and numbers, such as <.
var orderOperators = [...]string{operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals}

// refuseQuotedNumbers returns an error for a comparison such as < with a quoted number. As text "16" sorts before "4".
func (l *Language) refuseQuotedNumbers(checked *cel.Ast) error {
	var found error
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if found != nil || e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		for _, o := range orderOperators {
			if call.FunctionName() != o || len(call.Args()) != 2 {
				continue
			}
			for _, arg := range call.Args() {
				if arg.Kind() != ast.LiteralKind {
					continue
				}
				text, ok := arg.AsLiteral().(types.String)
				if _, err := strconv.ParseFloat(string(text), 64); !ok || err != nil {
					continue
				}
				what := "int"
				if strings.Contains(string(text), ".") {
					what = "double"
				}
				found = model.Errorf(model.Invalid, "where: the quoted number %q is compared as text, and \"16\" sorts before \"4\" as text", string(text)).
					WithHint("compare numbers: %s(…) on one side and %s without quotes on the other, for example int(node.facts.cpus) > 4", what, string(text))
				return
			}
		}
	}))
	return found
}

// Pair is a label or fact whose texts are stored once for all nodes. Nodes with equal texts share both halves, so a
// fleet of equal machines costs 16 bytes per label.
type Pair struct{ Key, Value unique.Handle[string] }

// Pairs is a list of labels or facts, sorted by key. Immutable.
type Pairs []Pair

// MakePairs converts a map of labels or facts to sorted pairs, and stores equal strings only once.
func MakePairs(m map[string]string) Pairs {
	if len(m) == 0 {
		return nil
	}
	p := make(Pairs, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p = append(p, Pair{unique.Make(key), unique.Make(m[key])})
	}
	return p
}

// Get returns the value of a label or fact by its key.
func (p Pairs) Get(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(p, key, func(x Pair, key string) int { return strings.Compare(x.Key.Value(), key) })
	if !ok {
		return "", false
	}
	return p[i].Value.Value(), true
}

// Map returns a copy of the pairs as a map.
func (p Pairs) Map() map[string]string {
	m := make(map[string]string, len(p))
	for _, x := range p {
		m[x.Key.Value()] = x.Value.Value()
	}
	return m
}
