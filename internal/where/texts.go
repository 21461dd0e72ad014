package where

import (
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/muster-fleet/muster/internal/model"
)

// readsPairs reports roughly whether a condition reads labels or facts, to choose a hint.
func readsPairs(expr string) bool {
	return strings.Contains(expr, "node.facts") || strings.Contains(expr, "node.labels")
}

// orders lists the comparisons that differ between strings and numbers.
var orders = [...]string{operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals}

// texts refuses to order a variable against a quoted number: as strings, "16" comes before "4".
func (l *Language) texts(checked *cel.Ast) error {
	var found error
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if found != nil || e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		for _, o := range orders {
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
				found = model.Errorf(model.Invalid, "where: %q is a text here: as text \"16\" comes before \"4\"", string(text)).
					WithHint("compare numbers: %s(…) on the one side and %s without quotes on the other, for example int(node.facts.cpus) > 4", what, string(text))
				return
			}
		}
	}))
	return found
}
