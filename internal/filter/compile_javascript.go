package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	MaxSource = 16 << 10 // bytes of one expression

	maxPatternSteps = 256 // instructions of one regular expression
)

// Program is a compiled JavaScript filter expression, with reusable interpreters to run the expression.
type Program struct {
	source string
	code   *goja.Program
	pool   sync.Pool // of *sandbox
	slow   suspension
	script bool // it has the functions of Zabbix, and Math.random depends on the time of the evaluation only
}

// Compile compiles a Sensu filter expression, which is a list of JavaScript statements. The last statement
// gives the value. Errors say line and column, in characters from 1.
func Compile(expression string, libraries ...Library) (*Program, error) {
	if len(expression) > MaxSource {
		return nil, model.Errorf(model.TooLarge, "the expression has %d bytes, the limit is %d", len(expression), MaxSource)
	}
	if _, err := parseSource(expression, 0); err != nil {
		return nil, err
	}
	return compileFunction(functionHead, expression, true, libraries...)
}

// compileFunction compiles JavaScript source as the body of a function. With value, the function returns the value of
// its last statement.
func compileFunction(head, source string, value bool, libraries ...Library) (*Program, error) {
	expression, err := withLibraries(libraries, source)
	if err != nil {
		return nil, err
	}
	// The source becomes a function, so that its variables end with the evaluation.
	whole, err := parseSource(head+expression+"\n})", len(head))
	if err != nil {
		return nil, err
	}
	var function *ast.FunctionLiteral
	if statement, ok := whole.Body[0].(*ast.ExpressionStatement); ok && len(whole.Body) == 1 {
		function, _ = statement.Expression.(*ast.FunctionLiteral)
	}
	if function == nil {
		return nil, model.Errorf(model.Invalid, "the expression has a closing brace or parenthesis too many")
	}
	body := function.Body
	if err := checkSyntax(whole, expression); err != nil {
		return nil, err
	}
	if value {
		last, ok := lastStatement(body)
		if !ok {
			return nil, model.Errorf(model.Invalid, "the expression does not end with a value").
				WithHint("its last statement must be the condition, such as: event.check.status == 2")
		}
		*last = &ast.ReturnStatement{Return: (*last).Idx0(), Argument: (*last).(*ast.ExpressionStatement).Expression}
	}
	if err := declareVariables(function); err != nil {
		return nil, err
	}
	code, err := goja.CompileAST(whole, true)
	if err != nil {
		var bad *goja.CompilerSyntaxError
		if errors.As(err, &bad) {
			return nil, errorAt(expression, file.Idx(bad.Offset+1), "%s", bad.Message)
		}
		return nil, model.Errorf(model.Invalid, "compile the expression: %w", err)
	}
	return &Program{source: source, code: code}, nil
}

// functionHead is the JavaScript text in front of an expression. It makes the expression the body of a function.
const functionHead = `(function(event){"use strict";`

// parseSource parses JavaScript source to a syntax tree. before is the number of characters that functionHead adds in
// front of the first line.
func parseSource(source string, before int) (*ast.Program, error) {
	whole, err := parser.ParseFile(nil, "", source, 0, parser.WithDisableSourceMaps)
	if err == nil {
		return whole, nil
	}
	var list parser.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		at := list[0].Position
		if at.Line == 1 {
			at.Column -= before
		}
		return nil, model.Errorf(model.Invalid, "the expression is wrong at line %d, column %d: %s", at.Line, at.Column, list[0].Message)
	}
	return nil, model.Errorf(model.Invalid, "the expression is wrong: %w", err)
}

