package compliance

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
)

// History answers questions about past runs of policy directives. Type compliance.View implements it.
type History interface {
	// RunsAt returns the last runs of a node, or of all nodes (zero), up to a time, ascending by node and directive.
	RunsAt(ctx context.Context, node model.NodeID, at time.Time) ([]compliancelog.State, error)
	// Changes calls visit for each change of runs up to a time, from a checkpoint before since on.
	Changes(ctx context.Context, node model.NodeID, since, until time.Time, visit func(*compliancelog.Change)) error
	// Entries calls visit for each change of a node's runs, and for entries about its chain, likewise.
	Entries(ctx context.Context, node model.NodeID, since, until time.Time, visit func(*compliancelog.Change)) error
	// Certificate returns a certificate (DER) whose key signed runs; nil: history does not have it.
	Certificate(ctx context.Context, sum compliancelog.CertificateSum) ([]byte, error)
	// OldestEntryTime returns the time of the oldest entry; zero: there is none.
	OldestEntryTime(ctx context.Context) (time.Time, error)
}

// AtTime is the query parameter `at`, the past time of the requested compliance.
type AtTime struct {
	At time.Time `query:"at" doc:"The last runs up to this time (RFC 3339), as they were reported; default now. Names, groups and policies are those of now."`
}

// pastRuns has, by node, the state of each policy directive as of a past time.
type pastRuns map[model.NodeID][]nodeDirective

// loadRuns loads the directive runs or declaration times that a compliance request about one or all nodes
// needs. A request about the present needs the times of the last changes of directives; a request about the
// past needs the runs until then.
func (s *complianceRequest) loadRuns(ctx context.Context, of AtTime, namespace, node string) error {
	if of.At.IsZero() {
		begins, err := s.sums.declarationTimes(ctx)
		s.begins = begins
		return err
	}
	var id model.NodeID
	if node != "" {
		known := false
		if id, known = s.Directory.NodeByName(namespace, node); !known {
			return s.NodeNotFoundError(ctx, namespace, node)
		}
	}
	if err := s.requireHistory(ctx, of.At); err != nil {
		return err
	}
	states, err := s.History.RunsAt(ctx, id, of.At)
	if err != nil {
		return err
	}
	s.pastRuns = pastRuns{}
	for i := range states {
		if d := s.pastDirective(&states[i]); d != nil {
			s.pastRuns[d.node] = append(s.pastRuns[d.node], *d)
		}
	}
	return nil
}

