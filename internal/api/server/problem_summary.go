package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/notification"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// problemSummary summarizes the open problems for muster status, grouped by check and status.
type problemSummary struct {
	*serverRequest
	out       *v1.Status
	namespace string // requested namespace; empty: all

	checks map[problemGroup]*checkProblems
	silent []event.State   // states of keepalives, without handled ones
	routed map[string]bool // namespaces in which every problem has a recipient
}

// problemGroup is the map key for open problems of one check or trigger with one status. They are one line of
// muster status.
type problemGroup struct {
	source model.Source
	status model.Status
}

// checkProblems collects the problems of one check with one status, for one line of muster status.
type checkProblems struct {
	problemGroup
	severity    model.Severity
	namespace   model.NamespaceID // of their nodes; zero: of several
	nodes       uint64
	first, last int64          // Unix ns: beginning of the status on the first and on the last node
	examples    []model.NodeID // ascending
	output      string         // of the first example
}

// maxExamples is the most nodes or problems that a line of the status names.
const maxExamples = 3

// addProblems adds the open problems to the answer of muster status. Silent nodes are counted apart, so that a dead
// machine does not hide the problems of others.
func (s *serverRequest) addProblems(ctx context.Context, namespace string, out *v1.Status) error {
	sum := problemSummary{serverRequest: s, out: out, namespace: namespace, checks: map[problemGroup]*checkProblems{}, routed: map[string]bool{}}
	q := event.Query{Problems: true}
	if id, ok := s.Directory.NamespaceByName(namespace); ok {
		q.Namespaces = []model.NamespaceID{id}
	} else if namespace != "" {
		return nil
	}
	out.Problems, out.NoProblem = 0, out.ByStatus.NotOK()
	for st, err := range s.AllEvents(ctx, q) {
		if err != nil {
			return err
		}
		if st.Problem != nil {
			if out.Problems++; st.Status != model.OK {
				out.NoProblem -= min(out.NoProblem, 1)
			}
			sum.add(st)
		}
	}
	sum.addSilentNodes()
	sum.addChecks()
	return nil
}

// add adds one open problem to the counts of muster status
func (p *problemSummary) add(st *event.State) {
	if p.countHandled(st) {
		return
	}
	p.addUnnotified(st)
	if st.Check == model.KeepaliveCheck {
		p.silent = append(p.silent, *st)
		return
	}
	status := st.Status
	if status == model.OK { // it recovers: alert.recoverAfter
		status = st.Problem.Status
	}
	switch status {
	case model.Warning:
		p.out.Unhandled.Warning++
	case model.Critical:
		p.out.Unhandled.Critical++
	default:
		p.out.Unhandled.Unknown++
	}
	group := problemGroup{st.Source(), status}
	c := p.checks[group]
	if c == nil {
		c = &checkProblems{problemGroup: group, namespace: st.Namespace, first: st.Changed}
		p.checks[group] = c
	}
	c.nodes++
	c.severity = max(c.severity, st.Severity)
	c.first, c.last = min(c.first, st.Changed), max(c.last, st.Changed)
	if c.namespace != st.Namespace {
		c.namespace = 0
	}
	at, _ := slices.BinarySearch(c.examples, st.Node)
	if at == 0 {
		c.output = st.Output
	}
	c.examples = slices.Insert(c.examples, at, st.Node)
	c.examples = c.examples[:min(len(c.examples), maxExamples)]
}

// countHandled counts a problem that is acknowledged, silenced or in maintenance, and returns false for any
// other problem. Acknowledged, silenced, maintained and dependent problems count.
func (p *problemSummary) countHandled(st *event.State) bool {
	if st.Problem.Ack.Active(p.Now()) {
		p.out.Handled.Acknowledged++
		return true
	}
	if p.Routing.MayHold() {
		m := route.NewProblem(p.Directory, st.Node, st.Problem.Source, st.Status, st.Severity, st.Problem.Labels)
		if holds := p.Routing.Holds(m, nil, p.Now()); len(holds) > 0 {
			if holds[0].Kind == route.Silenced {
				p.out.Handled.Silenced++
			} else {
				p.out.Handled.Maintenance++
			}
			return true
		}
	}
	if hold, _ := route.DependencyHold(p.Directory.Dependencies(st.Node, st.Problem.Source), p.OpenProblem); hold != nil {
		p.out.Handled.Dependent++
		return true
	}
	return false
}

// addUnnotified counts an open problem for which no handler is notified.
func (p *problemSummary) addUnnotified(st *event.State) {
	namespace, _ := p.Directory.NamespaceName(st.Namespace)
	all, known := p.routed[namespace]
	if !known { // a route for everything, or handlers of the namespace
		_, by := notification.Routes(p.View, &route.Problem{Node: route.Name{Namespace: namespace}, Status: model.Critical, Severity: model.High}, nil)
		all = by != route.NoRecipient
		p.routed[namespace] = all
	}
	if all {
		return
	}
	m := route.NewProblem(p.Directory, st.Node, st.Problem.Source, st.Status, st.Severity, st.Problem.Labels)
	if _, by := notification.Routes(p.View, m, notification.Definition(p.View, st.Node, st.Source())); by != route.NoRecipient {
		return
	}
	if p.out.Unnotified.Problems++; len(p.out.Unnotified.Examples) < maxExamples {
		check := p.SourceTitle(st.Source())
		p.out.Unnotified.Examples = append(p.out.Unnotified.Examples, p.nodeNames([]model.NodeID{st.Node}, p.namespace)[0]+"/"+check)
	}
}

// addSilentNodes adds to muster status some nodes with a silent agent, each with its last heartbeat's time.
func (p *problemSummary) addSilentNodes() {
	p.out.Silent = uint64(len(p.silent))
	slices.SortFunc(p.silent, func(a, b event.State) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.Node, b.Node))
	})
	for _, st := range p.silent[:min(len(p.silent), silentShown)] {
		one := v1.SilentNode{LastHeartbeat: view.TimeOfNanoseconds(p.Events.Summaries([]model.NodeID{st.Node})[0].LastHeartbeat), Since: view.TimeOfNanoseconds(st.Changed)}
		one.Namespace, one.Node, _ = p.Directory.NodeName(st.Node)
		p.out.SilentNow = append(p.out.SilentNow, one)
	}
}

// addChecks adds to muster status the checks with the worst problems, one line per check and status.
func (p *problemSummary) addChecks() {
	list := make([]*checkProblems, 0, len(p.checks))
	for _, c := range p.checks {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *checkProblems) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(b.nodes, a.nodes), cmp.Compare(b.first, a.first), cmp.Compare(a.source.ID, b.source.ID), cmp.Compare(a.source.Instance, b.source.Instance), cmp.Compare(a.status, b.status))
	})
	p.out.WrongMore = max(0, len(list)-wrongShown)
	for _, c := range list[:min(len(list), wrongShown)] {
		one := v1.FailingCheck{
			Status: c.status, Severity: c.severity, Names: v1.NamesOf(c.status, c.severity), Nodes: c.nodes, Output: c.output,
			Since: view.TimeOfNanoseconds(c.first), Last: view.TimeOfNanoseconds(c.last), Examples: p.nodeNames(c.examples, p.namespace),
		}
		one.Source = events.ShowSourceByID(p.View, c.source)
		one.Check = one.Source.Name
		one.Namespace, _ = p.Directory.NamespaceName(c.namespace)
		p.out.Wrong = append(p.out.Wrong, one)
	}
}
