package events

import (
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/where"
)

// conditions is the language of conditions over an event and its node.
var conditions = where.Language{
	Of: "event", MaxCost: 1_000_000,
	Reads: "event.status, .severity, .output, .check, .occurrences, .stateChanges, .results, .lost, .expired, .problem, .acknowledged, .flapping, .watermark, " +
		".received, .executed, .changed, .lastOK; now; node.name, .namespace, .labels, .facts, .groups",
	Example: `event.status == CRITICAL && node.labels.env == "prod" && now - event.changed > duration("1h")`,
	Bytes:   map[string]int{"event.output": 64 << 10},
	Options: variables,
}

// variables are the names that ResolveName resolves, and the statuses.
func variables() []cel.EnvOption {
	list := []cel.EnvOption{
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
		cel.Variable("event.acknowledged", cel.BoolType),
		cel.Variable("event.flapping", cel.BoolType),
		cel.Variable("event.watermark", cel.IntType),
		cel.Variable("event.received", cel.TimestampType),
		cel.Variable("event.executed", cel.TimestampType),
		cel.Variable("event.changed", cel.TimestampType),
		cel.Variable("event.lastOK", cel.TimestampType),
		cel.Variable("now", cel.TimestampType),
	}
	for s := model.OK; s <= model.Unknown; s++ {
		list = append(list, cel.Constant(s.String(), cel.IntType, types.Int(s)))
	}
	return list
}

// conditionState is the event that a condition reads: the activation of one request, reused from
// event to event, so that a search through a million events allocates no map for each. It is not
// safe for concurrent use.
type conditionState struct {
	where     *where.Compiled
	directory view.Directory
	now       time.Time
	state     *event.State

	node       *list.NodeReader
	readsNode  bool
	check      model.CheckID
	checkName  string
	statuses   [4]celref.Val
	severities [8]celref.Val
}

var _ interpreter.Activation = (*conditionState)(nil)

func newConditionState(w *where.Compiled, v *view.View) *conditionState {
	x := &conditionState{where: w, directory: v.Directory, now: v.Now(), node: list.NewNodeReader(v), readsNode: w.Reads("node.")}
	for i := range x.statuses {
		x.statuses[i] = types.Int(i)
	}
	for i := range x.severities {
		x.severities[i] = types.Int(i)
	}
	return x
}

// match reports whether the condition is true. An error of evaluation (an index out of range, say)
// makes it false.
func (x *conditionState) match(s *event.State) (bool, error) {
	if x.state = s; x.readsNode {
		x.node.Read(s.Node)
	}
	out, _, err := x.where.Program.Eval(x)
	return err == nil && out == types.True, nil
}

// Parent implements interpreter.Activation.
func (x *conditionState) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation. It returns CEL's own values, which need no
// conversion by reflection.
func (x *conditionState) ResolveName(name string) (any, bool) {
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
	case "event.acknowledged":
		return types.Bool(s.Problem != nil && s.Problem.Ack.Active(x.now)), true
	case "event.flapping":
		return types.Bool(s.Flapping), true
	case "event.watermark":
		return types.Int(s.Watermark), true
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
