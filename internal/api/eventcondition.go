package api

import (
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

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

// variables are what ResolveName answers, and the names of statuses.
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

// subject is one event as a condition sees it: the activation of one request,
// reused from state to state, so that looking through a million events does not
// allocate a map for each. Not safe for concurrent use.
type subject struct {
	where     *where.Compiled
	directory Directory
	now       time.Time
	state     *event.State

	node       *where.Node // set only where the condition reads more than events
	readsNode  bool
	nodeID     model.NodeID // whose data node shows
	check      model.CheckID
	checkName  string
	statuses   [4]celref.Val
	severities [8]celref.Val
}

var _ interpreter.Activation = (*subject)(nil)

func newSubject(w *where.Compiled, d Directory, now time.Time) *subject {
	x := &subject{where: w, directory: d, now: now, node: where.NewNode(), readsNode: w.Reads("node.")}
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
	if x.readsNode && x.nodeID != s.Node {
		namespace, name, _ := x.directory.NodeName(s.Node)
		x.node.Set(namespace, name, where.MakePairs(x.directory.NodeLabels(s.Node)), where.MakePairs(x.directory.NodeFacts(s.Node)))
		x.node.SetGroups(x.directory.NodeGroups(s.Node))
		x.nodeID = s.Node
	}
	out, _, err := x.where.Program.Eval(x)
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