// requireHistory returns an error if the stored history of directive runs begins after the requested time.
func (s *complianceRequest) requireHistory(ctx context.Context, at time.Time) error {
	begin, err := s.History.OldestEntryTime(ctx)
	if err != nil {
		return err
	}
	if begin.IsZero() || at.Before(begin) {
		e := model.Errorf(model.NotFound, "the history has no runs of policy directives at %s", at.UTC().Format(time.RFC3339))
		if begin.IsZero() {
			return e.WithHint("no node has reported a run yet: muster get compliance")
		}
		return e.WithHint("ask for a time from %s on", begin.Add(time.Second-1).UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	return nil
}

// pastDirective returns the state of a policy directive on a node at a past time. It returns nil if no stored
// definition names the components of the run.
func (s *complianceRequest) pastDirective(state *compliancelog.State) *nodeDirective {
	definition := s.statusEvaluator.Definition(state.Definition).AsDirective()
	if definition == nil || len(definition.Components) != state.Components {
		return nil
	}
	d := &nodeDirective{node: state.Node, definition: definition, codes: make([]policy.Status, state.Components), run: &reducer.Run{
		Unit: state.Unit, Executed: state.Executed * int64(time.Millisecond), Changed: state.Changed * int64(time.Millisecond),
		Outcome: &reducer.Outcome{Definition: state.Definition, Enforced: state.Enforced, Components: state.Components, Codes: state.Codes},
	}}
	for i := range d.codes {
		d.codes[i] = state.Codes.At(i)
	}
	if state.Ended {
		d.notCounted = "the run ended before its last component"
	}
	return d
}

// overriddenOf returns the policy directives of a node that other directives override. History has no overridden
// directives of the past.
func (s *complianceRequest) overriddenOf(node model.NodeID) []directory.Override {
	if s.pastRuns != nil {
		return nil
	}
	return s.Overridden(node)
}

// maxReportDays bounds the days of a report.
const maxReportDays = 400

// daySums counts, by cause, the components (parts of policy directives) that changed their status on one day.
// The causes are drift, repair, remediation and an intended change.
type daySums struct {
	counts                                  policy.Counts // added and removed
	drifted, repaired, remediated, intended int           // components
	unfulfilled                             time.Duration // of remediated components, together
}

// component identifies a component (checked part) of one policy directive on one node.
type component struct {
	node     model.NodeID
	unit     model.UnitID
	position int
}

// dayReport computes the compliance report by day, from the history of runs of policy directives.
type dayReport struct {
	since int64 // Unix ms
	first policy.Counts
	days  []daySums
	wrong map[component]int64 // when each component became unfulfilled, Unix ms
	// definition returns a definition by its id; nil: unknown.
	definition func(model.DefinitionID) *model.Definition
}

// blocks returns the groups of components (blocks) in the directive version of the given run.
func (r *dayReport) blocks(s *compliancelog.State) []model.Block {
	d := r.definition(s.Definition).AsDirective()
	if d == nil || len(d.Components) != s.Components {
		return nil
	}
	return d.Blocks
}

// add adds the status changes of one new directive run to the sums of the run's day.
func (r *dayReport) add(c *compliancelog.Change) {
	blocks := r.blocks(&c.After)
	before, _ := c.Before.Codes.CountStatuses(c.Before.Components, r.blocks(&c.Before))
	after, _ := c.After.Codes.CountStatuses(c.After.Components, blocks)
	day := &daySums{}
	sums := &r.first
	if c.After.Executed > r.since {
		day = &r.days[(c.After.Executed-r.since-1)/(24*time.Hour).Milliseconds()]
		sums = &day.counts
	}
	sums.Add(&after)
	for s, n := range before {
		sums[s] -= n
	}
	intended := c.IsIntended()
	for i := range max(c.Before.Components, c.After.Components) {
		if policy.NeverCounts(i, blocks) {
			continue
		}
		at := component{c.After.Node, c.After.Unit, i}
		was, is := policy.Missing, policy.Missing
		had, has := i < c.Before.Components, i < c.After.Components
		if had {
			was = c.Before.Codes.At(i)
		}
		if has {
			is = c.After.Codes.At(i)
		}
		waiver := was != is && (was == policy.Waived || is == policy.Waived)
		if intended && c.Before.Definition != c.After.Definition || !has || is == policy.Waived {
			delete(r.wrong, at) // position i is another component now, or nobody has to remediate it
		}
		since, wrong := r.wrong[at]
		switch {
		case has && is == policy.Waived:
		case has && !is.Fulfilled() && !wrong:
			r.wrong[at] = c.After.Changed
		case is.Fulfilled() && wrong:
			delete(r.wrong, at)
			day.remediated++
			day.unfulfilled += time.Duration(c.After.Executed-since) * time.Millisecond
		}
		switch {
		case had == has && was == is:
		case intended || waiver:
			day.intended++
		case is == policy.Repaired:
			day.repaired++
		case was.Fulfilled() && !is.Fulfilled():
			day.drifted++
		}
	}
}

// reportDays reports the compliance of each day.
func (s *complianceRequest) reportDays(ctx context.Context, in *struct {
	Namespace string    `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Since     time.Time `query:"since" doc:"Start (RFC 3339), rounded down to a day; default 30 days ago."`
	Until     time.Time `query:"until" doc:"End (RFC 3339); default now."`
	DirectiveSelection
}) (*op.Body[v1.ComplianceDays], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	selected, err := s.selectDirectives(in.DirectiveSelection)
	if err != nil {
		return nil, err
	}
	const day = 24 * time.Hour
	until := in.Until
	if now := s.Now(); until.IsZero() || until.After(now) {
		until = now
	}
	since := in.Since
	if since.IsZero() {
		since = until.Add(-30 * day)
	}
	begin, err := s.History.OldestEntryTime(ctx)
	if err != nil {
		return nil, err
	}
	if since.Before(begin) {
		since = begin
	}
	if since = since.UTC().Truncate(day); until.Sub(since) > maxReportDays*day {
		return nil, model.Errorf(model.Invalid, "the report would cover %d days, the limit is %d", until.Sub(since)/day, maxReportDays).WithHint("ask for a shorter period: since and until")
	}
	if begin.IsZero() || !since.Before(until) {
		return op.Answer(v1.ComplianceDays{Items: []v1.ComplianceDay{}}), nil
	}
	nodes := map[model.NodeID]bool{}
	for _, id := range s.Directory.Nodes(in.Namespace) {
		nodes[id] = true
	}
	r := dayReport{since: since.UnixMilli(), days: make([]daySums, (until.Sub(since)-1)/day+1), wrong: map[component]int64{}, definition: s.statusEvaluator.Definition}
	err = s.History.Changes(ctx, 0, since, until, func(c *compliancelog.Change) {
		if nodes[c.After.Node] && (selected == nil || selected(c.After.Unit)) {
			r.add(c)
		}
	})
	if err != nil {
		return nil, err
	}
	out := v1.ComplianceDays{Items: []v1.ComplianceDay{}}
	counts := r.first
	for i := range r.days {
		d := &r.days[i]
		counts.Add(&d.counts)
		row := v1.ComplianceDay{
			Day: since.Add(time.Duration(i) * day).Format(time.DateOnly), Components: counts.Total(), Percent: counts.Compliance(2), Counts: countsByName(&counts),
			Drifted: d.drifted, Repaired: d.repaired, Remediated: d.remediated, Intended: d.intended,
		}
		if d.remediated > 0 {
			row.RemediationSeconds = (d.unfulfilled / time.Duration(d.remediated)).Seconds()
		}
		out.Items = append(out.Items, row)
	}
	return op.Answer(out), nil
}
