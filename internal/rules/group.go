package rules

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promrules "github.com/prometheus/prometheus/rules"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/promexpr"
	"github.com/muster-fleet/muster/internal/store/series"
)

// Group is a RuleGroup with its compiled rules and the state of the evaluation. Only the evaluator of its namespace changes
// it; readers use the methods of Prometheus' group, namespace and missed, which are safe for concurrent use.
type Group struct {
	*promrules.Group
	namespace string
	opts      *promrules.ManagerOptions
	unit      *directory.Unit
	missed    atomic.Int64 // evaluations that were skipped, because one took longer than the interval

	due         time.Time
	evaluations int  // since the start, up to 2
	restores    bool // its alerts get the state that they had before the start of the server
	refused     bool // not evaluated: its namespace has too many rules
	troubled    bool // the log has its trouble
	events      map[eventKey]*alertEvent
}

// Namespace returns the namespace of the group.
func (g *Group) Namespace() string { return g.namespace }

// Missed returns how many evaluations the group has skipped because the previous evaluation took too long.
func (g *Group) Missed() int64 { return g.missed.Load() }

// newGroup compiles the rules of a RuleGroup resource. restores: its alerts have a state of the run before.
func (e *Engine) newGroup(u *directory.Unit, restores bool) (*Group, error) {
	c, silent := u.Definition.AsRuleGroup(), slog.New(slog.DiscardHandler) // Engine.logGroupError logs failures
	var rules []promrules.Rule
	for i := range c.Rules {
		r := &c.Rules[i]
		expr, err := e.parser.ParseExpr(r.Expr)
		if err != nil {
			return nil, err
		}
		if err := checkTemplates(c, r); err != nil {
			return nil, err
		}
		own := promrules.FromMaps(c.Labels, r.Labels, map[string]string{series.LabelNamespace: u.Namespace})
		if r.Record != "" {
			rules = append(rules, promrules.NewRecordingRule(r.Record, expr, own))
			continue
		}
		rules = append(rules, promrules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor), own,
			labels.FromMap(r.Annotations), labels.EmptyLabels(), "", !restores, silent))
	}
	of := e.opts.Series(u.Namespace)
	opts := &promrules.ManagerOptions{
		NameValidationScheme: prommodel.UTF8Validation, ExternalURL: new(url.URL), QueryFunc: e.queryFunc(of), Queryable: of,
		NotifyFunc: func(context.Context, string, ...*promrules.Alert) {}, // reportAlerts tells the view
		Context:    context.Background(), AppendableV2: sampleAppendable{e, u.Namespace}, Logger: silent,
		OutageTolerance: outageTolerance, ForGracePeriod: forGracePeriod, Metrics: promrules.NewGroupMetrics(nil), Parser: e.parser,
	}
	name := u.DisplayName
	if name == "" {
		name = u.Name.Name
	}
	g := &Group{namespace: u.Namespace, opts: opts, unit: u, restores: restores, events: map[eventKey]*alertEvent{}}
	g.Group = promrules.NewGroup(promrules.GroupOptions{
		Name: name, File: u.Name.String(), Interval: c.Interval, Limit: int(c.Limit), Rules: rules, ShouldRestore: restores, Opts: opts, QueryOffset: &c.QueryOffset,
	})
	g.due = g.EvalTimestamp(e.opts.Now().UnixNano()).Add(g.Interval())
	return g, nil
}

// checkTemplates returns an error if a template of a rule may take too much time or memory.
func checkTemplates(c *model.RuleGroupDefinition, r *model.Rule) error {
	for _, texts := range []map[string]string{c.Labels, r.Labels, r.Annotations} {
		for name, text := range texts {
			if err := promexpr.CheckTemplate(text); err != nil {
				return fmt.Errorf("template of %s: %w", name, err)
			}
		}
	}
	return nil
}

// copyStateFrom copies alerts and counters from the previous version of a rule group to the edited version. The
// state has the active alerts of rules with equal names and labels, and the events of all alerts.
func (g *Group) copyStateFrom(before *Group) {
	if before.Group != nil {
		g.CopyState(before.Group)
	}
	g.events, g.evaluations, g.restores, g.troubled = before.events, before.evaluations, before.restores, before.troubled
	g.missed.Store(before.missed.Load())
	if g.restores {
		return
	}
	for _, r := range g.AlertingRules() {
		r.SetRestored(true)
	}
}

// setError marks all rules of the group as failed, with the given error.
func (g *Group) setError(err error) {
	for _, r := range g.Rules() {
		r.SetHealth(promrules.HealthBad)
		r.SetLastError(err)
	}
}

// alertingRules combines the states of all alerting rules with the same name in a group.
type alertingRules struct {
	failed     bool          // the last evaluation of one failed, so its alerts are unknown
	keepFiring time.Duration // longest keep_firing_for
}

// alertingRulesByName returns the combined states of a group's alerting rules, as a map by rule name.
func (g *Group) alertingRulesByName() map[string]alertingRules {
	byName := map[string]alertingRules{}
	for _, r := range g.AlertingRules() {
		of := byName[r.Name()]
		byName[r.Name()] = alertingRules{of.failed || r.LastError() != nil, max(of.keepFiring, r.KeepFiringFor())}
	}
	return byName
}
