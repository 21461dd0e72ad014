package reports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

const (
	maxNoiseRows  = 200_000 // bounds the rows of each kind in one report: one or two seconds, and some 20 MB
	noisePage     = 5000
	week          = 7 * 24 * time.Hour
	oldSilenceAge = 30 * 24 * time.Hour // age from which a silence counts as old
	maxWeeks      = 100                 // bounds the weeks of one report
)

// noiseReport builds one noise report about checks and routes that page people too often.
type noiseReport struct {
	*reportRequest
	ctx            context.Context
	in             *ReportInput
	out            v1.Noise
	checks         map[[2]string]*checkNoise // keys: namespace of the node, name of the check
	routes         map[[2]string]*v1.NoisyRoute
	acks           map[acknowledgedSource][]time.Time
	problemSources map[model.Source]bool
}

// checkNoise counts the problems of one check in one namespace for the noise report.
type checkNoise struct {
	v1.NoisyCheck
	nodes   map[model.NodeID]bool
	lengths []time.Duration
}

// acknowledgedSource is the map key of an acknowledged problem, made of its node and its check or trigger. It
// has the node and the source, which is a check or trigger.
type acknowledgedSource struct {
	node   model.NodeID
	source model.Source
}

// reportNoise returns the noise report about checks and routes that page people too often.
func (s *reportRequest) reportNoise(ctx context.Context, in *ReportInput) (*op.Body[v1.Noise], error) {
	if err := s.completePeriod(ctx, in, oldSilenceAge); err != nil {
		return nil, err
	}
	weeks := int((in.Until.Sub(in.Since) + week - 1) / week)
	if weeks > maxWeeks {
		return nil, model.Errorf(model.Invalid, "a report covers at most %d weeks, not %d", maxWeeks, weeks)
	}
	leave, refusal := s.reports.Enter(ctx)
	if refusal != nil {
		return nil, refusal
	}
	defer leave()
	notes, err := s.historyGapNotes(ctx, in.Since)
	if err != nil {
		return nil, err
	}
	n := &noiseReport{reportRequest: s, ctx: ctx, in: in, checks: map[[2]string]*checkNoise{}, routes: map[[2]string]*v1.NoisyRoute{}, acks: map[acknowledgedSource][]time.Time{}, problemSources: map[model.Source]bool{},
		out: v1.Noise{Since: in.Since, Until: in.Until, Notes: notes, Checks: []v1.NoisyCheck{}, Routes: []v1.NoisyRoute{}, Quiet: []v1.QuietCheck{}, Unassigned: []v1.QuietCheck{}, Silences: []v1.StaleSilence{}}}
	for i := weeks; i > 0; i-- {
		n.out.Weeks = append(n.out.Weeks, in.Until.Add(-time.Duration(i)*week))
	}
	for _, step := range []func() error{n.countMessages, n.countFlapsAndAcknowledgements, n.countProblems, n.findQuietChecks, n.findStaleSilences} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	n.computeMediansAndSort()
	return op.Answer(n.out), nil
}

// checkNoiseOf returns the noise report's row about the checks or triggers of one name. It creates a missing
// row.
func (n *noiseReport) checkNoiseOf(namespace string, kind model.SourceKind, name string) *checkNoise {
	key := [2]string{namespace, kind.Label(name)}
	if n.checks[key] == nil {
		n.checks[key] = &checkNoise{NoisyCheck: v1.NoisyCheck{Namespace: namespace, Check: key[1], Source: v1.Source{Kind: kind.String(), Name: name}, PerWeek: make([]int, len(n.out.Weeks))}, nodes: map[model.NodeID]bool{}}
	}
	return n.checks[key]
}

// weekIndex returns the index of the report's week that contains a time.
func (n *noiseReport) weekIndex(at time.Time) int {
	return min(max(len(n.out.Weeks)-1-int(n.out.Until.Sub(at)/week), 0), len(n.out.Weeks)-1)
}

// eachReportRow calls count with each history row of the report's period, newest first. After maxNoiseRows rows it
// stops and adds a note. read returns at most noisePage rows behind the row last; nil: the newest ones.
func eachReportRow[R any](n *noiseReport, kind string, at func(*R) time.Time, read func(last *R) ([]R, error), count func(*R)) error {
	rows := 0
	for row, err := range list.AllRows(noisePage, read) {
		if err != nil {
			return err
		}
		count(row)
		if rows++; rows == maxNoiseRows {
			n.out.Notes = append(n.out.Notes, fmt.Sprintf("the period has more than %d %s: the report counts only those since %s; choose a shorter period or one namespace (-n)",
				maxNoiseRows, kind, at(row).UTC().Format(time.RFC3339)))
			return nil
		}
	}
	return nil
}

