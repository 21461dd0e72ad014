package filter

import (
	"errors"
	"regexp/syntax"
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	MaxSource = 16 << 10 // bytes of one expression

	maxPattern = 256 // instructions of one regular expression
)

// Program is a compiled expression.
type Program struct {
	source string
	code   *goja.Program
	pool   sync.Pool // of *sandbox
	slow   suspension
}

// Compile reads an expression: statements, the last of which is the value. Errors say line
// and column, in characters from 1.
func Compile(expression string, libraries ...Library) (*Program, error) {
	if len(expression) > MaxSource {
		return nil, model.Errorf(model.TooLarge, "the expression has %d bytes, %d are allowed", len(expression), MaxSource)
	}
	if _, err := parse(expression, 0); err != nil {
		return nil, err
	}
	return compile(expression, true, libraries...)
}

// compile makes a function of an event from a source. With value, the function returns the value of its last statement.
func compile(source string, value bool, libraries ...Library) (*Program, error) {
	expression, err := withLibraries(libraries, source)
	if err != nil {
		return nil, err
	}
	// It is a function of its own, so that its variables end with the evaluation.
	whole, err := parse(head+expression+"\n})", len(head))
	if err != nil {
		return nil, err
	}
	var function *ast.FunctionLiteral
	if statement, ok := whole.Body[0].(*ast.ExpressionStatement); ok && len(whole.Body) == 1 {
		function, _ = statement.Expression.(*ast.FunctionLiteral)
	}
	if function == nil {
		return nil, model.Errorf(model.Invalid, "the expression closes a brace or a parenthesis that it did not open")
	}
	body := function.Body
	if err := checkSyntax(whole, expression); err != nil {
		return nil, err
	}
	if value {
		last, ok := lastOf(body)
		if !ok {
			return nil, model.Errorf(model.Invalid, "the expression does not end with a value").
				WithHint("its last statement says whether it is true, such as: event.check.status == 2")
		}
		*last = &ast.ReturnStatement{Return: (*last).Idx0(), Argument: (*last).(*ast.ExpressionStatement).Expression}
	}
	code, err := goja.CompileAST(whole, true)
	if err != nil {
		var bad *goja.CompilerSyntaxError
		if errors.As(err, &bad) {
			return nil, wrong(expression, file.Idx(bad.Offset+1), "%s", bad.Message)
		}
		return nil, model.Errorf(model.Invalid, "the expression cannot be compiled: %w", err)
	}
	return &Program{source: source, code: code}, nil
}

// head begins the function that an expression becomes.
const head = `(function(event){"use strict";`

// parse parses a source. before is the number of characters that the first line has in front of people's own.
func parse(source string, before int) (*ast.Program, error) {
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

// wrong says where: idx counts from 1 in head and expression.
func wrong(expression string, idx file.Idx, format string, args ...any) error {
	offset := min(max(int(idx)-1-len(head), 0), len(expression))
	line, column := 1, 1
	for _, c := range expression[:offset] {
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	err := model.Errorf(model.Invalid, format, args...)
	return model.Errorf(model.Invalid, "the expression is wrong at line %d, column %d: %w", line, column, err)
}

// lastOf finds the statement that is the value of the function.
func lastOf(body *ast.BlockStatement) (*ast.Statement, bool) {
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

// checkPattern allows regular expressions that are matched in one pass and are small.
func checkPattern(pattern string) error {
	plain, err := parser.TransformRegExp(pattern, false, false)
	if err != nil {
		return model.Errorf(model.Invalid, "the regular expression /%s/ cannot be matched in one pass: %w", pattern, err)
	}
	tree, err := syntax.Parse(plain, syntax.Perl)
	if err != nil {
		return model.Errorf(model.Invalid, "the regular expression /%s/: %w", pattern, err)
	}
	code, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return model.Errorf(model.Invalid, "the regular expression /%s/: %w", pattern, err)
	}
	if len(code.Inst) > maxPattern {
		return model.Errorf(model.TooLarge, "the regular expression /%.40s…/ has %d steps, %d are allowed", pattern, len(code.Inst), maxPattern)
	}
	return nil
}
