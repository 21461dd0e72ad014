package events

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/api/list"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/where"
)

// limitToGroup restricts an event query to the members of a group. An empty group name means no restriction.
func limitToGroup(ctx context.Context, v *view.View, q *event.Query, namespace, group string) (err error) {
	if group == "" {
		return nil
	}
	if q.Nodes == nil {
		q.Nodes = v.Directory.Nodes(namespace)
	}
	q.Nodes, err = v.KeepGroupMembers(ctx, q.Nodes, namespace, group)
	if q.Nodes == nil {
		q.Nodes = []model.NodeID{} // a query with nil would select all nodes
	}
	return err
}

// Selection has the query parameters that select events by namespace, node, check and group.
type Selection struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Node      string `query:"node" maxLength:"253"`
	Check     string `query:"check" maxLength:"253"`
	Group     string `query:"group" maxLength:"253" doc:"Only nodes that are members of this group now."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels of the node, and of the open problem, which win: env=prod,scope!=notice"`
}

// Filter has the query parameters by which a request selects events.
type Filter struct {
	Selection
	Status  string `query:"status" maxLength:"64" doc:"Names or digits, comma-separated: critical,unknown"`
	Problem bool   `query:"problem" doc:"Only events with an open problem."`
	Where   string `query:"where" maxLength:"4096" doc:"CEL over event.* and node.*, for example event.occurrences > 3 && node.labels.env == \"prod\""`
}

// maxShownNamespaces is the greatest number of further namespaces whose events an answer counts.
const maxShownNamespaces = 5

// CountEventsByNamespace returns event counts per namespace except the given one, the namespace with most
// failing events first.
func CountEventsByNamespace(v *view.View, except string) (list []v1.NamespaceEvents) {
	for id, c := range v.Events.CountsByNamespace() {
		if name, ok := v.Directory.NamespaceName(id); ok && name != except && c.States > 0 {
			list = append(list, v1.NamespaceEvents{Namespace: name, Events: c.States, Wrong: c.NotOK()})
		}
	}
	slices.SortFunc(list, func(a, b v1.NamespaceEvents) int {
		return cmp.Or(cmp.Compare(b.Wrong, a.Wrong), cmp.Compare(b.Events, a.Events), cmp.Compare(a.Namespace, b.Namespace))
	})
	return list[:min(len(list), maxShownNamespaces)]
}

// BuildQuery converts the query parameters of a request to a query of the events in memory. A name that does not
// exist is an error.
func BuildQuery(ctx context.Context, v *view.View, in *Filter) (event.Query, error) {
	return buildQuery(ctx, v, in, false)
}

// buildQuery converts the query parameters of a request like BuildQuery. With future, the query also selects problems that
// open later, as a watch does.
func buildQuery(ctx context.Context, v *view.View, in *Filter, future bool) (event.Query, error) {
	q := event.Query{Problems: in.Problem}
	namespaces := []string{in.Namespace}
	if in.Namespace != "" {
		id, ok := v.Directory.NamespaceByName(in.Namespace)
		if !ok {
			return q, v.NamespaceNotFoundError(ctx, in.Namespace)
		}
		q.Namespaces = []model.NamespaceID{id}
	} else if in.Node != "" || in.Check != "" {
		var err error
		if namespaces, err = v.Namespaces(ctx); err != nil {
			return q, err
		}
	}
	if in.Node != "" {
		for _, ns := range namespaces {
			if id, ok := v.Directory.NodeByName(ns, in.Node); ok {
				q.Nodes = append(q.Nodes, id)
			}
		}
		if len(q.Nodes) == 0 {
			return q, v.NodeNotFoundError(ctx, in.Namespace, in.Node)
		}
	}
	if in.Check != "" {
		for _, source := range v.FindSourcesByName(namespaces, in.Check) {
			q.Checks, q.Instance = append(q.Checks, model.CheckID(source.ID)), source.Instance
		}
		if len(q.Checks) == 0 {
			return q, v.CheckNotFoundError(ctx, in.Namespace, in.Check)
		}
	}
	if in.Selector != "" {
		selector, err := directory.ParseSelector(in.Selector)
		if err != nil {
			return q, err
		}
		selectByLabels(v, &q, in.Namespace, selector, future)
	}
	for word := range strings.SplitSeq(in.Status, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		status, ok := model.ParseStatus(word)
		if !ok {
			return q, model.Errorf(model.Invalid, "unknown status %q", word).WithHint("ok, warning, critical or unknown; or 0 to 3")
		}
		q.Statuses = append(q.Statuses, status)
	}
	if in.Where != "" {
		compiled, err := eventConditions.Compile(in.Where)
		if err != nil {
			return q, err
		}
		labels, condition := q.Match, newConditionActivation(compiled, v).matchEvent
		q.Match, q.MatchWithin = condition, list.SearchTimeLimit
		if labels != nil {
			q.Match = func(s *event.State) (bool, error) {
				if ok, err := labels(s); !ok || err != nil {
					return false, err
				}
				return condition(s)
			}
		}
	}
	return q, limitToGroup(ctx, v, &q, in.Namespace, in.Group)
}

