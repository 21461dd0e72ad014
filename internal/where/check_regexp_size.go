package where

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/muster-fleet/muster/internal/model"
)

// maxPatternSteps bounds the instructions of a regular expression. CEL's cost estimate knows only the length of its
// text, and a short text such as .{1000} has many instructions.
const maxPatternSteps = 500

// checkPatterns returns an error for a matches() call whose regular expression is too large or computed at
// evaluation.
func checkPatterns(a *ast.AST) error {
	for _, e := range ast.MatchDescendants(ast.NavigateAST(a), ast.FunctionMatcher(overloads.Matches)) {
		args := e.AsCall().Args()
		pattern := args[len(args)-1]
		column := a.SourceInfo().GetStartLocation(pattern.ID()).Column() + 1
		if pattern.Kind() != ast.LiteralKind {
			return model.Errorf(model.Invalid, "where: error at column %d: the regular expression of matches() is computed", column).
				WithHint("write it as a quoted text, for example: node.name.matches(\"^web[0-9]+$\")")
		}
		text, _ := pattern.AsLiteral().(types.String)
		if steps, err := types.RegexProgramSize(string(text)); err == nil && steps > maxPatternSteps {
			return model.Errorf(model.Invalid, "where: error at column %d: the regular expression has %d steps, the limit is %d", column, steps, maxPatternSteps)
		}
	}
	return nil
}
