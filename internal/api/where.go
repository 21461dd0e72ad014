package api

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/plan"
)

// Bounds of a condition over events.
const (
	maxWhereBytes = 4096
	maxWhereCost  = 1_000_000 // in CEL's units, for one event with the longest output
)

// whereEnv is built once: it is immutable, and takes milliseconds.
var whereEnv = sync.OnceValues(func() (*cel.Env, error) {
	pairs := cel.MapType(cel.StringType, cel.StringType)
	options := []cel.EnvOption{
		cel.Variable("event.status", cel.IntType),
		cel.Variable("event.severity", cel.IntType),
		cel.Variable("event.output", cel.StringType),
		cel.Variable("event.check", cel.StringType),
		cel.Variable("event.occurrences", cel.IntType),
		cel.Variable("event.stateChanges", cel.IntType),
		cel.Variable("event.results", cel.IntType),
		cel.Variable("event.lost", cel.IntType),
		cel.Variable("event.expired", cel.BoolType),
		cel.Variable("event.problem", cel.BoolType),
		cel.Variable("event.received", cel.TimestampType),
		cel.Variable("event.executed", cel.TimestampType),
		cel.Variable("event.changed", cel.TimestampType),
		cel.Variable("event.lastOK", cel.TimestampType),
		cel.Variable("now", cel.TimestampType),
		cel.Variable("node.name", cel.StringType),
		cel.Variable("node.namespace", cel.StringType),
		cel.Variable("node.labels", pairs),
		cel.Variable("node.facts", pairs),
		cel.Variable("node.groups", cel.ListType(cel.StringType)),
		cel.ParserExpressionSizeLimit(maxWhereBytes),
		cel.ParserRecursionLimit(64),
	}
	for s := model.OK; s <= model.Unknown; s++ {
		options = append(options, cel.Constant(s.String(), cel.IntType, types.Int(s)))
	}
	return cel.NewEnv(options...)
})

// where is a compiled condition over an event and its node. Safe for concurrent use.
type where struct {
	program   cel.Program
	needsNode bool // reads more of the node than its name
}

// compileWhere checks a condition and says what is wrong with it, and in which column.
func compileWhere(expr string) (*where, error) {
	env, err := whereEnv()
	if err != nil {
		return nil, fmt.Errorf("prepare conditions: %w", err)
	}
	if len(expr) > maxWhereBytes {
		return nil, model.Errorf(model.Invalid, "where: the condition has %d bytes, at most %d are allowed", len(expr), maxWhereBytes)
	}
	ast, issues := env.Compile(expr)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, model.Errorf(model.Invalid, "where: column %d of %q: %s", first.Location.Column()+1, expr,
			strings.ReplaceAll(first.Message, " (in container '')", "")).
			WithHint(`the language is CEL, for example: event.status == CRITICAL && node.labels.env == "prod" && now - event.changed > duration("1h")`)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, model.Errorf(model.Invalid, "where: %q gives a %s, not true or false", expr, ast.OutputType()).
			WithHint("compare it, for example: event.occurrences > 3")
	}
	estimate, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return nil, fmt.Errorf("estimate condition %q: %w", expr, err)
	}
	if estimate.Max > maxWhereCost {
		return nil, model.Errorf(model.Invalid, "where: the condition could cost %d steps for one event, at most %d are allowed", estimate.Max, maxWhereCost).
			WithHint("avoid nested exists() and all(), and several matches() over event.output")
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, model.Errorf(model.Invalid, "where: %q: %w", expr, err)
	}
	w := &where{program: program}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		if strings.HasPrefix(ref.Name, "node.") {
			w.needsNode = true
		}
	}
	return w, nil
}

// sizes tells CEL's estimate how large variables can be.
type sizes struct{}

func (sizes) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	switch element.Type().Kind() {
	case types.MapKind, types.ListKind:
		return &cost.SizeEstimate{Max: 128}
	case types.StringKind:
		if path := element.Path(); len(path) > 0 && path[0] == "event.output" {
			return &cost.SizeEstimate{Max: 64 << 10}
		}
		return &cost.SizeEstimate{Max: 256}
	}
	return nil
}

func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// subject is one event as a condition sees it: the activation of one request,
// reused from state to state, so that looking through a million events does not
// allocate a map for each. Not safe for concurrent use.
type subject struct {
	where     *where
	directory plan.Directory
	now       time.Time
	state     *event.State

	node       *plan.Candidate
	nodeID     model.NodeID // whose data node shows
	check      model.CheckID
	checkName  string
	statuses   [4]celref.Val
	severities [8]celref.Val
}

var _ interpreter.Activation = (*subject)(nil)

func (w *where) subject(d plan.Directory, now time.Time) *subject {
	x := &subject{where: w, directory: d, now: now, node: plan.NewCandidate()}
	for i := range x.statuses {
		x.statuses[i] = types.Int(i)
	}
	for i := range x.severities {
		x.severities[i] = types.Int(i)
	}
	return x
}

// match says whether the condition holds. An error of evaluation (a list's index out
// of range, say) is no match.
func (x *subject) match(s *event.State) (bool, error) {
	x.state = s
	if x.where.needsNode && x.nodeID != s.Node {
		namespace, name, _ := x.directory.NodeName(s.Node)
		x.node.Set(namespace, name, x.directory.NodeLabels(s.Node), x.directory.NodeFacts(s.Node), x.directory.NodeGroups(s.Node))
		x.nodeID = s.Node
	}
	out, _, err := x.where.program.Eval(x)
	return err == nil && out == types.True, nil
}

// Parent implements interpreter.Activation.
func (x *subject) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation. It gives CEL's own values, so that
// nothing has to be converted by reflection.
func (x *subject) ResolveName(name string) (any, bool) {
	s := x.state
	switch name {
	case "event.status":
		return x.statuses[s.Status&3], true
	case "event.severity":
		return x.severities[s.Severity&7], true
	case "event.output":
		return types.String(s.Output), true
	case "event.check":
		if x.check != s.Check {
			_, x.checkName, _ = x.directory.CheckName(s.Check)
			x.check = s.Check
		}
		return types.String(x.checkName), true
	case "event.occurrences":
		return types.Int(s.Occurrences), true
	case "event.stateChanges":
		return types.Int(s.StateChanges), true
	case "event.results":
		return types.Int(s.Results), true
	case "event.lost":
		return types.Int(s.Lost), true
	case "event.expired":
		return types.Bool(s.Expired), true
	case "event.problem":
		return types.Bool(s.Problem != nil), true
	case "event.received":
		return types.Timestamp{Time: time.Unix(0, s.Received).UTC()}, true
	case "event.executed":
		return types.Timestamp{Time: time.Unix(0, s.Executed).UTC()}, true
	case "event.changed":
		return types.Timestamp{Time: time.Unix(0, s.Changed).UTC()}, true
	case "event.lastOK":
		return types.Timestamp{Time: time.Unix(0, s.LastOK).UTC()}, true
	case "now":
		return types.Timestamp{Time: x.now}, true
	}
	return x.node.ResolveName(name)
}