// selectByLabels restricts a query to events whose labels match a selector. Labels of an open problem hide labels of its
// node. Without a problem that has labels, a list of nodes is enough.
func selectByLabels(v *view.View, q *event.Query, namespace string, selector directory.Selector, future bool) {
	nodes := v.Directory.NodesMatching(namespace, selector)
	matches := func(node model.NodeID, problem *model.Problem) bool {
		if labels := problem.OwnLabels(); len(labels) > 0 {
			return selector.Matches(model.MergeTags(v.Directory.NodeLabels(node), labels))
		}
		_, ok := slices.BinarySearch(nodes, node)
		return ok
	}
	candidates, labelled := slices.Clone(nodes), future
	v.Events.OpenProblems(func(p *model.Problem) {
		if len(p.Labels) == 0 {
			return
		}
		if labelled = true; matches(p.NodeID, p) {
			candidates = append(candidates, p.NodeID)
		}
	})
	if labelled {
		q.Match = func(s *event.State) (bool, error) { return matches(s.Node, s.Problem), nil }
	}
	if future {
		return
	}
	if named := q.Nodes; named != nil {
		candidates = slices.DeleteFunc(candidates, func(id model.NodeID) bool { return !slices.Contains(named, id) })
	}
	if q.Nodes = candidates; candidates == nil {
		q.Nodes = []model.NodeID{} // a query with nil would select all nodes
	}
}

// Path has the namespace, node name and check name from an event's URL path.
type Path struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Node      string `path:"node" maxLength:"253"`
	Check     string `path:"check" maxLength:"253"`
}

// FindEvent returns the event in a request's path /NAMESPACE/NODE/CHECK. A check of the node's namespace comes before
// a shared check of the same name.
func FindEvent(ctx context.Context, v *view.View, in Path) (event.State, error) {
	node, ok := v.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return event.State{}, v.NodeNotFoundError(ctx, in.Namespace, in.Node)
	}
	sources := v.FindSourcesByName([]string{in.Namespace}, in.Check)
	for _, source := range sources {
		if st, ok := v.Events.Get(node, source); ok {
			return st, nil
		}
	}
	if len(sources) == 0 {
		return event.State{}, v.CheckNotFoundError(ctx, in.Namespace, in.Check)
	}
	e := model.Errorf(model.NotFound, "event %s/%s does not exist in namespace %s", in.Node, in.Check, in.Namespace)
	for _, source := range sources {
		if !v.DeclaresSource(source) {
			return event.State{}, v.CheckNotFoundError(ctx, in.Namespace, in.Check)
		}
		if v.Directory.RunsUnit(node, model.UnitID(source.ID)) {
			return event.State{}, model.Errorf(model.NotFound, "event %s/%s has no result yet: %s", in.Node, in.Check, firstResultDueText(v, node, source)).
				WithHint("see each step: muster why %s/%s/%s", in.Namespace, in.Node, in.Check)
		}
	}
	if _, own := v.Directory.CheckByName(in.Namespace, in.Check); own && model.BuiltinCheckID(in.Check) == 0 {
		return event.State{}, e.WithHint("the check does not run on this node: muster describe check %s", in.Check)
	}
	return event.State{}, e.WithHint("list events: muster get events -n %s --node %s", in.Namespace, in.Node)
}

