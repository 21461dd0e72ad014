package where

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// IndexTerm is a name, group, label or fact that a node must have to match a condition. An index finds nodes by
// the term.
type IndexTerm struct {
	Of    IndexTermKind
	Key   string // of a label or fact
	Value string // not empty, except with HasLabel
}

// IndexTermKind is the kind of an index term, which is name, group, label or fact.
type IndexTermKind uint8

const (
	Name     IndexTermKind = iota // the node's name
	Group                         // an entry of node.groups
	Label                         // a label of this key and value
	HasLabel                      // a label of this key, any value
	Fact                          // a fact of this key and value
)

// IndexTerms returns the names, groups, labels and facts that a node must have for a match. A search in an index of
// nodes uses these terms. Empty: the condition has none.
func (c *Condition) IndexTerms() []IndexTerm { return c.compiled.needs }

// extractIndexTerms returns the index terms (such as required labels) of a condition's parts joined by &&. An
// index term is a name, group, label or fact. whole reports that the needs are the entire condition.
func extractIndexTerms(a *ast.AST, e ast.Expr) (needs []IndexTerm, whole bool) {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		left, wholeLeft := extractIndexTerms(a, e.AsCall().Args()[0])
		right, wholeRight := extractIndexTerms(a, e.AsCall().Args()[1])
		return slices.Concat(left, right), wholeLeft && wholeRight
	}
	if n, ok := extractIndexTerm(a, e); ok {
		return []IndexTerm{n}, true
	}
	return nil, false
}

// extractIndexTerm returns the name, group, label or fact that one expression requires. ok is true if the term alone
// decides the expression.
func extractIndexTerm(a *ast.AST, e ast.Expr) (n IndexTerm, ok bool) {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		return IndexTerm{Of: HasLabel, Key: e.AsSelect().FieldName()}, variableName(a, e.AsSelect().Operand()) == "node.labels"
	}
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return n, false
	}
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals:
		if n, ok = indexTermOfComparison(a, left, right); !ok {
			n, ok = indexTermOfComparison(a, right, left)
		}
		return n, ok && n.Value != "" // a node without the label matches an empty value, too
	case operators.In:
		word, ok := stringLiteral(left)
		switch variableName(a, right) {
		case "node.groups":
			return IndexTerm{Of: Group, Value: word}, ok && word != ""
		case "node.labels":
			return IndexTerm{Of: HasLabel, Key: word}, ok
		}
	}
	return n, false
}

// indexTermOfComparison returns the index term of a comparison by ==, such as a label.
func indexTermOfComparison(a *ast.AST, of, with ast.Expr) (n IndexTerm, ok bool) {
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
		return IndexTerm{Of: Name, Value: n.Value}, true
	case from != nil && variableName(a, from) == "node.labels":
		n.Of = Label
		return n, true
	case from != nil && variableName(a, from) == "node.facts":
		n.Of = Fact
		return n, true
	}
	return n, false
}

// satisfies reports whether the node has the name, group, label or fact of an index term.
func (n *Node) satisfies(need IndexTerm) bool {
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

// variableName returns the CEL variable's name if an expression is nothing but a variable. It returns "" for any other
// expression.
func variableName(a *ast.AST, e ast.Expr) string {
	if ref := a.ReferenceMap()[e.ID()]; ref != nil {
		return ref.Name
	}
	return ""
}

// stringLiteral returns the text of a string literal. ok is false for another expression.
func stringLiteral(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
