package filter

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/token"
)

// addend is the function that the right side of every + goes through; no expression can
// spell its name.
const addend = " addend"

// checkSyntax refuses syntax that is not on the list below, and wraps the right side of every +,
// so that a text cannot double itself thirty times before anybody looks.
func checkSyntax(whole *ast.Program, expression string) error {
	k := &syntaxChecker{expression: expression}
	walk(reflect.ValueOf(whole.Body), func(n ast.Node) bool { k.node(n); return k.err == nil })
	return k.err
}

type syntaxChecker struct {
	expression string
	at         file.Idx
	err        error
}

func (k *syntaxChecker) refuse(what string) {
	if k.err == nil {
		k.err = wrong(k.expression, k.at, "%s is not part of what filters may use", what)
	}
}

// node checks one node. It refuses all syntax that is not listed: classes, generators, async, spread, destructuring,
// template texts, getters, with.
func (k *syntaxChecker) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpression:
		if n.Operator == token.PLUS {
			n.Right = guarded(n.Right)
		}
		if logical(n) && !logical(n.Left) && constant(n.Left) {
			n.Left = boundOperand(n.Left)
		}
	case *ast.AssignExpression:
		if n.Operator == token.PLUS {
			n.Right = guarded(n.Right)
		}
	case *ast.Identifier:
		k.at = n.Idx
	case *ast.StringLiteral:
		k.at = n.Idx
	case *ast.NumberLiteral:
		k.at = n.Idx
	case *ast.RegExpLiteral:
		k.at = n.Idx
		if err := checkPattern(n.Pattern); err != nil && k.err == nil {
			k.err = wrong(k.expression, n.Idx, "%w", err)
		}
		if strings.Trim(n.Flags, "gim") != "" {
			k.refuse("a regular expression with the flags " + n.Flags)
		}
	case *ast.FunctionLiteral:
		if n.Async || n.Generator {
			k.at = n.Function
			k.refuse("a function that is async or a generator")
		}
	case *ast.ArrowFunctionLiteral:
		if n.Async {
			k.at = n.Start
			k.refuse("a function that is async")
		}
	case *ast.ParameterList:
		if n.Rest != nil {
			k.at = n.Opening
			k.refuse("a rest parameter")
		}
	case *ast.PropertyKeyed:
		if n.Kind != ast.PropertyKindValue && n.Kind != ast.PropertyKindMethod {
			k.refuse("a getter or setter")
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
		k.refuse(strings.TrimPrefix(reflect.TypeOf(n).String(), "*ast."))
	}
}

func guarded(right ast.Expression) ast.Expression {
	switch right.(type) {
	case *ast.StringLiteral, *ast.NumberLiteral:
		return right
	}
	return boundOperand(right)
}

func boundOperand(right ast.Expression) ast.Expression {
	at := right.Idx0()
	return &ast.CallExpression{Callee: &ast.Identifier{Name: addend, Idx: at}, LeftParenthesis: at, ArgumentList: []ast.Expression{right}, RightParenthesis: at}
}

func logical(x ast.Expression) bool {
	b, ok := x.(*ast.BinaryExpression)
	return ok && (b.Operator == token.LOGICAL_AND || b.Operator == token.LOGICAL_OR || b.Operator == token.COALESCE)
}

// constant says whether the compiler would work x out. It does so for both sides of && and
// || again and again: true && true && … takes twice as long with every one more.
func constant(x ast.Expression) bool {
	switch x := x.(type) {
	case *ast.BooleanLiteral, *ast.NumberLiteral, *ast.StringLiteral, *ast.NullLiteral:
		return true
	case *ast.UnaryExpression:
		return constant(x.Operand)
	case *ast.BinaryExpression:
		return constant(x.Left) && constant(x.Right)
	}
	return false
}
