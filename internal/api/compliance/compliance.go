// Package compliance answers about directives: their last runs on the nodes, and sums by policy, directive, node and group.
// A run counts by the decision table of package policy. The package has no goroutines and no locks; start reading at
// Register.
package compliance

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
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
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options has the parts of the server from which this package reads directives and their runs.
type Options struct {
	// Runs returns the last runs of a node, ascending by directive.
	Runs func(model.NodeID) []reducer.Run
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
	// Chain returns the chain of a node's signed runs.
	Chain func(model.NodeID) reducer.Chain
	// CA returns the certificate of the server's CA (PEM).
	CA func() string
	// Overridden returns the directives of a node that others override, ascending.
	Overridden func(model.NodeID) []directory.Override
}

// complianceRequest is one request about compliance.
type complianceRequest struct {
	op.Request
	Options
	begins map[model.UnitID]time.Time       // when the present definition of each directive was declared; nil: not read yet
	waived *view.Waivers                    // nil: the request shows none
	due    map[model.DefinitionID]time.Time // last times of calendars
	past   pastRuns                         // at the time that the request asks for; nil: it asks for the present
	units  map[model.UnitID]*directory.Unit // directives that directivesOf has looked up; nil: no directive
	found  []nodeDirective                  // of the last directivesOf
	codes  []policy.Status                  // of found
}

// Register adds the operations about compliance.
func Register(r *op.Routes, o Options) {
	at := op.NewOperationSet(r, func(q op.Request) *complianceRequest { return &complianceRequest{Request: q, Options: o} })
	op.Handle(at, op.Get("listCompliance", "/api/v1/compliance", "compliance", "List directives on nodes with the outcome of their last runs, by node and directive", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).listCompliance)
	op.Handle(at, op.Get("reportCompliance", "/api/v1/reports/compliance", "reports", "Report compliance by policy, directive, node or group, least compliant first", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).reportCompliance)
	op.Handle(at, op.Get("reportComplianceDays", "/api/v1/reports/compliance/days", "reports", "Report compliance by day (UTC), with drift, remediation and changes of declarations", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).reportDays)
	op.Handle(at, op.Get("complianceEvidence", "/api/v1/reports/compliance/evidence", "reports", "Get the history of the directive runs of a node with its signatures", model.NotFound), access.NeedOn(access.Read, "compliance"), (*complianceRequest).evidence)
}

// nodeDirective is the state of one directive on one node.
type nodeDirective struct {
	node       model.NodeID
	definition *model.DirectiveDefinition // as it is assigned
	begin      time.Time                  // since when it is
	run        *reducer.Run               // the last one; nil: none
	codes      []policy.Status            // of the components, as they count now; behind them those of unexpected ones
	why        string                     // why the run does not count; empty: it does
}

// status returns the status of a component, as it counts now.
func (d *nodeDirective) status(position int) policy.Status { return d.codes[position] }

// counts returns how many components of the directive have each status by the modes of its blocks, and the worst of these
// statuses.
func (d *nodeDirective) counts() (counts policy.Counts, worst policy.Status) {
	return policy.Sum(d.status, len(d.codes), d.definition.Blocks)
}

// readDeclarationTimes finds the time since which each directive is declared as it is now: the last change of the
// directive, its technique or one of its policies.
func (s *complianceRequest) readDeclarationTimes(ctx context.Context) error {
	s.begins = map[model.UnitID]time.Time{}
	techniques, directives := map[string]time.Time{}, map[string]model.UnitID{}
	note := func(id model.UnitID, at time.Time) {
		if at.After(s.begins[id]) {
			s.begins[id] = at
		}
	}
	for _, kind := range []string{"Technique", "Directive", "Policy"} {
		rows, err := s.Intent.List(ctx, intent.ListQuery{Kind: kind}, nil)
		if err != nil {
			return err
		}
		for i := range rows {
			m, changed := &rows[i].Metadata, rows[i].Status.Updated
			name, id := m.Namespace+"/"+m.Name, model.UnitID(rows[i].Status.ID)
			switch spec := rows[i].Spec.(type) {
			case *model.TechniqueSpec:
				techniques[name] = changed
			case *model.DirectiveSpec:
				directives[name] = id
				note(id, changed)
				note(id, techniques[model.QualifyRef(m.Namespace, spec.Technique)])
			case *model.PolicySpec:
				for _, d := range spec.Directives {
					note(directives[model.QualifyRef(m.Namespace, d)], changed)
				}
			}
		}
	}
	return nil
}

