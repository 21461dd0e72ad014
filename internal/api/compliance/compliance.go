// Package compliance answers about directives: their last runs on the nodes, and sums by policy, directive, component, node and group.
// A run counts by the decision table of package policy. Sums keeps the sums of the present; mutexes guard it. The package has no
// goroutines; start reading at Register, and for the sums at Sums.refresh.
package compliance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options has the server's readers of policy directives and their runs.
type Options struct {
	// Runs returns the last runs of a node, ascending by directive.
	Runs func(model.NodeID) []reducer.Run
	// LastRun returns the last run of a directive on a node; false: there is none.
	LastRun func(model.NodeID, model.UnitID) (reducer.Run, bool)
	// Changes returns the runs that changed since its last call; its caller judges them at the time now.
	Changes func(now time.Time) []reducer.RunChange
	// Placements returns the present snapshot of all nodes, directives and groups.
	Placements func() directory.FleetSnapshot
	// Definition returns a definition by its id; nil: unknown.
	Definition func(model.DefinitionID) *model.Definition
	// Version returns the definition of a directive that a node has.
	Version func(*directory.Unit, model.NodeID) *model.Definition
	// Since returns the arrival time of a directive on a node; for arrivals before the start of the server, the start.
	Since func(model.NodeID, model.UnitID) time.Time
	// Mode returns the mode of the directives on a node.
	Mode func(model.NodeID) model.NodeMode
	// History answers about past runs.
	History History
	// Chain returns the server's copy of the chain of a node's signed runs.
	Chain func(model.NodeID) reducer.Chain
	// CA returns the certificate of the server's CA (PEM).
	CA func() string
	// Overridden returns the directives of a node that others override, ascending.
	Overridden func(model.NodeID) []directory.Override
	// Log gets the policies whose targets do not compile.
	Log *slog.Logger
}

// complianceRequest handles an HTTP request about compliance. Its methods are the operations of the API.
type complianceRequest struct {
	op.Request
	statusEvaluator
	sums       *FleetCompliance
	waived     *view.Waivers                    // nil: the request shows none
	pastRuns   pastRuns                         // at the time that the request asks for; nil: it asks for the present
	units      map[model.UnitID]*directory.Unit // directives that unit has looked up; nil: no directive
	directives []nodeDirective                  // of the last directivesOf
}

// Register adds the API operations about compliance to the server.
func Register(r *op.Routes, sums *FleetCompliance) {
	at := op.NewOperationSet(r, func(q op.Request) *complianceRequest {
		return &complianceRequest{Request: q, sums: sums, statusEvaluator: statusEvaluator{Options: sums.Options}}
	})
	op.Handle(at, op.Get("listCompliance", "/api/v1/compliance", "compliance", "List directives on nodes with the outcome of their last runs, by node and directive", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).listCompliance)
	op.Handle(at, op.Get("reportCompliance", "/api/v1/reports/compliance", "reports", "Report compliance by policy, directive, component, node or group, least compliant first", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).reportCompliance)
	op.Handle(at, op.Get("reportComplianceDays", "/api/v1/reports/compliance/days", "reports", "Report compliance by day (UTC), with drift, remediation and changes of declarations", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).reportDays)
	op.Handle(at, op.Get("complianceEvidence", "/api/v1/reports/compliance/evidence", "reports", "Get the history of the directive runs of a node with its signatures", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).answerEvidence)
}

// findDirective returns the policy directive with the given id, or nil if no directive has that id. A list of the fleet asks
// for each a thousand times.
func (s *complianceRequest) findDirective(id model.UnitID) *directory.Unit {
	unit, known := s.units[id]
	if !known {
		if unit = s.Directory.SourceUnit(model.DirectiveSource(id)); unit != nil && unit.Definition.AsDirective() == nil {
			unit = nil
		}
		if s.units == nil {
			s.units = map[model.UnitID]*directory.Unit{}
		}
		s.units[id] = unit
	}
	return unit
}

