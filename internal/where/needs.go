package where

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Need is something that a node must have for a condition to hold.
type Need struct {
	Of    Thing
	Key   string // of a label
	Value string // never empty
}

// Thing is what a Need is about.
type Thing uint8

const (
	NeedsName  Thing = iota // the node's own
	NeedsLabel              // of this key and value
	NeedsGroup              // as node.groups lists them
)

// Needs are what every node has that the condition holds for: an index finds it by any one
// of them. None: nothing that can be looked up is certain.
func (c *Condition) Needs() []Need { return c.compiled.needs }

// needsOf reads them off what a condition joins by &&: comparisons of the node's name or of one
// of its labels with a text, and memberships of a group.
func needsOf(a *ast.AST, e ast.Expr) []Need {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return nil
	}
	args := e.AsCall().Args()
	var n Need
	ok := false
	switch e.AsCall().FunctionName() {
	case operators.LogicalAnd:
		return slices.Concat(needsOf(a, args[0]), needsOf(a, args[1]))
	case operators.Equals:
		if n, ok = equals(a, args[0], args[1]); !ok {
			n, ok = equals(a, args[1], args[0])
		}
	case operators.In:
		n.Of = NeedsGroup
		n.Value, ok = text(args[0])
		ok = ok && variable(a, args[1]) == "node.groups"
	}
	if !ok || n.Value == "" { // a node without the label has this value too
		return nil
	}
	return []Need{n}
}

// equals is what a comparison of these two says that a node must have.
func equals(a *ast.AST, of, with ast.Expr) (n Need, ok bool) {
	if n.Value, ok = text(with); !ok {
		return n, false
	}
	if variable(a, of) == "node.name" {
		return n, true
	}
	n.Of = NeedsLabel
	switch of.Kind() {
	case ast.SelectKind:
		s := of.AsSelect()
		n.Key = s.FieldName()
		return n, !s.IsTestOnly() && variable(a, s.Operand()) == "node.labels"
	case ast.CallKind:
		if c := of.AsCall(); c.FunctionName() == operators.Index && variable(a, c.Args()[0]) == "node.labels" {
			n.Key, ok = text(c.Args()[1])
			return n, ok
		}
	}
	return n, false
}

// variable is what the checker took an expression for; empty: no variable.
func variable(a *ast.AST, e ast.Expr) string {
	if ref := a.ReferenceMap()[e.ID()]; ref != nil {
		return ref.Name
	}
	return ""
}

func text(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