// directive returns the directive with an id; nil: it is none. A report of the fleet asks for each a thousand times.
func (s *complianceRequest) directive(id model.UnitID) *directory.Unit {
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

// directivesOf returns the directives of a node, ascending by id, each with the statuses that count now. The list is valid until the
// next call.
func (s *complianceRequest) directivesOf(node model.NodeID) []nodeDirective {
	if s.past != nil {
		return s.past[node]
	}
	s.found, s.codes = s.found[:0], s.codes[:0]
	var runs []reducer.Run
	for _, id := range s.Directory.NodeUnits(node) {
		unit := s.directive(id)
		if unit == nil {
			continue
		}
		if runs == nil {
			runs = s.Runs(node)
		}
		d := nodeDirective{node: node, definition: s.Version(unit, node).AsDirective(), begin: s.begins[id]}
		if r := unit.Rollout; r != nil && d.definition.ID == r.New.ID && r.Changed().After(d.begin) {
			d.begin = r.Changed()
		}
		if i, ok := slices.BinarySearchFunc(runs, id, func(r reducer.Run, id model.UnitID) int { return cmp.Compare(r.Unit, id) }); ok {
			d.run = &runs[i]
		} else if at := s.Since(node, id); at.After(d.begin) {
			d.begin = at // a group may have brought the node under an old directive
		}
		s.decide(&d)
		s.found = append(s.found, d)
	}
	return s.found
}

// decide computes the statuses of a directive's components from its last run.
func (s *complianceRequest) decide(d *nodeDirective) {
	current := &policy.Expectation{Begin: d.begin, Interval: d.definition.Interval, LastDue: s.lastDue(d.definition)}
	var run *policy.Run
	var old *model.DirectiveDefinition
	if d.run != nil {
		run = &policy.Run{Start: time.Unix(0, d.run.Executed), Named: true, Same: d.run.Definition == d.definition.ID, Of: current}
		if !run.Same {
			if old = s.Definition(d.run.Definition).AsDirective(); old == nil {
				run.Of = nil
			} else {
				run.Of = &policy.Expectation{End: current.Begin, Interval: old.Interval}
			}
		}
	}
	begin, n := len(s.codes), len(d.definition.Components)
	s.codes = slices.Grow(s.codes, n)[:begin+n]
	d.codes = s.codes[begin : begin+n : begin+n]
	fill := func(status policy.Status, why string) {
		for i := range d.codes {
			d.codes[i] = status
		}
		d.why = why
	}
	switch policy.Decide(s.Now(), current, run, current.Begin, false) {
	case policy.ComputeCompliance:
		for i := range d.codes {
			d.codes[i] = d.run.Codes.At(i)
		}
		for range wire.Unexpected(d.run.Exceptions, len(d.definition.Components)) {
			d.codes = append(d.codes, policy.Unexpected)
		}
		d.why = d.run.Ended
	case policy.AwaitReport:
		fill(policy.Pending, "the directive is new on the node or has changed, and the node's next run is awaited")
		if old != nil {
			keepUnchanged(d, old)
		}
	case policy.UnexpectedUnknown, policy.UnexpectedVersion, policy.UnexpectedNone:
		fill(policy.Unexpected, "the last run was of a definition that the node must not have any more: muster describe node NAME shows its assignment")
	default:
		fill(policy.NoReport, "no run was reported in time: muster why NODE shows whether the agent is connected")
	}
}

// lastDue returns the last time of a directive's calendar whose runs must have ended until now; zero: it has an interval.
func (s *complianceRequest) lastDue(d *model.DirectiveDefinition) time.Time {
	if d.Cron == "" {
		return time.Time{}
	}
	last, known := s.due[d.ID]
	if !known {
		location, err := when.ParseCron(d.Cron, d.TimeZone)
		if err == nil {
			last = when.LastCron(d.Cron, location, s.Now().Add(-d.Splay-d.Timeout-policy.Grace))
		}
		if last.IsZero() {
			last = time.Unix(0, 0) // it is never due
		}
		if s.due == nil {
			s.due = map[model.DefinitionID]time.Time{}
		}
		s.due[d.ID] = last
	}
	return last
}

// keepUnchanged copies the statuses of the last run for those components whose declaration has not changed since that
// run.
func keepUnchanged(d *nodeDirective, old *model.DirectiveDefinition) {
	if !maps.Equal(old.Parameters, d.definition.Parameters) || !slices.Equal(old.Secrets, d.definition.Secrets) || !reflect.DeepEqual(old.Assets, d.definition.Assets) {
		return
	}
	for i := range d.definition.Components {
		is := &d.definition.Components[i]
		k := slices.IndexFunc(old.Components, func(was model.Component) bool {
			return was.Name == is.Name && was.Method == is.Method && was.When == is.When && was.Mode == is.Mode && bytes.Equal(was.Arguments, is.Arguments) && maps.Equal(was.Item, is.Item)
		})
		if k >= 0 && k < d.run.Components {
			d.codes[i] = d.run.Codes.At(k)
		}
	}
}

// listCompliance returns a page of directives on nodes.
func (s *complianceRequest) listCompliance(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Node      string `query:"node" maxLength:"253" doc:"Of this node; needs namespace."`
	Directive string `query:"directive" maxLength:"510" doc:"Of this Directive: NAME, or NAMESPACE/NAME of another namespace than the node's."`
	Policy    string `query:"policy" maxLength:"510" doc:"Of the directives and nodes of this Policy: NAME or NAMESPACE/NAME; needs namespace."`
	Status    string `query:"status" maxLength:"32" doc:"With this status."`
	Details   bool   `query:"details" doc:"With all components."`
	AtTime
	list.OfNode
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"4096" doc:"The field next of the page before."`
}) (*op.Body[v1.ComplianceList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	filter, err := list.NewNodeRowFilter(s.View, in.OfNode)
	if err == nil {
		err = s.prepare(ctx, in.AtTime, in.Namespace, in.Node)
	}
	if err == nil && in.At.IsZero() {
		s.waived, err = s.ReadWaivers(ctx)
	}
	if err != nil {
		return nil, err
	}
	nodes := filter.Nodes(s.View, in.Namespace)
	var directives map[model.UnitID]bool // nil: all
	if in.Policy != "" {
		p, err := s.policyNamed(ctx, in.Namespace, in.Policy)
		if err != nil {
			return nil, err
		}
		nodes, directives = slices.DeleteFunc(nodes, func(id model.NodeID) bool { return !p.nodes[id] }), p.directives
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
					if directives != nil && !directives[id] || in.Directive != "" && shown.Directive != in.Directive || in.Status != "" && shown.Status != in.Status ||
						node == model.NodeID(behind.Number) && shown.Directive <= behind.ID {
						return
					}
					ofNode = append(ofNode, row{node, shown})
				}
				for _, d := range s.directivesOf(node) {
					add(d.definition.Unit, s.show(&d, in.Details))
				}
				for _, o := range s.overriddenOf(node) {
					add(o.Unit, s.showOverridden(node, o))
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

// show converts the state of a directive on a node to the API type Compliance, names in place of ids.
func (s *complianceRequest) show(d *nodeDirective, details bool) v1.Compliance {
	namespace, node, _ := s.Directory.NodeName(d.node)
	counts, worst := d.counts()
	mode := s.Mode(d.node)
	enforces := mode.EnforcesDirective(d.definition)
	out := v1.Compliance{
		Namespace: namespace, Node: node, Directive: s.directiveName(namespace, d.definition.Unit), Technique: d.definition.Technique,
		Mode: modeName(enforces), Status: worst.String(), Percent: counts.Compliance(2), Counts: showCounts(&counts), Reason: d.why,
	}
	if d.run != nil {
		out.Mode = modeName(d.run.Enforced)
		switch {
		case d.run.Definition != d.definition.ID || d.run.Enforced || out.Reason != "" || s.past != nil || d.definition.Rudder != "":
		case enforces:
			out.Reason = "the directive enforces, but the agent only audits: start the agent with --policy-enforce"
		case mode.Enforces(d.definition.Mode):
			out.Reason = fmt.Sprintf("the directive enforces, but only audits here, because the machine itself can choose to get it: muster why %s/%s", node, out.Directive)
		case d.definition.Mode == model.ModeEnforce:
			out.Reason = fmt.Sprintf("the directive enforces, but %s has the mode audit (spec.policyMode)", mode.Fixed)
		}
		out.Run, out.Changed, out.DurationMs = time.Unix(0, d.run.Executed).UTC(), time.Unix(0, d.run.Changed).UTC(), d.run.DurationMs
	}
	if s.waived != nil {
		out.Waivers = s.waived.Covering(d.node, d.definition)
	}
	if details {
		for i := range d.definition.Components {
			c := v1.ComponentStatus{Name: d.definition.Components[i].Name, Method: d.definition.Components[i].Method, Status: d.codes[i].String()}
			if d.run != nil && d.run.Definition == d.definition.ID {
				c.Message = d.run.Message(i)
			}
			if d.codes[i] == policy.Waived {
				c.Waiver = coveringWaiver(out.Waivers, c.Name)
			}
			out.Components = append(out.Components, c)
		}
		for i, counts := range policy.SumBlocks(d.status, d.definition.Blocks) {
			b := &d.definition.Blocks[i]
			out.Blocks = append(out.Blocks, v1.BlockCompliance{Name: b.Name, Reporting: b.Reporting.String(), Percent: counts.Compliance(2), Counts: showCounts(&counts)})
		}
		if n := len(d.definition.Components); len(d.codes) > n {
			for _, e := range wire.Unexpected(d.run.Exceptions, n) {
				out.Components = append(out.Components, v1.ComponentStatus{Name: policy.Unexpected.String(), Status: policy.Unexpected.String(), Message: e.Message})
			}
		}
	}
	return out
}

// coveringWaiver returns the name of the first Waiver in a list that covers a component, or an empty text if none does.
func coveringWaiver(list []v1.ComplianceWaiver, component string) string {
	i := slices.IndexFunc(list, func(w v1.ComplianceWaiver) bool {
		return len(w.Components) == 0 || slices.Contains(w.Components, component)
	})
	if i < 0 {
		return ""
	}
	return list[i].Name
}

// showOverridden converts a directive that has no effect on a node, because another one overrides it there, to the
// API type.
func (s *complianceRequest) showOverridden(id model.NodeID, o directory.Override) v1.Compliance {
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

// modeName returns the name of a policy mode, audit or enforce.
func modeName(enforce bool) string {
	if enforce {
		return model.ModeEnforce
	}
	return model.ModeAudit
}

// directiveName returns the name of a directive, preceded by the directive's namespace if that is not the namespace
// of the request.
func (s *complianceRequest) directiveName(namespace string, id model.UnitID) string {
	own, name, _ := s.Directory.SourceName(model.DirectiveSource(id))
	if own != namespace {
		return own + "/" + name
	}
	return name
}

// showCounts returns the non-zero component counts as a map from status name to count.
func showCounts(c *policy.Counts) map[string]int {
	out := map[string]int{}
	for s, n := range c {
		if n > 0 {
			out[policy.Status(s).String()] = n
		}
	}
	return out
}

// placedPolicy is a policy with the nodes that it applies to and its directives.
type placedPolicy struct {
	namespace, name string
	nodes           map[model.NodeID]bool
	directives      map[model.UnitID]bool
}

// policyNamed returns the policy with this name, with its nodes and directives.
func (s *complianceRequest) policyNamed(ctx context.Context, namespace, text string) (*placedPolicy, error) {
	ns, name := model.SplitRef(cmp.Or(namespace, model.DefaultNamespaceName), text)
	key := intent.Key{Kind: "Policy", Namespace: ns, Name: name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	return s.placePolicy(ns, name, r.Spec.(*model.PolicySpec))
}

// placePolicy finds the nodes that a policy applies to, and its directives.
func (s *complianceRequest) placePolicy(namespace, name string, spec *model.PolicySpec) (*placedPolicy, error) {
	p := &placedPolicy{namespace, name, map[model.NodeID]bool{}, map[model.UnitID]bool{}}
	if spec.Disabled || spec.Targets == nil {
		return p, nil
	}
	nodes, err := s.Directory.Select(namespace, spec.Targets)
	if err != nil {
		return nil, err
	}
	for _, id := range nodes {
		p.nodes[id] = true
	}
	for _, text := range spec.Directives {
		if id, ok := s.directiveByName(model.SplitRef(namespace, text)); ok {
			p.directives[id] = true
		}
	}
	return p, nil
}

// directiveByName returns the id of the directive with this name.
func (s *complianceRequest) directiveByName(namespace, name string) (model.UnitID, bool) {
	return s.Directory.UnitByName(directory.DirectiveKind, namespace, name)
}

// reportInput has the query parameters of a compliance report.
type reportInput struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	By        string `query:"by" enum:"policy,directive,node,group" default:"policy" doc:"Unit of a row."`
	AtTime
}

// sums adds up the numbers of components per status over directives and nodes, one node after the other.
type sums struct {
	namespace, name string
	total           policy.Counts
	nodes           int
	node            model.NodeID  // the last of them …
	ofNode          policy.Counts // … and its counts, not in the fields below yet
	shares          float64       // sum of the shares of the nodes that have one
	shared          int           // such nodes
}

// add adds the component counts of directives on one node to the sums.
func (x *sums) add(node model.NodeID, counts *policy.Counts) {
	if x.nodes == 0 || node != x.node {
		x.endNode()
		x.nodes, x.node = x.nodes+1, node
	}
	x.ofNode.Add(counts)
	x.total.Add(counts)
}

// endNode adds the share of the last node.
func (x *sums) endNode() {
	if of, ok := share(&x.ofNode); ok {
		x.shares, x.shared = x.shares+of, x.shared+1
	}
	x.ofNode = policy.Counts{}
}

// share returns the share of components that are as declared; pending and waived ones do not count, and ok is false if
// none counts.
func share(c *policy.Counts) (of float64, ok bool) {
	counted := c.Counted()
	fulfilled, total := 0, counted.Total()
	for s, n := range counted {
		if policy.Status(s).Fulfilled() {
			fulfilled += n
		}
	}
	return float64(fulfilled) / float64(max(total, 1)), total > 0
}

// show converts the sums to the API type ComplianceSum.
func (x *sums) show() v1.ComplianceSum {
	x.endNode()
	out := v1.ComplianceSum{Namespace: x.namespace, Name: x.name, Nodes: x.nodes, Components: x.total.Total(), Percent: x.total.Compliance(2), Counts: showCounts(&x.total)}
	if x.shared > 0 {
		out.NodePercent = fmt.Sprintf("%.2f", 100*x.shares/float64(x.shared))
	}
	return out
}

// reportCompliance answers with the compliance of a namespace, summed up by policy, directive, node or group.
func (s *complianceRequest) reportCompliance(ctx context.Context, in *reportInput) (*op.Body[v1.ComplianceReport], error) {
	err := s.RequireNamespace(ctx, in.Namespace)
	if err == nil {
		err = s.prepare(ctx, in.AtTime, "", "")
	}
	var policies map[model.UnitID][]*placedPolicy
	if err == nil && in.By == "policy" {
		policies, err = s.policiesByDirective(ctx)
	}
	if err != nil {
		return nil, err
	}
	total, rows := sums{name: "all"}, map[rowKey]*sums{}
	add := func(key rowKey, node model.NodeID, counts *policy.Counts) {
		x := rows[key]
		if x == nil {
			x = &sums{namespace: key.namespace, name: key.name}
			rows[key] = x
		}
		x.add(node, counts)
	}
	directives := map[model.UnitID]rowKey{}
	for _, node := range s.Directory.Nodes(in.Namespace) {
		namespace, name, _ := s.Directory.NodeName(node)
		list := s.directivesOf(node)
		if len(list) == 0 {
			continue
		}
		var all policy.Counts
		for i := range list {
			counts, _ := list[i].counts()
			all.Add(&counts)
			unit := list[i].definition.Unit
			switch in.By {
			case "policy":
				for _, p := range policies[unit] {
					if p.nodes[node] {
						add(rowKey{p.namespace, p.name}, node, &counts)
					}
				}
			case "directive":
				key, known := directives[unit]
				if !known {
					key.namespace, key.name, _ = s.Directory.SourceName(model.DirectiveSource(unit))
					directives[unit] = key
				}
				add(key, node, &counts)
			}
		}
		switch total.add(node, &all); in.By {
		case "group":
			for _, group := range s.Directory.NodeGroups(node) {
				add(rowKey{namespace, group}, node, &all)
			}
		case "node":
			add(rowKey{namespace, name}, node, &all)
		}
	}
	out := v1.ComplianceReport{By: in.By, At: in.At, Items: []v1.ComplianceSum{}, Total: total.show()}
	worst := slices.SortedFunc(maps.Values(rows), func(a, b *sums) int {
		x, _ := share(&a.total)
		y, _ := share(&b.total)
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	for _, x := range worst {
		out.Items = append(out.Items, x.show())
	}
	return op.Answer(out), nil
}

// rowKey identifies a row of a report: a policy, directive, group or node.
type rowKey struct{ namespace, name string }

// policiesByDirective returns the policies of each directive, with their nodes.
func (s *complianceRequest) policiesByDirective(ctx context.Context) (map[model.UnitID][]*placedPolicy, error) {
	rows, err := s.Intent.List(ctx, intent.ListQuery{Kind: "Policy"}, nil)
	if err != nil {
		return nil, err
	}
	by := map[model.UnitID][]*placedPolicy{}
	for i := range rows {
		p, err := s.placePolicy(rows[i].Metadata.Namespace, rows[i].Metadata.Name, rows[i].Spec.(*model.PolicySpec))
		if err != nil {
			return nil, err
		}
		for d := range p.directives {
			by[d] = append(by[d], p)
		}
	}
	return by, nil
}