// errorAt returns an error about a JavaScript expression that names the line and column of the fault. idx
// counts from 1 in functionHead and the expression.
func errorAt(expression string, idx file.Idx, format string, args ...any) error {
	offset := min(max(int(idx)-1-len(functionHead), 0), len(expression))
	line, column := 1, 1
	for _, c := range expression[:offset] {
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	err := model.Errorf(model.Invalid, format, args...)
	return model.Errorf(model.Invalid, "the expression is wrong at line %d, column %d: %w", line, column, err)
}

// lastStatement returns the last non-empty statement of a function, which gives the value of the expression.
func lastStatement(body *ast.BlockStatement) (*ast.Statement, bool) {
	for i := len(body.List) - 1; i > 0; i-- { // 0 is "use strict"
		switch body.List[i].(type) {
		case *ast.EmptyStatement:
		case *ast.ExpressionStatement:
			return &body.List[i], true
		default:
			return nil, false
		}
	}
	return nil, false
}

// notSpace lists the characters that \S matches, as ranges for a character class.
const notSpace = `\u0000-\u0008\u000e-\u001f!-\u009f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\uffff`

// expandNonSpaceClass replaces \S in character classes of a regular expression, because the interpreter lacks
// support for such classes. The interpreter's linear-time engine knows \S only outside of classes.
func expandNonSpaceClass(pattern string) string {
	if !strings.Contains(pattern, `\S`) {
		return pattern
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			if i++; class && pattern[i] == 'S' {
				b.WriteString(notSpace)
				continue
			}
			b.WriteByte(c)
		case c == '[':
			class = true
		case c == ']':
			class = false
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// checkPattern returns an error for a regular expression that is too large or needs backtracking.
func checkPattern(pattern string) error {
	plain, err := parser.TransformRegExp(pattern, false, false)
	if err != nil {
		return model.Errorf(model.Invalid, "the regular expression /%s/ needs backtracking, which filters do not support: %w", pattern, err)
	}
	_, steps, err := item.CompilePattern(plain)
	if steps > maxPatternSteps {
		return model.Errorf(model.TooLarge, "the regular expression /%.40s…/ has %d steps, the limit is %d", pattern, steps, maxPatternSteps)
	}
	if err != nil {
		return model.Errorf(model.Invalid, "the regular expression /%s/: %w", pattern, err)
	}
	return nil
}

// Library is a JavaScript file whose functions and variables filter expressions may use. It runs before each
// evaluation in the same function: its variables end with the evaluation.
type Library struct {
	Name   string // for people
	Source string
}

// VariablesLibrary returns a JavaScript library that gives a mutator each environment variable as a variable,
// as in Sensu. Without variables the list is empty.
func VariablesLibrary(env map[string]string) []Library {
	if len(env) == 0 {
		return nil
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value, _ := json.Marshal(env[name]) // JavaScript reads each text of JSON
		fmt.Fprintf(&b, "var %s = %s;\n", name, value)
	}
	return []Library{{Name: "env", Source: b.String()}}
}

// MaxLibraries bounds the total size of a program's JavaScript libraries, in bytes.
const MaxLibraries = 256 << 10

// withLibraries joins the JavaScript sources of the libraries and the source of an expression into one program.
// Each library is checked alone by the rules of expressions, so that errors name it.
func withLibraries(libraries []Library, expression string) (string, error) {
	var b strings.Builder
	size := 0
	for _, l := range libraries {
		if size += len(l.Source); size > MaxLibraries {
			return "", model.Errorf(model.TooLarge, "the JavaScript libraries have more than %d bytes together", MaxLibraries)
		}
		_, err := parseSource(l.Source, 0)
		if err == nil {
			_, err = compileFunction(functionHead, l.Source, false)
		}
		if err != nil {
			return "", model.Errorf(model.ClassOf(err), "JavaScript library %s: %w", l.Name, err)
		}
		b.WriteString(l.Source)
		b.WriteString("\n;\n") // the library may end with a comment or without a semicolon
	}
	return b.String() + expression, nil
}

// addend is the name of the JavaScript function that checks the right side of every +. No expression can spell its
// name.
const addend = " addend"

// checkSyntax returns an error if an expression uses JavaScript syntax that filters do not allow. It also adds a
// length check to the right operand of every +.
func checkSyntax(whole *ast.Program, expression string) error {
	k := &syntaxChecker{expression: expression}
	walkNodes(reflect.ValueOf(whole.Body), func(n ast.Node) bool { k.checkNode(n); return k.err == nil })
	return k.err
}

// syntaxChecker walks the syntax tree of an expression, and records the first forbidden construct.
type syntaxChecker struct {
	expression string
	at         file.Idx
	err        error
}

// refuseSyntax records the first forbidden construct of an expression with its position.
func (k *syntaxChecker) refuseSyntax(what string) {
	if k.err == nil {
		k.err = errorAt(k.expression, k.at, "filters cannot use %s", what)
	}
}

// checkNode checks one node of an expression's syntax tree against the list of allowed syntax. It refuses all syntax
// that is not listed: classes, generators, async, spread, destructuring, template texts, getters, with.
func (k *syntaxChecker) checkNode(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpression:
		if n.Operator == token.PLUS {
			n.Right = addLengthCheck(n.Right)
		}
		if isLogical(n) && !isLogical(n.Left) && isConstant(n.Left) {
			n.Left = lengthCheckCall(n.Left)
		}
	case *ast.AssignExpression:
		if n.Operator == token.PLUS {
			n.Right = addLengthCheck(n.Right)
		}
	case *ast.Identifier, *ast.StringLiteral, *ast.NumberLiteral:
		k.at = n.Idx0()
	case *ast.RegExpLiteral:
		k.at, n.Pattern = n.Idx, expandNonSpaceClass(n.Pattern)
		if err := checkPattern(n.Pattern); err != nil && k.err == nil {
			k.err = errorAt(k.expression, n.Idx, "%w", err)
		}
		if strings.Trim(n.Flags, "gim") != "" {
			k.refuseSyntax("a regular expression with the flags " + n.Flags)
		}
	case *ast.FunctionLiteral:
		if n.Async || n.Generator {
			k.at = n.Function
			k.refuseSyntax("a function that is async or a generator")
		}
	case *ast.ArrowFunctionLiteral:
		if n.Async {
			k.at = n.Start
			k.refuseSyntax("a function that is async")
		}
	case *ast.ParameterList:
		if n.Rest != nil {
			k.at = n.Opening
			k.refuseSyntax("a rest parameter")
		}
	case *ast.PropertyKeyed:
		if n.Kind != ast.PropertyKindValue && n.Kind != ast.PropertyKindMethod {
			k.refuseSyntax("a getter or setter")
		}
	case *ast.ArrayLiteral, *ast.BooleanLiteral, *ast.BracketExpression, *ast.CallExpression, *ast.ConditionalExpression, *ast.DotExpression,
		*ast.NewExpression, *ast.NullLiteral, *ast.ObjectLiteral, *ast.PropertyShort, *ast.SequenceExpression, *ast.ThisExpression, *ast.UnaryExpression,
		*ast.BlockStatement, *ast.BranchStatement, *ast.CaseStatement, *ast.CatchStatement, *ast.DoWhileStatement, *ast.EmptyStatement,
		*ast.ExpressionStatement, *ast.ForInStatement, *ast.ForStatement, *ast.IfStatement, *ast.LabelledStatement, *ast.ReturnStatement,
		*ast.SwitchStatement, *ast.ThrowStatement, *ast.TryStatement, *ast.VariableStatement, *ast.LexicalDeclaration, *ast.WhileStatement,
		*ast.FunctionDeclaration, *ast.Binding, *ast.VariableDeclaration, *ast.ExpressionBody, *ast.OptionalChain, *ast.Optional,
		*ast.ForLoopInitializerExpression, *ast.ForLoopInitializerVarDeclList, *ast.ForLoopInitializerLexicalDecl,
		*ast.ForIntoVar, *ast.ForDeclaration, *ast.ForIntoExpression:
	default:
		k.at = n.Idx0()
		k.refuseSyntax(strings.TrimPrefix(reflect.TypeOf(n).String(), "*ast."))
	}
}

// addLengthCheck adds a length check to the right operand of a +, unless the operand is a literal.
func addLengthCheck(right ast.Expression) ast.Expression {
	switch right.(type) {
	case *ast.StringLiteral, *ast.NumberLiteral:
		return right
	}
	return lengthCheckCall(right)
}

// lengthCheckCall wraps the right operand of a + into a call that checks the operand's length. The operand is the
// right side of a +.
func lengthCheckCall(right ast.Expression) ast.Expression {
	at := right.Idx0()
	return &ast.CallExpression{Callee: &ast.Identifier{Name: addend, Idx: at}, LeftParenthesis: at, ArgumentList: []ast.Expression{right}, RightParenthesis: at}
}

// isLogical reports whether a JavaScript expression has the operator &&, || or ??
func isLogical(x ast.Expression) bool {
	b, ok := x.(*ast.BinaryExpression)
	return ok && (b.Operator == token.LOGICAL_AND || b.Operator == token.LOGICAL_OR || b.Operator == token.COALESCE)
}

// isConstant reports whether the JavaScript compiler would evaluate an expression already at compile time. The
// compiler computes both sides of && and || repeatedly: each operand more in true && true && … doubles the time.
func isConstant(x ast.Expression) bool {
	switch x := x.(type) {
	case *ast.BooleanLiteral, *ast.NumberLiteral, *ast.StringLiteral, *ast.NullLiteral:
		return true
	case *ast.UnaryExpression:
		return isConstant(x.Operand)
	case *ast.BinaryExpression:
		return isConstant(x.Left) && isConstant(x.Right)
	}
	return false
}

// declareAssignedVariables returns JavaScript declarations for variables that a library or script assigns but
// does not declare. So no event sees the values of an earlier event. Libraries are written for interpreters in
// which such a variable is global, and the most used ones have some; here they belong to the function around
// the library.
func declareAssignedVariables(body []ast.Statement) string {
	var names []string
	add := func(e any) {
		if id, ok := e.(*ast.Identifier); ok && !slices.Contains(names, id.Name.String()) {
			names = append(names, id.Name.String())
		}
	}
	walkNodes(reflect.ValueOf(body), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignExpression:
			add(n.Left)
		case *ast.UnaryExpression:
			if n.Operator == token.INCREMENT || n.Operator == token.DECREMENT {
				add(n.Operand)
			}
		case *ast.ForIntoExpression:
			add(n.Expression)
		}
		return true
	})
	kept := strings.Fields(globals + " eval arguments")
	for _, s := range body {
		if d, ok := s.(*ast.LexicalDeclaration); ok { // let and const, which may stand once
			for _, b := range d.List {
				if id, ok := b.Target.(*ast.Identifier); ok {
					kept = append(kept, id.Name.String())
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(kept, name) })
	if len(names) == 0 {
		return ""
	}
	return "var " + strings.Join(names, ", ") + ";"
}

// declareVariables declares the undeclared variables of an expression as local variables, so that none outlives
// an evaluation. So their values end with the evaluation.
func declareVariables(function *ast.FunctionLiteral) error {
	declared, err := parser.ParseFile(nil, "", declareAssignedVariables(function.Body.List), 0, parser.WithDisableSourceMaps)
	if err != nil {
		return model.Errorf(model.Internal, "declare the variables of the expression: %w", err)
	}
	function.Body.List = append(function.Body.List, declared.Body...)
	function.DeclarationList = append(function.DeclarationList, declared.DeclarationList...)
	return nil
}

// walkNodes visits a syntax tree's nodes, parents first, until visit returns false. Parents come first.
func walkNodes(v reflect.Value, visit func(ast.Node) (more bool)) bool {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return true
		}
		if node, ok := v.Interface().(ast.Node); ok && v.Kind() == reflect.Pointer && !visit(node) {
			return false
		}
		return walkNodes(v.Elem(), visit)
	case reflect.Slice:
		for i := range v.Len() {
			if !walkNodes(v.Index(i), visit) {
				return false
			}
		}
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[ast.Program]().PkgPath() {
			return true // positions
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "DeclarationList" && !walkNodes(v.Field(i), visit) {
				return false
			}
		}
	}
	return true
}