// directivesOf returns the policy directives of a node, ascending by id, each with its present component
// statuses. The list is valid until the next call.
func (s *complianceRequest) directivesOf(node model.NodeID) []nodeDirective {
	if s.pastRuns != nil {
		return s.pastRuns[node]
	}
	s.startEvaluation(s.Now())
	s.directives = s.directives[:0]
	var runs []reducer.Run
	for _, id := range s.Directory.NodeUnits(node) {
		unit := s.findDirective(id)
		if unit == nil {
			continue
		}
		if runs == nil {
			runs = s.Runs(node)
		}
		var run *reducer.Run
		if i, ok := reducer.FindRun(runs, id); ok {
			run = &runs[i]
		}
		s.directives = append(s.directives, s.evaluateDirective(node, unit, run))
	}
	return s.directives
}

// listCompliance returns a page of policy directives on nodes.
func (s *complianceRequest) listCompliance(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Node      string `query:"node" maxLength:"253" doc:"Of this node; needs namespace."`
	Directive string `query:"directive" maxLength:"510" doc:"Of this Directive: NAME, or NAMESPACE/NAME of another namespace than the node's."`
	Policy    string `query:"policy" maxLength:"510" doc:"Of the directives and nodes of this Policy: NAME or NAMESPACE/NAME; needs namespace."`
	Status    string `query:"status" maxLength:"32" doc:"With this status."`
	Details   bool   `query:"details" doc:"With all components."`
	AtTime
	DirectiveSelection
	list.NodeRows
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"4096" doc:"The field next of the page before."`
}) (*op.Body[v1.ComplianceList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	if in.Status != "" && !slices.Contains(statusNames(), in.Status) {
		return nil, model.Errorf(model.Invalid, "unknown status %q", in.Status).WithHint("one of: %s", strings.Join(statusNames(), ", "))
	}
	selected, err := s.selectDirectives(in.DirectiveSelection)
	if err != nil {
		return nil, err
	}
	filter, err := list.NewNodeRowFilter(ctx, s.View, in.NodeRows)
	if err == nil {
		err = s.loadRuns(ctx, in.AtTime, in.Namespace, in.Node)
	}
	if err == nil && in.At.IsZero() {
		s.waived, err = s.ReadWaivers(ctx)
	}
	if err != nil {
		return nil, err
	}
	nodes := filter.Nodes(s.View, in.Namespace)
	var directives []model.UnitID // of the policy
	if in.Policy != "" {
		p, err := s.findPolicy(ctx, in.Namespace, in.Policy)
		if err != nil {
			return nil, err
		}
		nodes, directives = slices.DeleteFunc(nodes, func(id model.NodeID) bool { return !p.nodes.Contains(uint32(id)) }), p.directives
	}
	if in.Node != "" {
		node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
		if !ok {
			return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
		}
		nodes = slices.DeleteFunc(nodes, func(id model.NodeID) bool { return id != node })
	}
	nodes = slices.Sorted(slices.Values(nodes)) // a page continues behind a node, even behind a deleted one
	type row struct {
		node  model.NodeID
		shown v1.Compliance
	}
	items, next, err := list.ReadPage(s.View, list.PagedRows[row]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) (rows []row, err error) {
			first, _ := slices.BinarySearch(nodes, model.NodeID(behind.Number))
			for _, node := range nodes[first:] {
				ofNode := []row{}
				add := func(id model.UnitID, shown v1.Compliance) {
					if in.Policy != "" && !slices.Contains(directives, id) || selected != nil && !selected(id) || in.Directive != "" && shown.Directive != in.Directive || in.Status != "" && shown.Status != in.Status ||
						node == model.NodeID(behind.Number) && shown.Directive <= behind.ID {
						return
					}
					ofNode = append(ofNode, row{node, shown})
				}
				for _, d := range s.directivesOf(node) {
					add(d.definition.Unit, s.convertDirective(&d, in.Details))
				}
				for _, o := range s.overriddenOf(node) {
					add(o.Unit, s.convertOverridden(node, o))
				}
				slices.SortFunc(ofNode, func(a, b row) int { return cmp.Compare(a.shown.Directive, b.shown.Directive) })
				if rows = append(rows, ofNode...); len(rows) >= size {
					return rows[:size], nil
				}
			}
			return rows, nil
		},
		Cursor: func(r *row) list.Cursor { return list.Cursor{Number: int64(r.node), ID: r.shown.Directive} },
	}, func(r *row) (model.NodeID, v1.Compliance) { return r.node, r.shown })
	return op.Answer(v1.ComplianceList{Items: items, Next: next}), err
}

// convertDirective converts the state of a policy directive on a node to the API type Compliance. Names replace the ids.
func (s *complianceRequest) convertDirective(d *nodeDirective, details bool) v1.Compliance {
	namespace, node, _ := s.Directory.NodeName(d.node)
	counts, worst := d.counts()
	mode := s.Mode(d.node)
	enforces := mode.EnforcesDirective(d.definition)
	out := v1.Compliance{
		Namespace: namespace, Node: node, Directive: s.directiveName(namespace, d.definition.Unit), Technique: d.definition.Technique,
		Mode: modeName(enforces), Status: worst.String(), Percent: counts.Compliance(2), Counts: countsByName(&counts), Reason: d.notCounted,
	}
	if d.run != nil {
		out.Mode = modeName(d.run.Enforced)
		switch {
		case d.run.Definition != d.definition.ID || d.run.Enforced || out.Reason != "" || s.pastRuns != nil || d.definition.Rudder != "":
		case enforces:
			out.Reason = "the directive enforces, but the agent only audits: start the agent with --policy-enforce"
		case mode.Enforces(d.definition.Mode):
			out.Reason = fmt.Sprintf("the directive enforces, but only audits here, because the machine itself can choose to get it: muster why %s/%s", node, out.Directive)
		case d.definition.Mode == model.ModeEnforce:
			out.Reason = fmt.Sprintf("the directive enforces, but %s has the mode audit (spec.policyMode)", mode.Fixed)
		default:
			if name := auditedComponent(mode, d); name != "" {
				out.Reason = fmt.Sprintf("component %s enforces, but the agent only audits: start the agent with --policy-enforce", name)
			}
		}
		out.Run, out.Changed, out.DurationMs = time.Unix(0, d.run.Executed).UTC(), time.Unix(0, d.run.Changed).UTC(), d.run.DurationMs
		if d.definition.OneShot != nil {
			out.Run = out.Changed // agents repeat the report of the only run
		}
	}
	if s.waived != nil {
		out.Waivers = s.waived.Covering(d.node, d.definition)
	}
	if details {
		for i := range d.definition.Components {
			component := &d.definition.Components[i]
			enforced, known := d.codes[i].Enforced()
			if !known { // an agent that only audits does so with each component
				enforced = mode.EnforcesComponent(d.definition, component) && (d.run == nil || d.run.Enforced || !enforces)
			}
			c := v1.ComponentStatus{Name: component.Name, Method: component.Method, Mode: modeName(enforced), Status: d.codes[i].String()}
			if d.run != nil && d.run.Definition == d.definition.ID {
				c.Message = d.run.Message(i)
			}
			if d.codes[i] == policy.Waived {
				c.Waiver = coveringWaiver(out.Waivers, c.Name)
			}
			out.Components = append(out.Components, c)
		}
		for i, counts := range policy.CountBlocks(d.status, d.definition.Blocks) {
			b := &d.definition.Blocks[i]
			out.Blocks = append(out.Blocks, v1.BlockCompliance{Name: b.Name, Reporting: b.Reporting.String(), Percent: counts.Compliance(2), Counts: countsByName(&counts)})
		}
		if n := len(d.definition.Components); len(d.codes) > n {
			for _, e := range wire.UnexpectedComponents(d.run.Exceptions(), n) {
				out.Components = append(out.Components, v1.ComponentStatus{Name: policy.Unexpected.String(), Mode: out.Mode, Status: policy.Unexpected.String(), Message: e.Message})
			}
		}
	}
	return out
}

// auditedComponent returns the name of a non-compliant component (checked part of a directive) that was
// audited, not enforced. Only a component whose own mode enforces counts; the text is empty without such a
// component.
func auditedComponent(mode model.NodeMode, d *nodeDirective) string {
	for i := range d.definition.Components {
		c := &d.definition.Components[i]
		if c.Mode == model.ModeEnforce && d.codes[i] == policy.NonCompliant && mode.EnforcesComponent(d.definition, c) {
			return c.Name
		}
	}
	return ""
}

// coveringWaiver returns the name of the first Waiver (permitted exception) for a component (checked part of a
// directive). Without such a Waiver, the text is empty.
func coveringWaiver(list []v1.ComplianceWaiver, component string) string {
	i := slices.IndexFunc(list, func(w v1.ComplianceWaiver) bool {
		return len(w.Components) == 0 || slices.Contains(w.Components, component)
	})
	if i < 0 {
		return ""
	}
	return list[i].Name
}

// convertOverridden converts a policy directive that another directive overrides on a node to the API type. Such a
// directive has no effect on the node.
func (s *complianceRequest) convertOverridden(id model.NodeID, o directory.Override) v1.Compliance {
	namespace, node, _ := s.Directory.NodeName(id)
	out := v1.Compliance{Namespace: namespace, Node: node, Directive: s.directiveName(namespace, o.Unit), Status: overridden, Counts: map[string]int{}}
	out.OverriddenBy = s.directiveName(namespace, o.By)
	out.Reason = fmt.Sprintf("directive %s of the same technique runs in its place: muster why %s/%s", out.OverriddenBy, node, out.Directive)
	if unit := s.Directory.SourceUnit(model.DirectiveSource(o.Unit)); unit != nil {
		d := unit.Definition.AsDirective()
		out.Technique, out.Mode = d.Technique, modeName(s.Mode(id).EnforcesDirective(d))
	}
	return out
}

// overridden is the status of a directive that another one overrides. It counts nowhere.
const overridden = "overridden"

// statusNames returns the names of the statuses of a policy directive on a node.
func statusNames() []string {
	names := make([]string, policy.Statuses, policy.Statuses+1)
	for i := range names {
		names[i] = policy.Status(i).String()
	}
	return append(names, overridden)
}

// modeName returns the name of a policy mode, audit or enforce.
func modeName(enforce bool) string {
	if enforce {
		return model.ModeEnforce
	}
	return model.ModeAudit
}

// directiveName returns the name of a policy directive for an answer. If the directive is of another namespace than
// the request, the name starts with that namespace.
func (s *complianceRequest) directiveName(namespace string, id model.UnitID) string {
	own, name, _ := s.Directory.SourceName(model.DirectiveSource(id))
	if own != namespace {
		return own + "/" + name
	}
	return name
}

// countsByName converts the numbers of components (checked parts) in each status to a map without zeros.
func countsByName(c *policy.Counts) map[string]int {
	out := map[string]int{}
	for s, n := range c {
		if n > 0 {
			out[policy.Status(s).String()] = n
		}
	}
	return out
}

// reportInput has the query parameters of a compliance report.
type reportInput struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	By        string `query:"by" enum:"policy,directive,component,node,group" default:"policy" doc:"Unit of a row."`
	Directive string `query:"directive" maxLength:"510" doc:"Only components of this Directive, NAME or NAMESPACE/NAME; needs by=component."`
	AtTime
	DirectiveSelection
}

// DirectiveSelection is the query parameter directiveLabels, a selector of policy directives by their labels
type DirectiveSelection struct {
	DirectiveLabels string `query:"directiveLabels" maxLength:"4096" doc:"Of directives with these labels, as they are now: cis=5.1.20,!old"`
}

// selectDirectives returns a function that reports whether a policy directive has the requested labels. It returns nil
// if the request names no labels.
func (s *complianceRequest) selectDirectives(in DirectiveSelection) (func(model.UnitID) bool, error) {
	selector, err := directory.ParseSelector(in.DirectiveLabels)
	if err != nil || in.DirectiveLabels == "" {
		return nil, err
	}
	return func(id model.UnitID) bool {
		unit := s.findDirective(id)
		return unit != nil && selector.Matches(unit.Labels)
	}, nil
}

// reportCompliance answers with the compliance of a namespace, summed up by policy, directive, component, node or
// group.
func (s *complianceRequest) reportCompliance(ctx context.Context, in *reportInput) (*op.Body[v1.ComplianceReport], error) {
	err := s.RequireNamespace(ctx, in.Namespace)
	if err == nil {
		err = s.loadRuns(ctx, in.AtTime, "", "")
	}
	if err != nil {
		return nil, err
	}
	selected, err := s.selectDirectives(in.DirectiveSelection)
	if err == nil && in.Directive != "" {
		selected, err = s.selectComponentDirective(ctx, in, selected)
	}
	if err != nil {
		return nil, err
	}
	selection := rowSelection{by: in.By, selected: selected, included: func(namespace string) bool {
		return namespace == in.Namespace || in.Namespace == "" && s.SeesNamespace(namespace)
	}}
	var total reportRow
	var rows map[rowKey]*reportRow
	if s.pastRuns == nil {
		total, rows, err = s.sums.report(ctx, &selection)
	} else {
		total, rows, err = s.reportPast(ctx, &selection)
	}
	if err != nil {
		return nil, err
	}
	out := v1.ComplianceReport{By: in.By, At: in.At, Total: total.convert(&rowKey{name: "all"})}
	limit := 0
	if in.By == "component" {
		limit = maxComponentRows
	}
	out.Items, out.More = convertRows(rows, limit, func(name *rowKey) bool {
		if name.directive != 0 {
			name.namespace, name.name, _ = s.Directory.SourceName(model.DirectiveSource(name.directive))
		}
		return in.By != "policy" || s.SeesNamespace(name.namespace)
	})
	return op.Answer(out), nil
}

// maxComponentRows bounds the rows of a report by component. A directive may have 10,000 components.
const maxComponentRows = 10_000

// selectComponentDirective returns a function that reports whether a directive is the one of a report by component. The
// directive must also be selected; nil: each one is.
func (s *complianceRequest) selectComponentDirective(ctx context.Context, in *reportInput, selected func(model.UnitID) bool) (func(model.UnitID) bool, error) {
	if in.By != "component" {
		return nil, model.Errorf(model.Invalid, "directive limits a report by component, not by %s", in.By).WithHint("by=component")
	}
	namespace, name := model.SplitRef(cmp.Or(in.Namespace, model.DefaultNamespaceName), in.Directive)
	key := intent.Key{Kind: "Directive", Namespace: namespace, Name: name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	return func(id model.UnitID) bool {
		return id == model.UnitID(r.Status.ID) && (selected == nil || selected(id))
	}, nil
}

// reportPast returns the rows of a compliance report at a past time, and their total.
func (s *complianceRequest) reportPast(ctx context.Context, of *rowSelection) (total reportRow, rows map[rowKey]*reportRow, err error) {
	policies, names, err := s.sums.refreshedPolicies(ctx)
	if err != nil {
		return total, nil, err
	}
	t := newComplianceTotals(policies)
	for id, node := range names.Nodes() {
		n := &nodeCounts{id: id, namespace: node.Namespace, groups: node.Groups}
		var pairs []directiveCounts
		for _, d := range s.pastRuns[id] {
			if of.selected == nil || of.selected(d.definition.Unit) {
				pairs = append(pairs, directiveCounts{directive: d.definition.Unit, result: t.result(n.namespace, &d)})
			}
		}
		t.nodes[id] = n
		t.replaceCounts(n, pairs)
	}
	total, rows = t.report(of, names)
	return total, rows, nil
}

// convertRows converts the rows of a report to the API type ComplianceSum, least compliant first. A row in which no
// component counts, such as a pending one, is at the end. visible completes the name of a row, and reports whether the
// caller may see the row. more is the number of rows beyond the limit; zero is no limit.
func convertRows(rows map[rowKey]*reportRow, limit int, visible func(*rowKey) bool) (shown []v1.ComplianceSum, more int) {
	type item struct {
		rowKey
		row   *reportRow
		share int64
	}
	items := make([]item, 0, len(rows))
	for name, r := range rows {
		if visible(&name) {
			of, counted := compliantShare(&r.total)
			if !counted {
				of = wholeShare + 1
			}
			items = append(items, item{name, r, of})
		}
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.share, b.share), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name), strings.Compare(a.component, b.component))
	})
	if limit > 0 && len(items) > limit {
		items, more = items[:limit], len(items)-limit
	}
	shown = make([]v1.ComplianceSum, len(items))
	for i, x := range items {
		shown[i] = x.row.convert(&x.rowKey)
	}
	return shown, more
}

// convert converts the counts of a report's row to the API type ComplianceSum.
func (r *reportRow) convert(name *rowKey) v1.ComplianceSum {
	out := v1.ComplianceSum{Namespace: name.namespace, Name: name.name, Component: name.component, Nodes: r.nodes, Components: r.total.Total(), Percent: r.total.Compliance(2), Counts: countsByName(&r.total)}
	if r.shared > 0 {
		out.NodePercent = fmt.Sprintf("%.2f", 100*float64(r.shares)/float64(r.shared)/wholeShare)
	}
	return out
}
