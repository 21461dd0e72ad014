package rules

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	promrules "github.com/prometheus/prometheus/rules"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// evaluator evaluates the rule groups of one namespace. Its goroutine owns all that mu does not protect.
type evaluator struct {
	engine    *Engine
	namespace string
	atStart   bool // the first groups have a state of the run before
	byUnit    map[model.UnitID]*Group
	turn      evaluationTurn
	due       atomic.Int64 // time of the evaluation that is due next or runs, in Unix nanoseconds; 0: none

	changed  chan struct{} // capacity 1: declared has changed
	mu       sync.Mutex
	declared []*directory.Unit
	groups   []*Group // by name
}

// newEvaluator returns the evaluator of the rule groups of a namespace. atStart: the server has just started, so that
// alerts have a state of the run before.
func newEvaluator(e *Engine, namespace string, atStart bool) *evaluator {
	return &evaluator{engine: e, namespace: namespace, atStart: atStart, byUnit: map[model.UnitID]*Group{}, changed: make(chan struct{}, 1)}
}

// declare sets the RuleGroups of the namespace. Without RuleGroups the evaluator ends.
func (v *evaluator) declare(units []*directory.Unit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Equal(v.declared, units) {
		v.declared = units
		pause.Wake(v.changed)
	}
}

// run evaluates each rule group of the namespace at its due times. It ends with ctx, and when the namespace has no RuleGroups.
func (v *evaluator) run(ctx context.Context) error {
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.changed:
			v.mu.Lock()
			units := v.declared
			v.mu.Unlock()
			if err := v.reloadGroups(ctx, units); err != nil && ctx.Err() == nil {
				return err
			}
			if len(units) == 0 {
				return nil
			}
		case <-wake.C:
			if err := v.evaluateDue(ctx); err != nil {
				return nil
			}
		}
		v.due.Store(0)
		if next := v.nextGroup(); next != nil {
			v.due.Store(next.due.UnixNano())
			wake.Reset(min(refreshInterval, next.due.Sub(v.engine.opts.Now()))) // a clock may jump
		}
	}
}

// evaluateDue waits for the turn of the namespace, and evaluates the rule groups that are due. A change of the declared
// RuleGroups ends it after the present group. It returns the error of ctx.
func (v *evaluator) evaluateDue(ctx context.Context) error {
	turns, took := &v.engine.turns, time.Duration(0)
	for next := v.dueGroup(); next != nil && len(v.changed) == 0; next = v.dueGroup() {
		if err := turns.awaitTurn(ctx, &v.turn, took); err != nil {
			return err
		}
		began := time.Now()
		v.evaluate(ctx, next)
		took = time.Since(began)
	}
	turns.endTurn(&v.turn, took)
	return nil
}

// dueGroup returns the rule group whose evaluation has been due for the longest time, or nil.
func (v *evaluator) dueGroup() *Group {
	next := v.nextGroup()
	if next == nil || next.due.After(v.engine.opts.Now()) {
		return nil
	}
	v.due.Store(next.due.UnixNano())
	return next
}

// lag returns how long the evaluation of a rule group of the namespace has been due.
func (v *evaluator) lag(now time.Time) time.Duration {
	due := v.due.Load()
	if due == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, due)))
}

// nextGroup returns the rule group with the earliest due time, or nil without groups.
func (v *evaluator) nextGroup() (next *Group) {
	for _, g := range v.Groups() {
		if !g.refused && (next == nil || g.due.Before(next.due)) {
			next = g
		}
	}
	return next
}

// Groups returns the rule groups of the namespace, sorted by name. The caller must not change the list.
func (v *evaluator) Groups() []*Group {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.groups
}

// reloadGroups adds, changes and removes rule groups according to the declared RuleGroups.
func (v *evaluator) reloadGroups(ctx context.Context, units []*directory.Unit) error {
	e, atStart := v.engine, v.atStart
	v.atStart = false
	rules := 0
	var list []*Group
	declared := map[model.UnitID]bool{}
	for _, u := range units {
		if u.Disabled || u.Definition.AsRuleGroup() == nil {
			continue
		}
		declared[u.ID] = true
		g := v.byUnit[u.ID]
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
			v.byUnit[u.ID] = g
		}
		g.unit = u
		rules += len(g.Rules())
		if g.refused = rules > maxNamespaceRules; g.refused {
			g.setError(fmt.Errorf("the rule group is not evaluated: namespace %s has more than %d rules", v.namespace, maxNamespaceRules))
		}
		list = append(list, g)
	}
	if atStart {
		if err := v.loadEvents(ctx, units); err != nil {
			return err
		}
	}
	for id, g := range v.byUnit {
		if !declared[id] {
			delete(v.byUnit, id)
			e.endGroup(ctx, g, slices.ContainsFunc(units, func(u *directory.Unit) bool { return u.ID == id }))
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.groups = list
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

// evaluate evaluates a rule group, and reports the changes of its alerts.
func (v *evaluator) evaluate(ctx context.Context, g *Group) {
	e := v.engine
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
	err := v.reportAlerts(ctx, g, at)
	e.logGroupError(g, err)
}

// loadEvents adds existing alert events to the rule groups that produced the events, at the server's start. A disabled
// group gets its events, too, so that refresh ends it.
func (v *evaluator) loadEvents(ctx context.Context, units []*directory.Unit) error {
	var ids []model.CheckID
	for _, u := range units {
		ids = append(ids, u.ID)
		if g := v.byUnit[u.ID]; g == nil { // disabled: its events end
			v.byUnit[u.ID] = &Group{namespace: u.Namespace, unit: u, events: map[eventKey]*alertEvent{}}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	q := event.Query{Checks: ids, Limit: event.MaxLimit, ByNode: true}
	for {
		page, err := v.engine.opts.Events(ctx, q)
		if err != nil {
			return fmt.Errorf("list the alert events of rule groups: %w", err)
		}
		for i := range page.States {
			st := &page.States[i]
			if g := v.byUnit[st.Check]; g != nil && st.Instance != "" {
				g.events[eventKey{st.Node, st.Instance}] = &alertEvent{problem: st.Status != model.OK, severity: st.Severity, loaded: true}
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}
