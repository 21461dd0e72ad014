package sensuimport

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"
)

// maxExpression bounds an expression, in bytes.
const maxExpression = 16 << 10

// nodeCondition translates entity expressions to one CEL condition on a node. All expressions must be true. The error
// names the part that has no counterpart.
func nodeCondition(expressions []string) (string, error) {
	var parts []string
	for _, source := range expressions {
		expression, err := parseExpression(source)
		if err != nil {
			return "", err
		}
		text, err := translateBoolean(expression)
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

// parseExpression parses one JavaScript expression.
func parseExpression(source string) (ast.Expression, error) {
	if len(source) > maxExpression {
		return nil, fmt.Errorf("an expression of %d bytes is too long", len(source))
	}
	program, err := parser.ParseFile(nil, "", source, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %v", source, err)
	}
	if len(program.Body) == 1 {
		if statement, ok := program.Body[0].(*ast.ExpressionStatement); ok {
			return statement.Expression, nil
		}
	}
	return nil, fmt.Errorf("%q is not one expression of JavaScript", source)
}

// translateBoolean translates a boolean JavaScript expression to CEL.
func translateBoolean(e ast.Expression) (string, error) {
	switch e := e.(type) {
	case *ast.BooleanLiteral:
		return strconv.FormatBool(e.Value), nil
	case *ast.UnaryExpression:
		if e.Operator != token.NOT {
			break
		}
		inner, err := translateBoolean(e.Operand)
		if err != nil || inner == "true" || inner == "false" {
			return strconv.FormatBool(inner == "false"), err
		}
		return "!(" + inner + ")", nil
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.LOGICAL_AND, token.LOGICAL_OR:
			return translateLogical(e)
		case token.EQUAL, token.STRICT_EQUAL, token.NOT_EQUAL, token.STRICT_NOT_EQUAL:
			return translateEquality(e)
		case token.GREATER_OR_EQUAL, token.GREATER: // subscriptions.indexOf("x") >= 0
			if call, ok := e.Left.(*ast.CallExpression); ok && numberText(e.Right) == map[bool]string{true: "0", false: "-1"}[e.Operator == token.GREATER_OR_EQUAL] {
				return translateCall(call, "indexOf")
			}
		}
	case *ast.CallExpression:
		return translateCall(e, "match", "startsWith", "endsWith", "includes")
	case *ast.DotExpression, *ast.BracketExpression: // a label that exists
		text, err := translateField(e)
		if err == nil && strings.HasPrefix(text, "node.labels") {
			return text + ` != ""`, nil
		}
	}
	return "", fmt.Errorf("cannot import the expression: Muster has no condition on nodes with this meaning")
}

// translateLogical translates a JavaScript expression with && or || to CEL.
func translateLogical(e *ast.BinaryExpression) (string, error) {
	left, err := translateBoolean(e.Left)
	if err != nil {
		return "", err
	}
	right, err := translateBoolean(e.Right)
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

// translateEquality translates a JavaScript comparison with a string literal to CEL.
func translateEquality(e *ast.BinaryExpression) (string, error) {
	same := e.Operator == token.EQUAL || e.Operator == token.STRICT_EQUAL
	left, right := e.Left, e.Right
	if _, ok := left.(*ast.StringLiteral); ok {
		left, right = right, left
	}
	literal, ok := right.(*ast.StringLiteral)
	if !ok {
		return "", fmt.Errorf("the expression does not compare the field with a text")
	}
	of, err := translateField(left)
	if err != nil {
		return "", err
	}
	if of == "class" { // a condition of a proxy check selects among proxy nodes only
		return strconv.FormatBool((literal.Value.String() == "proxy") == same), nil
	}
	return of + map[bool]string{true: " == ", false: " != "}[same] + strconv.Quote(literal.Value.String()), nil
}

// translateCall translates a JavaScript function call on a string or on subscriptions to CEL.
func translateCall(e *ast.CallExpression, allowed ...string) (string, error) {
	dot, ok := e.Callee.(*ast.DotExpression)
	if !ok || len(e.ArgumentList) != 1 {
		return "", fmt.Errorf("unknown function in the expression")
	}
	function := dot.Identifier.Name.String()
	of, err := translateField(dot.Left)
	if err != nil {
		return "", err
	}
	if !slices.Contains(allowed, function) {
		return "", fmt.Errorf("the function %s does not exist on this field", function)
	}
	if function == "match" {
		pattern, ok := e.ArgumentList[0].(*ast.RegExpLiteral)
		if !ok || strings.Trim(pattern.Flags, "gi") != "" {
			return "", fmt.Errorf("the function match needs a regular expression as its argument")
		}
		source := pattern.Pattern
		if strings.Contains(pattern.Flags, "i") {
			source = "(?i)" + source
		}
		return of + ".matches(" + strconv.Quote(source) + ")", nil
	}
	literal, ok := e.ArgumentList[0].(*ast.StringLiteral)
	if !ok {
		return "", fmt.Errorf("the argument of %s is not a text", function)
	}
	text := strconv.Quote(literal.Value.String())
	switch {
	case of == "subscriptions" && (function == "indexOf" || function == "includes"):
		return strconv.Quote(musterName(literal.Value.String())) + " in node.groups", nil
	case of == "subscriptions" || of == "class":
		return "", fmt.Errorf("a condition cannot call %s on this value", function)
	case function == "indexOf" || function == "includes":
		return of + ".contains(" + text + ")", nil
	}
	return of + "." + function + "(" + text + ")", nil
}

// translateField translates an entity field in a JavaScript expression to CEL.
func translateField(e ast.Expression) (string, error) {
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

// pathOf splits a field expression such as entity.labels.region into its parts.
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
	return nil, fmt.Errorf("cannot import the expression: Muster has no condition on nodes with this meaning")
}

// numberText returns a JavaScript number literal as text. Other expressions give an empty text.
func numberText(e ast.Expression) string {
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

// attributeWords maps parts of conditions over nodes to Sensu's form of them.
var attributeWords = []struct {
	ours  *regexp.Regexp
	sensu string
}{
	{regexp.MustCompile(`("(?:[^"\\]|\\.)*") in node\.groups`), `entity.subscriptions.indexOf($1) >= 0`},
	{regexp.MustCompile(`\.matches\("([^"\\/]*)"\)`), `.match(/$1/)`},
	{regexp.MustCompile(`\.contains\(("(?:[^"\\]|\\.)*")\)`), `.indexOf($1) >= 0`},
	{regexp.MustCompile(`node\.labels\[`), `entity.labels[`},
	{regexp.MustCompile(`node\.facts\[`), `entity.system[`},
	{regexp.MustCompile(`node\.(name|namespace)\b`), `entity.$1`},
}

// EntityAttributes converts a condition on proxy nodes back to the entity attributes of a Sensu proxy check. not ok: an
// import of the expressions makes another condition.
func EntityAttributes(where string) (expressions []string, ok bool) {
	expressions = []string{"entity.entity_class == 'proxy'"} // Muster's condition selects proxy nodes only
	for _, part := range conjunctsOf(where) {
		for _, w := range attributeWords {
			part = w.ours.ReplaceAllString(part, w.sensu)
		}
		expressions = append(expressions, part)
	}
	back, err := nodeCondition(expressions)
	return expressions, err == nil && back == where
}

// conjunctsOf splits a CEL condition into its parts, which are joined by &&.
func conjunctsOf(where string) (parts []string) {
	depth, from, quoted := 0, 0, false
	for i := 0; i < len(where); i++ {
		switch c := where[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(where[i:], " && "):
			parts = append(parts, where[from:i])
			from = i + len(" && ")
			i = from - 1
		}
	}
	return append(parts, where[from:])
}
