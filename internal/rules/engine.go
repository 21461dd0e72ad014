package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"golang.org/x/sync/errgroup"

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
	groupTimeout       = time.Minute      // of all rules of one group, because groups of other namespaces may wait meanwhile
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
	turns   evaluationTurns

	mu         sync.Mutex
	evaluators []*evaluator // by namespace
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
	e := &Engine{opts: o, parser: promexpr.NewParser()}
	e.query = promql.NewEngine(promql.EngineOpts{
		Logger: o.Log, MaxSamples: maxSamples, Timeout: ruleTimeout, EnableAtModifier: true, EnableNegativeOffset: true, Parser: e.parser,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	e.metrics = newMetrics(o.Registerer, func() float64 { return float64(len(e.Groups())) })
	o.Registerer.MustRegister(lagMetric{e})
	return e
}

// Run evaluates each rule group at its due times until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	for revision := int64(-1); ; {
		if now := e.opts.Directory.Revision(); now != revision {
			for _, v := range e.declareGroups(e.opts.Groups(), revision < 0) {
				running.Go(func() error { return v.run(ctx) })
			}
			revision = now
		}
		if pause.For(ctx, refreshInterval) != nil {
			return running.Wait()
		}
	}
}

// declareGroups hands the declared RuleGroups to the evaluators of their namespaces. It returns the evaluators of
// namespaces that had none. atStart: the server has just started, so that alerts have a state of the run before.
func (e *Engine) declareGroups(units []*directory.Unit, atStart bool) (added []*evaluator) {
	byNamespace := map[string][]*directory.Unit{}
	for _, u := range units {
		byNamespace[u.Namespace] = append(byNamespace[u.Namespace], u)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.evaluators = slices.DeleteFunc(e.evaluators, func(v *evaluator) bool {
		v.declare(byNamespace[v.namespace])
		delete(byNamespace, v.namespace)
		return len(v.declared) == 0
	})
	for namespace, units := range byNamespace {
		v := newEvaluator(e, namespace, atStart)
		v.declare(units)
		added = append(added, v)
	}
	e.evaluators = append(e.evaluators, added...)
	slices.SortFunc(e.evaluators, func(a, b *evaluator) int { return strings.Compare(a.namespace, b.namespace) })
	return added
}

// Counts has the numbers of rule evaluations since the server's start.
type Counts struct{ Evaluated, Failed, Missed uint64 }

// Counts returns how many rules the engine has evaluated, by outcome.
func (e *Engine) Counts() Counts {
	return Counts{e.counts[goodEvaluation].Load(), e.counts[failedEvaluation].Load(), e.counts[missedEvaluation].Load()}
}

// Groups returns the rule groups, sorted by namespace and name.
func (e *Engine) Groups() (list []*Group) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.evaluators {
		list = append(list, v.Groups()...)
	}
	return list
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