// firstResultDueText describes when the first result of a check on a node is due.
func firstResultDueText(v *view.View, node model.NodeID, source model.Source) string {
	definition := v.Assigned(node, source.Check()).AsCheck()
	switch {
	case source.Kind == model.SourceTrigger:
		return "the trigger has not been true since it was declared"
	case source.Kind == model.SourceRule:
		return "no evaluation of the rule has raised the alert"
	case source.Kind == model.SourceDirective:
		return "every run of the directive was compliant, or none has been reported; see them: muster get compliance"
	case definition == nil || definition.Interval == 0 && definition.Cron == "":
		return "the check runs on this node, and its first result is due"
	case definition.Cron != "":
		return "the check runs on this node, its first result is due at the next time of cron " + definition.Cron
	}
	return "the check runs on this node, its first result is due within " + model.Duration(definition.Interval).String()
}

// FindSourceOnNode finds the check or trigger on a node by the check name in an event's URL path. Sources on
// the node come before other sources of its namespace.
func FindSourceOnNode(ctx context.Context, v *view.View, node model.NodeID, in Path) (model.Source, error) {
	sources := slices.DeleteFunc(v.FindSourcesByName([]string{in.Namespace}, in.Check), func(source model.Source) bool {
		_, ok := v.Events.Get(node, source) // of a trigger that its Template no longer has
		return !ok && !v.DeclaresSource(source)
	})
	if len(sources) == 0 {
		return model.Source{}, v.CheckNotFoundError(ctx, in.Namespace, in.Check)
	}
	for _, source := range sources {
		if v.Directory.RunsUnit(node, model.UnitID(source.ID)) {
			return source, nil
		}
	}
	return sources[0], nil
}

// eventConditions is the language of conditions over an event and its node.
var eventConditions = where.Language{
	Of: "event", MaxCost: 1_000_000,
	Reads: "event.status, .severity, .output, .check, .occurrences, .stateChanges, .results, .lost, .expired, .problem, .acknowledged, .flapping, .watermark, .labels, " +
		".received, .executed, .changed, .lastOK; now; node.name, .namespace, .labels, .facts, .groups",
	Example: `event.status == CRITICAL && node.labels.env == "prod" && now - event.changed > duration("1h")`,
	Bytes:   map[string]int{"event.output": 64 << 10},
	Options: conditionVariables,
}

// eventVariable describes one variable of an event, such as its status, for use in CEL conditions. value
// returns CEL's own values, which need no conversion by reflection.
type eventVariable struct {
	kind  *cel.Type
	value func(x *conditionActivation, s *event.State) celref.Val
}

// celTimestamp converts nanoseconds since 1970 to a CEL timestamp.
func celTimestamp(ns int64) celref.Val { return types.Timestamp{Time: time.Unix(0, ns).UTC()} }

