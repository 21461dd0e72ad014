package plan

import (
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of a condition: they hold before the first node is looked at, so that
// evaluation needs no counting of its own.
const (
	maxWhereBytes = 4096
	maxWhereCost  = 100_000 // in CEL's units; a comparison of a label is about 3
	maxPairs      = 128     // labels or facts assumed of a node when estimating
	maxPairBytes  = 256
)

// Where is a compiled CEL condition over a node. The variables are node.name,
// node.namespace, node.labels, node.facts (maps of strings) and node.groups (a list
// of strings). A label or fact that is not there reads as "": node.labels.env !=
// "prod" holds for a node without the label, and has(node.labels.env) tells apart.
// Safe for concurrent use, each caller with its own Candidate.
type Where struct {
	Expr        string
	program     cel.Program
	readsGroups bool
}

// whereEnv is built once: it is immutable, and takes milliseconds.
var whereEnv = sync.OnceValues(func() (*cel.Env, error) {
	pairs := cel.MapType(cel.StringType, cel.StringType)
	return cel.NewEnv(
		cel.Variable("node.name", cel.StringType),
		cel.Variable("node.namespace", cel.StringType),
		cel.Variable("node.labels", pairs),
		cel.Variable("node.facts", pairs),
		cel.Variable("node.groups", cel.ListType(cel.StringType)),
		cel.ParserExpressionSizeLimit(maxWhereBytes),
		cel.ParserRecursionLimit(64),
	)
})

// CompileWhere checks a condition and says what is wrong with it, and in which column.
func CompileWhere(expr string) (*Where, error) {
	if strings.TrimSpace(expr) == "" {
		return nil, model.Errorf(model.Invalid, "where: the condition is empty").
			WithHint(`write something like node.labels.env == "prod"`)
	}
	if len(expr) > maxWhereBytes {
		return nil, model.Errorf(model.Invalid, "where: the condition has %d bytes, at most %d are allowed", len(expr), maxWhereBytes)
	}
	env, err := whereEnv()
	if err != nil {
		return nil, fmt.Errorf("prepare conditions: %w", err)
	}
	ast, issues := env.Compile(expr)
	if issues.Err() != nil {
		return nil, whereError(expr, issues)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, model.Errorf(model.Invalid, "where: %q gives a %s, not true or false", expr, ast.OutputType()).
			WithHint(`compare it, for example: node.labels.env == "prod"`)
	}
	estimate, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return nil, fmt.Errorf("estimate condition %q: %w", expr, err)
	}
	if estimate.Max > maxWhereCost {
		return nil, model.Errorf(model.Invalid, "where: the condition could cost %d steps for one node, at most %d are allowed", estimate.Max, maxWhereCost).
			WithHint("avoid nested exists() and all() over labels and facts")
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, model.Errorf(model.Invalid, "where: %q: %w", expr, err)
	}
	return &Where{Expr: expr, program: program, readsGroups: mentionsGroups(ast)}, nil
}

// ReadsGroups says whether the condition reads node.groups, which a group's own
// `where` may not.
func (w *Where) ReadsGroups() bool { return w.readsGroups }

// Match evaluates the condition. An error (an index out of a list's range, say) is
// no match.
func (w *Where) Match(c *Candidate) bool {
	out, _, err := w.program.Eval(c)
	return err == nil && out == types.True
}

func whereError(expr string, issues *cel.Issues) error {
	first := issues.Errors()[0]
	e := model.Errorf(model.Invalid, "where: column %d of %q: %s", first.Location.Column()+1, expr,
		strings.ReplaceAll(first.Message, " (in container '')", ""))
	if strings.HasPrefix(first.Message, "undeclared reference") || strings.HasPrefix(first.Message, "undefined field") {
		return e.WithHint("a condition reads node.name, node.namespace, node.labels, node.facts and node.groups")
	}
	if strings.HasPrefix(first.Message, "found no matching overload") {
		return e.WithHint(`labels and facts are strings: compare them with "quoted" text`)
	}
	return e.WithHint(`the language is CEL, for example: node.labels.env == "prod" && node.name.startsWith("web")`)
}

func mentionsGroups(ast *cel.Ast) bool {
	for _, ref := range ast.NativeRep().ReferenceMap() {
		if ref.Name == "node.groups" {
			return true
		}
	}
	return false
}

// sizes tells CEL's estimate how large a node's variables can be.
type sizes struct{}

func (sizes) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	switch element.Type().Kind() {
	case types.MapKind, types.ListKind:
		return &cost.SizeEstimate{Max: maxPairs}
	case types.StringKind:
		return &cost.SizeEstimate{Max: maxPairBytes}
	}
	return nil
}

func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
