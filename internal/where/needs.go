package where

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Need is a name, group, label or fact that every node matching a condition has.
type Need struct {
	Of    NeedKind
	Key   string // of a label or fact
	Value string // not empty, except with HasLabel
}

// NeedKind is the kind of a Need: name, group, label or fact.
type NeedKind uint8

const (
	Name     NeedKind = iota // the node's name
	Group                    // an entry of node.groups
	Label                    // a label of this key and value
	HasLabel                 // a label of this key, any value
	Fact                     // a fact of this key and value
)

// Needs returns conditions that every matching node fulfils (a name, group, label or fact), for use as index keys.
// Empty: the condition has none.
func (c *Condition) Needs() []Need { return c.compiled.needs }

// extractNeeds extracts the needs from the operands of &&. whole reports that the needs are the entire condition.
func extractNeeds(a *ast.AST, e ast.Expr) (needs []Need, whole bool) {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		left, wholeLeft := extractNeeds(a, e.AsCall().Args()[0])
		right, wholeRight := extractNeeds(a, e.AsCall().Args()[1])
		return slices.Concat(left, right), wholeLeft && wholeRight
	}
	if n, ok := extractNeed(a, e); ok {
		return []Need{n}, true
	}
	return nil, false
}

// extractNeed extracts the need of one expression; ok is true if the need is equivalent to the expression.
func extractNeed(a *ast.AST, e ast.Expr) (n Need, ok bool) {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		return Need{Of: HasLabel, Key: e.AsSelect().FieldName()}, variableName(a, e.AsSelect().Operand()) == "node.labels"
	}
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return n, false
	}
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals:
		if n, ok = needOfComparison(a, left, right); !ok {
			n, ok = needOfComparison(a, right, left)
		}
		return n, ok && n.Value != "" // a node without the label matches an empty value, too
	case operators.In:
		word, ok := stringLiteral(left)
		switch variableName(a, right) {
		case "node.groups":
			return Need{Of: Group, Value: word}, ok && word != ""
		case "node.labels":
			return Need{Of: HasLabel, Key: word}, ok
		}
	}
	return n, false
}

// needOfComparison extracts the need of a comparison.
func needOfComparison(a *ast.AST, of, with ast.Expr) (n Need, ok bool) {
	if n.Value, ok = stringLiteral(with); !ok {
		return n, false
	}
	var from ast.Expr
	switch of.Kind() {
	case ast.SelectKind:
		if of.AsSelect().IsTestOnly() {
			return n, false
		}
		from, n.Key = of.AsSelect().Operand(), of.AsSelect().FieldName()
	case ast.CallKind:
		if of.AsCall().FunctionName() != operators.Index {
			return n, false
		}
		from = of.AsCall().Args()[0]
		if n.Key, ok = stringLiteral(of.AsCall().Args()[1]); !ok {
			return n, false
		}
	}
	switch {
	case variableName(a, of) == "node.name":
		return Need{Of: Name, Value: n.Value}, true
	case from != nil && variableName(a, from) == "node.labels":
		n.Of = Label
		return n, true
	case from != nil && variableName(a, from) == "node.facts":
		n.Of = Fact
		return n, true
	}
	return n, false
}

// satisfies reports whether the node fulfils a Need.
func (n *Node) satisfies(need Need) bool {
	switch need.Of {
	case Name:
		return string(n.name) == need.Value
	case Group:
		return n.groups.Contains(types.String(need.Value)) == types.True
	case Label:
		value, _ := n.labels.pairs.Get(need.Key)
		return value == need.Value
	case HasLabel:
		_, there := n.labels.pairs.Get(need.Key)
		return there
	case Fact:
		value, _ := n.facts.pairs.Get(need.Key)
		return value == need.Value
	}
	panic("BUG: a need without a kind")
}

// variableName returns the checker's name of the variable in an expression; empty: no variable.
func variableName(a *ast.AST, e ast.Expr) string {
	if ref := a.ReferenceMap()[e.ID()]; ref != nil {
		return ref.Name
	}
	return ""
}

// stringLiteral returns the text of a string literal; ok is false for another expression.
func stringLiteral(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