// eventVariables returns a map from names to the variables that CEL conditions over an event may read
func eventVariables() map[string]eventVariable {
	return map[string]eventVariable{
		"event.status":   {cel.IntType, func(x *conditionActivation, s *event.State) celref.Val { return x.statuses[s.Status&3] }},
		"event.severity": {cel.IntType, func(x *conditionActivation, s *event.State) celref.Val { return x.severities[s.Severity&7] }},
		"event.output":   {cel.StringType, func(_ *conditionActivation, s *event.State) celref.Val { return types.String(s.Output) }},
		"event.check": {cel.StringType, func(x *conditionActivation, s *event.State) celref.Val {
			return types.String(x.checkNameOf(s.Source()))
		}},
		"event.occurrences":  {cel.IntType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Int(s.Occurrences) }},
		"event.stateChanges": {cel.IntType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Int(s.StateChanges) }},
		"event.results":      {cel.IntType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Int(s.Results) }},
		"event.lost":         {cel.IntType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Int(s.Lost) }},
		"event.expired":      {cel.BoolType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Bool(s.Expired) }},
		"event.problem":      {cel.BoolType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Bool(s.Problem != nil) }},
		"event.acknowledged": {cel.BoolType, func(x *conditionActivation, s *event.State) celref.Val {
			return types.Bool(s.Problem != nil && s.Problem.Ack.Active(x.now))
		}},
		"event.flapping": {cel.BoolType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Bool(s.Flapping) }},
		"event.labels": {cel.MapType(cel.StringType, cel.StringType), func(_ *conditionActivation, s *event.State) celref.Val {
			return where.TextMap(s.Problem.OwnLabels())
		}},
		"event.watermark": {cel.IntType, func(_ *conditionActivation, s *event.State) celref.Val { return types.Int(s.Watermark) }},
		"event.received":  {cel.TimestampType, func(_ *conditionActivation, s *event.State) celref.Val { return celTimestamp(s.Received) }},
		"event.executed":  {cel.TimestampType, func(_ *conditionActivation, s *event.State) celref.Val { return celTimestamp(s.Executed) }},
		"event.changed":   {cel.TimestampType, func(_ *conditionActivation, s *event.State) celref.Val { return celTimestamp(s.Changed) }},
		"event.lastOK":    {cel.TimestampType, func(_ *conditionActivation, s *event.State) celref.Val { return celTimestamp(s.LastOK) }},
		"now":             {cel.TimestampType, func(x *conditionActivation, _ *event.State) celref.Val { return types.Timestamp{Time: x.now} }},
	}
}

// conditionVariables declares the variables of CEL conditions over an event, and the statuses as constants
func conditionVariables() []cel.EnvOption {
	options := list.StatusConstants()
	for name, v := range eventVariables() {
		options = append(options, cel.Variable(name, v.kind))
	}
	return options
}

// conditionActivation gives a CEL condition the values of one event's variables. It is not safe for concurrent use.
type conditionActivation struct {
	where     *where.CompiledCondition
	variables map[string]eventVariable
	directory view.Directory
	now       time.Time
	state     *event.State

	node       *list.NodeReader
	readsNode  bool
	source     model.Source
	checkName  string
	statuses   [4]celref.Val
	severities [8]celref.Val
}

var _ interpreter.Activation = (*conditionActivation)(nil)

// newConditionActivation returns the values of event variables for one compiled CEL condition and one request.
func newConditionActivation(w *where.CompiledCondition, v *view.View) *conditionActivation {
	x := &conditionActivation{where: w, variables: eventVariables(), directory: v.Directory, now: v.Now(), node: list.NewNodeReader(v), readsNode: w.Reads("node.")}
	for i := range x.statuses {
		x.statuses[i] = types.Int(i)
	}
	for i := range x.severities {
		x.severities[i] = types.Int(i)
	}
	return x
}

// matchEvent reports whether a CEL condition is true for an event. An error of evaluation (an index out of range, say)
// makes it false.
func (x *conditionActivation) matchEvent(s *event.State) (bool, error) {
	if x.state = s; x.readsNode {
		x.node.Read(s.Node)
	}
	out, _, err := x.where.Program.Eval(x)
	return err == nil && out == types.True, nil
}

// Parent returns nil, because CEL variables of an event have no outer scope.
func (x *conditionActivation) Parent() interpreter.Activation { return nil }

// ResolveName returns the value of a variable for the event that the CEL condition is evaluated on
func (x *conditionActivation) ResolveName(name string) (any, bool) {
	if v, ok := x.variables[name]; ok {
		return v.value(x, x.state), true
	}
	return x.node.ResolveName(name)
}

// checkNameOf returns the name of an event's check or trigger as the value of a CEL variable. Events of one
// check often follow each other, so the function remembers the last name.
func (x *conditionActivation) checkNameOf(source model.Source) string {
	if x.source != source {
		_, name, _ := x.directory.SourceName(source)
		x.source, x.checkName = source, source.CommandName(name)
	}
	return x.checkName
}
