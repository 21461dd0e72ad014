package sensuimport

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"
)

// maxExpression is how long one may be.
const maxExpression = 16 << 10

// condition translates expressions over an entity, all of which must hold, into a condition
// over a node. The error says which part has no counterpart.
func condition(expressions []string) (string, error) {
	var parts []string
	for _, source := range expressions {
		if len(source) > maxExpression {
			return "", fmt.Errorf("an expression of %d bytes is too long", len(source))
		}
		program, err := parser.ParseFile(nil, "", source, 0)
		if err != nil {
			return "", fmt.Errorf("%q: %v", source, err)
		}
		if len(program.Body) != 1 {
			return "", fmt.Errorf("%q is not one expression", source)
		}
		statement, ok := program.Body[0].(*ast.ExpressionStatement)
		if !ok {
			return "", fmt.Errorf("%q is no expression", source)
		}
		text, err := truth(statement.Expression)
		if err != nil {
			return "", fmt.Errorf("%q: %w", source, err)
		}
		if text != "true" {
			parts = append(parts, text)
		}
	}
	switch len(parts) {
	case 0:
		return "true", nil
	case 1:
		return parts[0], nil
	}
	for i, p := range parts {
		if strings.Contains(p, "||") {
			parts[i] = "(" + p + ")"
		}
	}
	return strings.Join(parts, " && "), nil
}

// truth is an expression that is true or false.
func truth(e ast.Expression) (string, error) {
	switch e := e.(type) {
	case *ast.BooleanLiteral:
		return strconv.FormatBool(e.Value), nil
	case *ast.UnaryExpression:
		if e.Operator != token.NOT {
			break
		}
		inner, err := truth(e.Operand)
		if err != nil || inner == "true" || inner == "false" {
			return strconv.FormatBool(inner == "false"), err
		}
		return "!(" + inner + ")", nil
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.LOGICAL_AND, token.LOGICAL_OR:
			return conjunction(e)
		case token.EQUAL, token.STRICT_EQUAL, token.NOT_EQUAL, token.STRICT_NOT_EQUAL:
			return equality(e)
		case token.GREATER_OR_EQUAL, token.GREATER: // subscriptions.indexOf("x") >= 0
			if call, ok := e.Left.(*ast.CallExpression); ok && number(e.Right) == map[bool]string{true: "0", false: "-1"}[e.Operator == token.GREATER_OR_EQUAL] {
				return callOf(call, "indexOf")
			}
		}
	case *ast.CallExpression:
		return callOf(e, "match", "startsWith", "endsWith", "includes")
	case *ast.DotExpression, *ast.BracketExpression: // a label that is there
		text, err := value(e)
		if err == nil && strings.HasPrefix(text, "node.labels") {
			return text + ` != ""`, nil
		}
	}
	return "", fmt.Errorf("there is no such condition over a node")
}

func conjunction(e *ast.BinaryExpression) (string, error) {
	left, err := truth(e.Left)
	if err != nil {
		return "", err
	}
	right, err := truth(e.Right)
	if err != nil {
		return "", err
	}
	and := e.Operator == token.LOGICAL_AND
	for _, pair := range [...][2]string{{left, right}, {right, left}} {
		switch {
		case pair[0] == strconv.FormatBool(and): // it changes nothing
			return pair[1], nil
		case pair[0] == strconv.FormatBool(!and): // it decides
			return pair[0], nil
		}
	}
	if !and {
		return left + " || " + right, nil
	}
	for _, side := range [...]*string{&left, &right} {
		if strings.Contains(*side, "||") {
			*side = "(" + *side + ")"
		}
	}
	return left + " && " + right, nil
}

func equality(e *ast.BinaryExpression) (string, error) {
	same := e.Operator == token.EQUAL || e.Operator == token.STRICT_EQUAL
	left, right := e.Left, e.Right
	if _, ok := left.(*ast.StringLiteral); ok {
		left, right = right, left
	}
	literal, ok := right.(*ast.StringLiteral)
	if !ok {
		return "", fmt.Errorf("it is not compared with a text")
	}
	of, err := value(left)
	if err != nil {
		return "", err
	}
	if of == "class" { // conditions of proxy are asked of proxy nodes, and of nothing else
		return strconv.FormatBool((literal.Value.String() == "proxy") == same), nil
	}
	if same {
		return of + " == " + strconv.Quote(literal.Value.String()), nil
	}
	return of + " != " + strconv.Quote(literal.Value.String()), nil
}