// countMessages counts all notifications that were sent in the report's period.
func (n *noiseReport) countMessages() error {
	q := history.MessageQuery{Namespace: n.in.Namespace, Since: n.in.Since, Until: n.in.Until, Limit: noisePage}
	return eachReportRow(n, "messages", func(m *history.Message) time.Time { return m.Ended }, func(last *history.Message) ([]history.Message, error) {
		if last != nil {
			q.Until, q.BeforeID = last.Ended, last.ID
		}
		return n.History.Messages(n.ctx, q)
	}, n.countMessage)
}

// countMessage adds a message that paged people to the counts of the noise report. Messages about the end or
// the acknowledgement of a problem page nobody.
func (n *noiseReport) countMessage(m *history.Message) {
	again := m.Event == handler.Reminder
	if !again && m.Event != handler.Opened && m.Event != handler.Summary {
		return
	}
	key := [2]string{m.Route, handlerName(m.Handler)}
	if n.routes[key] == nil {
		n.routes[key] = &v1.NoisyRoute{Route: m.Route, Handler: key[1], PerWeek: make([]int, len(n.out.Weeks))}
	}
	of, by, at := n.checkNoiseOf(m.Namespace, m.SourceKind, m.SourceName), n.routes[key], n.weekIndex(m.Ended)
	n.out.Pages++
	of.Pages++
	by.Pages++
	of.PerWeek[at]++
	by.PerWeek[at]++
	if again {
		of.Reminders++
		by.Reminders++
	}
	switch m.State {
	case history.Dead:
		n.out.Failed++
	case history.Shadow:
		n.out.Shadow++
	}
}

// countFlapsAndAcknowledgements counts how often events of each check started to flap, and collects the times of
// acknowledgements
func (n *noiseReport) countFlapsAndAcknowledgements() error {
	q := history.EntryQuery{Namespace: n.in.Namespace, Since: n.in.Since, Before: n.in.Until, Limit: noisePage}
	return eachReportRow(n, "acknowledgements and starts of flapping", func(e *history.Entry) time.Time { return e.At }, func(last *history.Entry) ([]history.Entry, error) {
		if last != nil {
			q.Before, q.BeforeID = last.At, last.ID
		}
		return n.History.FlappingAndAcknowledgements(n.ctx, q)
	}, func(e *history.Entry) {
		if e.Kind == history.FlappingStarted {
			n.checkNoiseOf(e.Namespace, e.Source.Kind, e.SourceName).Flaps++
			return
		}
		key := acknowledgedSource{e.NodeID, e.Source}
		n.acks[key] = append(n.acks[key], e.At)
	})
}

// countProblems counts for each check the problems that opened in the period of the noise report.
func (n *noiseReport) countProblems() error {
	q := history.ProblemQuery{Namespace: n.in.Namespace, Since: n.in.Since, Before: n.in.Until, Limit: noisePage}
	return eachReportRow(n, "problems", func(p *history.Problem) time.Time { return p.Opened }, func(last *history.Problem) ([]history.Problem, error) {
		if last != nil {
			q.Before, q.BeforeID = last.Opened, last.ID
		}
		return n.History.Problems(n.ctx, q)
	}, n.countProblem)
}

// countProblem adds one problem to its check's row in the noise report. The row counts open, closed and unacknowledged
// problems, and their durations.
func (n *noiseReport) countProblem(p *history.Problem) {
	of := n.checkNoiseOf(p.Namespace, p.Source.Kind, p.SourceName)
	n.problemSources[p.Source] = true
	of.Problems++
	if of.nodes[p.NodeID] = true; p.Closed.IsZero() {
		return
	}
	of.Closed++
	of.lengths = append(of.lengths, p.Closed.Sub(p.Opened))
	if !slices.ContainsFunc(n.acks[acknowledgedSource{p.NodeID, p.Source}], func(at time.Time) bool { return !at.Before(p.Opened) && !at.After(p.Closed) }) {
		of.Unacked++
	}
}

