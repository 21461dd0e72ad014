package rules

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// slowSeries is a series store without series whose queries take a given time.
type slowSeries time.Duration

// Querier returns a querier of the store.
func (s slowSeries) Querier(int64, int64) (storage.Querier, error) {
	return slowQuerier{storage.NoopQuerier(), time.Duration(s)}, nil
}

// slowQuerier is a querier whose queries take a given time.
type slowQuerier struct {
	storage.Querier
	took time.Duration
}

// Select returns no series after the time that a query takes.
func (s slowQuerier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	_ = pause.For(ctx, s.took)
	return storage.EmptySeriesSet()
}

// fleet is a directory without nodes whose rule groups a test declares.
type fleet struct {
	Directory
	mu       sync.Mutex
	revision int64
	units    []*directory.Unit
}

// Revision returns a number that grows with each declaration.
func (f *fleet) Revision() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

// groups returns the declared rule groups.
func (f *fleet) groups() []*directory.Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.units)
}

// declare declares a number of rule groups in a namespace, each with three rules.
func (f *fleet) declare(namespace string, groups int, interval time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	spec := model.RuleGroupSpec{Interval: model.Duration(interval)}
	for i := range 3 {
		spec.Rules = append(spec.Rules, model.Rule{Record: fmt.Sprint("series:", i), Expr: "sum(up)"})
	}
	for i := range groups {
		id := model.UnitID(len(f.units) + 1)
		name := route.Name{Namespace: namespace, Name: fmt.Sprint("group", i)}
		c := model.CompileRuleGroup(model.Definition{ID: model.DefinitionID(id), Unit: id, Name: name.Name}, &spec)
		f.units = append(f.units, &directory.Unit{ID: id, Kind: directory.RuleGroupKind, Name: name, Definition: c.ToDefinition()})
	}
	f.revision++
}

// TestSlowRulesDelayOnlyTheirNamespace runs three namespaces whose rules take longer than their interval, beside one with
// many fast groups. It expects that the fast namespace misses no evaluation, and waits at most for one slow group.
func TestSlowRulesDelayOnlyTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		slow := []string{"slow1", "slow2", "slow3"}
		for _, namespace := range slow {
			f.declare(namespace, 4, 10*time.Second)
		}
		f.declare("fast", 20, time.Minute)
		const group = 3 * 9 * time.Second // time of a slow group
		registry := prometheus.NewRegistry()
		e := New(Options{
			Series: func(namespace string) storage.Queryable {
				if namespace == "fast" {
					return slowSeries(10 * time.Millisecond)
				}
				return slowSeries(9 * time.Second)
			},
			Groups: f.groups, Directory: f, Registerer: registry,
			Events: func(context.Context, event.Query) (event.Page, error) { return event.Page{}, nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		worst := map[string]time.Duration{}
		for range 3600 {
			time.Sleep(time.Second)
			synctest.Wait()
			e.mu.Lock()
			for _, v := range e.evaluators {
				worst[v.namespace] = max(worst[v.namespace], v.lag(time.Now()))
			}
			e.mu.Unlock()
		}
		evaluated := map[string]int{}
		for _, g := range e.Groups() {
			if !g.GetLastEvaluation().IsZero() {
				evaluated[g.Namespace()]++
			}
			if g.Namespace() == "fast" && g.Missed() > 0 {
				t.Errorf("%s misses %d evaluations", g.unit.Name, g.Missed())
			}
		}
		if worst["fast"] > group+2*time.Second {
			t.Errorf("an evaluation of the fast namespace was late by %s, expected at most the %s of a slow group", worst["fast"], group)
		}
		for _, namespace := range slow {
			if evaluated[namespace] != 4 || worst[namespace] > 20*group {
				t.Errorf("%s: %d of 4 groups were evaluated, the worst lag is %s", namespace, evaluated[namespace], worst[namespace])
			}
		}
		if n := testutil.CollectAndCount(lagMetric{e}); n != 4 {
			t.Errorf("%d lags, expected one of each namespace", n)
		}
		// A namespace without groups ends, and a new one begins.
		f.mu.Lock()
		f.units = slices.DeleteFunc(f.units, func(u *directory.Unit) bool { return u.Namespace != "fast" })
		f.mu.Unlock()
		f.declare("new", 1, 10*time.Second)
		time.Sleep(group + time.Minute)
		if names := e.Groups(); len(names) != 21 || names[20].Namespace() != "new" || names[20].GetLastEvaluation().IsZero() {
			t.Errorf("%d groups after a change of the declared ones", len(names))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestWaitForTurnEnds ends the wait of a namespace for its turn, and expects that other namespaces get theirs. A namespace that
// evaluated nothing before is next, and has saved a minute at most.
func TestWaitForTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns evaluationTurns
		begin := func(ctx context.Context, own *evaluationTurn) <-chan error {
			done := make(chan error, 1)
			go func() { done <- turns.awaitTurn(ctx, own, 0) }()
			synctest.Wait()
			return done
		}
		first, second, old, fresh := evaluationTurn{spent: time.Hour}, evaluationTurn{spent: time.Hour}, evaluationTurn{spent: time.Hour}, evaluationTurn{}
		for _, own := range []*evaluationTurn{&first, &second} {
			if err := <-begin(t.Context(), own); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := begin(ctx, new(evaluationTurn))
		cancel()
		if err := <-gone; err == nil {
			t.Error("a wait whose context ended has a turn")
		}
		begin(t.Context(), &old)
		next := begin(t.Context(), &fresh)
		turns.endTurn(&first, time.Minute)
		if err := <-next; err != nil || fresh.spent != time.Hour-maxSaved || first.spent != time.Hour+time.Minute {
			t.Errorf("%v, spent %s and %s", err, fresh.spent, first.spent)
		}
		if len(turns.running) != maxEvaluations || len(turns.waiting) != 1 {
			t.Errorf("%d run, %d wait", len(turns.running), len(turns.waiting))
		}
		turns.endTurn(&second, 0)
		synctest.Wait()
		if len(turns.waiting) != 0 {
			t.Error("the last one waits")
		}
	})
}