// callOf translates a call of one of the allowed functions on a text or on the subscriptions.
func callOf(e *ast.CallExpression, allowed ...string) (string, error) {
	dot, ok := e.Callee.(*ast.DotExpression)
	if !ok || len(e.ArgumentList) != 1 {
		return "", fmt.Errorf("there is no such function")
	}
	function := dot.Identifier.Name.String()
	of, err := value(dot.Left)
	if err != nil {
		return "", err
	}
	known := false
	for _, name := range allowed {
		known = known || name == function
	}
	if !known {
		return "", fmt.Errorf("there is no %s", function)
	}
	if function == "match" {
		pattern, ok := e.ArgumentList[0].(*ast.RegExpLiteral)
		if !ok || strings.Trim(pattern.Flags, "gi") != "" {
			return "", fmt.Errorf("match wants a regular expression")
		}
		source := pattern.Pattern
		if strings.Contains(pattern.Flags, "i") {
			source = "(?i)" + source
		}
		return of + ".matches(" + strconv.Quote(source) + ")", nil
	}
	literal, ok := e.ArgumentList[0].(*ast.StringLiteral)
	if !ok {
		return "", fmt.Errorf("%s is not given a text", function)
	}
	text := strconv.Quote(literal.Value.String())
	switch {
	case of == "subscriptions" && (function == "indexOf" || function == "includes"):
		return strconv.Quote(name(literal.Value.String())) + " in node.groups", nil
	case of == "subscriptions" || of == "class":
		return "", fmt.Errorf("there is no %s of it", function)
	case function == "indexOf" || function == "includes":
		return of + ".contains(" + text + ")", nil
	}
	return of + "." + function + "(" + text + ")", nil
}

// value translates an expression that reads a field of an entity.
func value(e ast.Expression) (string, error) {
	path, err := pathOf(e)
	if err != nil {
		return "", err
	}
	if len(path) > 1 && path[1] == "metadata" {
		path = append(path[:1:1], path[2:]...)
	}
	switch {
	case len(path) < 2 || path[0] != "entity":
	case len(path) == 2 && path[1] == "name":
		return "node.name", nil
	case len(path) == 2 && path[1] == "namespace":
		return "node.namespace", nil
	case len(path) == 2 && path[1] == "entity_class":
		return "class", nil
	case len(path) == 2 && path[1] == "subscriptions":
		return "subscriptions", nil
	case len(path) == 3 && path[1] == "labels":
		return "node.labels[" + strconv.Quote(path[2]) + "]", nil
	case len(path) == 3 && path[1] == "system":
		return "node.facts[" + strconv.Quote(path[2]) + "]", nil
	}
	return "", fmt.Errorf("a node has no %s", strings.Join(path, "."))
}

func pathOf(e ast.Expression) ([]string, error) {
	switch e := e.(type) {
	case *ast.Identifier:
		return []string{e.Name.String()}, nil
	case *ast.DotExpression:
		left, err := pathOf(e.Left)
		return append(left, e.Identifier.Name.String()), err
	case *ast.BracketExpression:
		left, err := pathOf(e.Left)
		if s, ok := e.Member.(*ast.StringLiteral); ok {
			return append(left, s.Value.String()), err
		}
	}
	return nil, fmt.Errorf("there is no such condition over a node")
}

func number(e ast.Expression) string {
	switch e := e.(type) {
	case *ast.NumberLiteral:
		return fmt.Sprint(e.Value)
	case *ast.UnaryExpression:
		if n, ok := e.Operand.(*ast.NumberLiteral); ok && e.Operator == token.MINUS {
			return "-" + fmt.Sprint(n.Value)
		}
	}
	return ""
}