// findQuietChecks adds checks without a problem in the period to the noise report. It also adds checks that run on no
// node.
func (n *noiseReport) findQuietChecks() error {
	checks, err := n.Intent.List(n.ctx, intent.ListQuery{Kind: "Check", Namespace: n.in.Namespace}, nil)
	if err != nil {
		return err
	}
	for i := range checks {
		r := &checks[i]
		l := n.Directory.Placement(intent.KeyOf(r))
		id := model.CheckSource(model.CheckID(r.Status.ID))
		one := v1.QuietCheck{Namespace: r.Metadata.Namespace, Check: r.Metadata.Name, Source: events.ShowSource(id, r.Metadata.Name), Nodes: max(l.Nodes, l.ProxyNodes), CreatedAt: r.Status.Created}
		switch {
		case r.Spec.(*model.CheckSpec).Passive:
		case one.Nodes == 0:
			n.out.Unassigned = append(n.out.Unassigned, one)
		case !n.problemSources[id] && n.Events.CountsOf(id.Check()).Problems == 0:
			n.out.Quiet = append(n.out.Quiet, one)
		}
	}
	return nil
}

// findStaleSilences adds silences that are very old or match nothing any more to the report.
func (n *noiseReport) findStaleSilences() error {
	silences, err := n.Intent.List(n.ctx, intent.ListQuery{Kind: "Silence", Namespace: n.in.Namespace}, nil)
	if err != nil {
		return err
	}
	for i := range silences {
		r := &silences[i]
		spec := r.Spec.(*model.SilenceSpec)
		if now := n.Now(); !spec.Until.IsZero() && !now.Before(spec.Until.Time) {
			continue // the silence has ended
		}
		nodes, _, _, err := notification.CountMatchingNodes(n.View, r.Metadata.Namespace, &spec.Selector)
		if err == nil {
			err = n.ctx.Err()
		}
		costly := model.ClassOf(err) == model.Limited
		if err != nil && !costly {
			return err
		}
		one := v1.StaleSilence{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name, Creator: spec.Creator, Reason: spec.Reason, CreatedAt: r.Status.Created, Until: spec.Until, Nodes: nodes}
		switch {
		case costly:
			one.Reasons = append(one.Reasons, "its condition takes too much time")
		case nodes == 0:
			one.Reasons = append(one.Reasons, "covers no node")
		}
		if gone := n.missingChecksNote(r.Metadata.Namespace, spec.Checks); gone != "" {
			one.Reasons = append(one.Reasons, gone)
		}
		if old := n.Now().Sub(one.CreatedAt); old > oldSilenceAge {
			one.Reasons = append(one.Reasons, fmt.Sprintf("%d days old", int(old.Hours()/24)))
		}
		if len(one.Reasons) > 0 {
			n.out.Silences = append(n.out.Silences, one)
		}
	}
	return nil
}

// missingChecksNote returns a note for the report if no check named in a silence exists any more. Otherwise it
// returns "".
func (n *noiseReport) missingChecksNote(namespace string, checks []string) string {
	if len(checks) == 0 {
		return ""
	}
	spaces := []string{namespace}
	if namespace == model.SharedNamespaceName { // a shared silence covers nodes and checks of all namespaces
		var err error
		if spaces, err = n.Namespaces(n.ctx); err != nil {
			return ""
		}
	}
	for _, name := range checks {
		if len(n.FindChecksByName(spaces, name)) > 0 {
			return ""
		}
	}
	if len(checks) == 1 {
		return "check " + checks[0] + " does not exist"
	}
	return "none of its checks exist"
}

// computeMediansAndSort computes for each row of the report the median times of its problems, and sorts the rows
func (n *noiseReport) computeMediansAndSort() {
	for _, of := range n.checks {
		of.Nodes = len(of.nodes)
		if slices.Sort(of.lengths); len(of.lengths) > 0 {
			of.Typical = of.lengths[len(of.lengths)/2].Seconds()
		}
		n.out.Checks = append(n.out.Checks, of.NoisyCheck)
	}
	slices.SortFunc(n.out.Checks, func(a, b v1.NoisyCheck) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(b.Problems, a.Problems), cmp.Compare(b.Flaps, a.Flaps), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Check, b.Check))
	})
	for _, by := range n.routes {
		n.out.Routes = append(n.out.Routes, *by)
	}
	slices.SortFunc(n.out.Routes, func(a, b v1.NoisyRoute) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Handler, b.Handler))
	})
}
