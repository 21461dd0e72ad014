package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/promexpr"
	"github.com/muster-fleet/muster/internal/source/core"
)

// Bounds of rules; a RuleGroup has further ones.
const (
	maxNamespaceRules  = 10_000           // rules of a namespace; further groups are not evaluated
	maxNamespaceAlerts = 10_000           // events of alerts of a namespace
	maxSamples         = 5_000_000        // in memory, for one rule
	ruleTimeout        = 10 * time.Second // of one rule
	groupTimeout       = time.Minute      // of all rules of one group, because other groups wait meanwhile
)

// refreshInterval is the longest time until a changed RuleGroup is in force.
const refreshInterval = time.Second

// Bounds of Prometheus for the state of alerts after a restart: its defaults.
const (
	outageTolerance = time.Hour        // state of an alert that is older is not restored
	forGracePeriod  = 10 * time.Minute // a pending alert with a longer for fires at the earliest this long after a restart
)

// Options holds the dependencies and settings of an Engine, which evaluates rule groups.
type Options struct {
	Series    func(namespace string) storage.Queryable // of one namespace
	Groups    func() []*directory.Unit                 // all RuleGroups, sorted by namespace and name
	Directory Directory
	Events    func(ctx context.Context, q event.Query) (event.Page, error)
	Intent    core.Declarer
	CatchUp   func(context.Context) error // waits until declared resources are in the directory

	RecordSamples  func(ctx context.Context, entries []journal.Entry) error // returns when queries find the samples
	RecordVerdicts func(ctx context.Context, list []metric.Verdict, partitions []model.Partition) error

	Now        func() time.Time      // default time.Now
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Directory is the interface by which the rules engine looks up nodes by id and name. *directory.Directory
// implements it.
type Directory interface {
	Revision() int64
	NodeByName(namespace, name string) (model.NodeID, bool)
	Node(id model.NodeID) *directory.Node
}

// Engine evaluates the recording and alerting rules of RuleGroups. Run does the work; any goroutine may call Groups.
type Engine struct {
	opts    Options
	query   *promql.Engine
	parser  parser.Parser
	metrics metrics
	counts  [evaluationOutcomes]atomic.Uint64
	byUnit  map[model.UnitID]*Group

	mu     sync.Mutex
	groups []*Group // by namespace and name
}

// New returns an engine that evaluates recording and alerting rules once Run is called. Run reads the groups.
func New(o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	e := &Engine{opts: o, parser: promexpr.NewParser(), byUnit: map[model.UnitID]*Group{}}
	e.query = promql.NewEngine(promql.EngineOpts{
		Logger: o.Log, MaxSamples: maxSamples, Timeout: ruleTimeout, EnableAtModifier: true, EnableNegativeOffset: true, Parser: e.parser,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	e.metrics = newMetrics(o.Registerer, func() float64 { return float64(len(e.Groups())) })
	return e
}

// Run evaluates each rule group at its due times until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	for revision := int64(-1); ; {
		if now := e.opts.Directory.Revision(); now != revision {
			if err := e.reloadGroups(ctx, revision < 0); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			revision = now
		}
		next := e.nextGroup()
		wait := refreshInterval
		if next != nil {
			wait = min(wait, next.due.Sub(e.opts.Now()))
		}
		if wait > 0 {
			if pause.For(ctx, wait) != nil {
				return nil
			}
			continue
		}
		e.evaluate(ctx, next)
	}
}

// Counts has the numbers of rule evaluations since the server's start.
type Counts struct{ Evaluated, Failed, Missed uint64 }

// Counts returns how many rules the engine has evaluated, by outcome.
func (e *Engine) Counts() Counts {
	return Counts{e.counts[goodEvaluation].Load(), e.counts[failedEvaluation].Load(), e.counts[missedEvaluation].Load()}
}

// nextGroup returns the rule group with the earliest due time, or nil without groups.
func (e *Engine) nextGroup() (next *Group) {
	for _, g := range e.Groups() {
		if !g.refused && (next == nil || g.due.Before(next.due)) {
			next = g
		}
	}
	return next
}

// Groups returns the rule groups, sorted by namespace and name. The caller must not change the list.
func (e *Engine) Groups() []*Group {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.groups
}

// reloadGroups adds, changes and removes rule groups according to the declared RuleGroups. atStart: the server has just
// started, so that alerts have a state of the run before.
func (e *Engine) reloadGroups(ctx context.Context, atStart bool) error {
	units := e.opts.Groups()
	rules := map[string]int{}
	var list []*Group
	declared := map[model.UnitID]bool{}
	for _, u := range units {
		if u.Disabled || u.Definition.AsRuleGroup() == nil {
			continue
		}
		declared[u.ID] = true
		g := e.byUnit[u.ID]
		if g == nil || g.unit.Definition.ID != u.Definition.ID || g.unit.Name != u.Name || g.unit.DisplayName != u.DisplayName {
			made, err := e.newGroup(u, atStart)
			if err != nil { // validated by apply, so another version of Muster stored it
				e.opts.Log.Error("cannot compile a RuleGroup; its rules are not evaluated", "group", u.Name.String(), "error", err)
				continue
			}
			if g != nil {
				made.copyStateFrom(g)
			}
			g = made
			e.byUnit[u.ID] = g
		}
		g.unit = u
		rules[u.Namespace] += len(g.Rules())
		if g.refused = rules[u.Namespace] > maxNamespaceRules; g.refused {
			g.setError(fmt.Errorf("the rule group is not evaluated: namespace %s has more than %d rules", u.Namespace, maxNamespaceRules))
		}
		list = append(list, g)
	}
	if atStart {
		if err := e.loadEvents(ctx, units); err != nil {
			return err
		}
	}
	for id, g := range e.byUnit {
		if !declared[id] {
			delete(e.byUnit, id)
			e.endGroup(ctx, g, slices.ContainsFunc(units, func(u *directory.Unit) bool { return u.ID == id }))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groups = list
	return nil
}

// endGroup stops the evaluation of a rule group, and marks its recorded series as ended (stale). So queries
// find no later values of the series. The problems of a disabled group close; the planner has removed the
// events of a deleted one.
func (e *Engine) endGroup(ctx context.Context, g *Group, disabled bool) {
	now := e.opts.Now()
	if g.Group != nil {
		empty := promrules.NewGroup(promrules.GroupOptions{Name: g.Name(), File: g.File(), Interval: g.Interval(), Opts: g.opts})
		empty.CopyState(g.Group)
		empty.Eval(ctx, now)
	}
	if disabled {
		if err := e.closeEvents(ctx, g, now); err != nil && ctx.Err() == nil {
			e.opts.Log.Warn("cannot close the problems of a disabled RuleGroup", "group", g.unit.Name.String(), "err", err)
		}
	}
}

// evaluate evaluates a rule group, and reports the changes of its alerts. It reports the changes of the group's
// alerts.
func (e *Engine) evaluate(ctx context.Context, g *Group) {
	missed := int64(e.opts.Now().Sub(g.due) / g.Interval())
	at := g.due.Add(time.Duration(missed) * g.Interval())
	g.due = at.Add(g.Interval())
	e.metrics.evaluations[missedEvaluation].Add(float64(missed))
	e.counts[missedEvaluation].Add(uint64(missed))
	g.missed.Add(missed)
	limited, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	promrules.DefaultEvalIterationFunc(limited, g.Group, at)
	if ctx.Err() != nil {
		return
	}
	g.evaluations++
	if g.restores && g.evaluations == 2 { // as Prometheus: recording rules have written the series that alerts read
		g.RestoreForState(e.opts.Now())
		g.restores = false
	}
	e.metrics.seconds.Add(g.GetEvaluationTime().Seconds())
	e.countOutcomes(g)
	err := e.reportAlerts(ctx, g, at)
	e.logGroupError(g, err)
}

// countOutcomes counts the evaluated rules by outcome, such as failed.
func (e *Engine) countOutcomes(g *Group) {
	for _, r := range g.Rules() {
		if r.LastError() != nil {
			e.metrics.evaluations[failedEvaluation].Inc()
			e.counts[failedEvaluation].Add(1)
		} else {
			e.metrics.evaluations[goodEvaluation].Inc()
			e.counts[goodEvaluation].Add(1)
		}
	}
}

// logGroupError logs the first error of a rule group, and later logs that the errors have ended. It also logs once that
// the errors have ended.
func (e *Engine) logGroupError(g *Group, err error) {
	name, text := "", ""
	for _, r := range g.Rules() {
		if failed := r.LastError(); failed != nil && text == "" {
			name, text = r.Name(), failed.Error()
		}
	}
	if err != nil && text == "" {
		text = err.Error()
	}
	switch {
	case text != "" && !g.troubled:
		e.opts.Log.Warn("a rule fails; see: muster get rules", "group", g.unit.Name.String(), "rule", name, "err", text)
	case text == "" && g.troubled:
		e.opts.Log.Info("all rules of the group work again", "group", g.unit.Name.String())
	}
	g.troubled = text != ""
}

// loadEvents adds existing alert events to the rule groups that produced the events, at the server's start. A disabled
// group gets its events, too, so that refresh ends it.
func (e *Engine) loadEvents(ctx context.Context, units []*directory.Unit) error {
	var ids []model.CheckID
	for _, u := range units {
		ids = append(ids, u.ID)
		if g := e.byUnit[u.ID]; g == nil { // disabled: its events end
			e.byUnit[u.ID] = &Group{unit: u, events: map[eventKey]*alertEvent{}}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	q := event.Query{Checks: ids, Limit: event.MaxLimit, ByNode: true}
	for {
		page, err := e.opts.Events(ctx, q)
		if err != nil {
			return fmt.Errorf("list the alert events of rule groups: %w", err)
		}
		for i := range page.States {
			st := &page.States[i]
			if g := e.byUnit[st.Check]; g != nil && st.Instance != "" {
				g.events[eventKey{st.Node, st.Instance}] = &alertEvent{problem: st.Status != model.OK, severity: st.Severity, loaded: true}
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// queryFunc returns the function with which rules evaluate PromQL expressions over a namespace's series.
func (e *Engine) queryFunc(of storage.Queryable) promrules.QueryFunc {
	query := promrules.EngineQueryFunc(e.query, of)
	return func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
		vector, err := query(ctx, text, at)
		if errors.As(err, new(promql.ErrQueryTimeout)) {
			return nil, fmt.Errorf("the expression takes longer than %s: choose fewer series or a shorter period", ruleTimeout)
		}
		return vector, err
	}
}

// createProxyNode creates a proxy node in a namespace, for alerts whose labels name no known node.
func (e *Engine) createProxyNode(ctx context.Context, namespace, name string) error {
	r := core.NewDeclared(model.SourceAlerts, "Node", namespace, name, &model.NodeSpec{Proxy: true})
	by := intent.Actor{User: "server", Address: "local", Message: "from alerts of rules"}
	_, err := core.DeclareMissing(ctx, e.opts.Intent, e.opts.CatchUp, by, []model.Resource{r})
	return err
}
