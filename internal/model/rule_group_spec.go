package model

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// RuleGroupSpec is a group of recording and alerting rules, as in a rules file of Prometheus. The server evaluates the
// rules one after the other on a clock, over the series of the group's namespace.
type RuleGroupSpec struct {
	// Time between two evaluations, at least 1s. Default 1m.
	Interval Duration `json:"interval,omitempty"`
	// How far before its time an evaluation reads the series. Default 0s.
	QueryOffset Duration `json:"query_offset,omitempty"`
	// The most series or alerts of one rule; a rule that has more fails. Default and most: 10000.
	Limit int `json:"limit,omitempty"`
	// Labels that each rule adds to its series or alerts.
	Labels map[string]string `json:"labels,omitempty"`
	// The rules. A rule reads the series that the rules before it have recorded.
	Rules []Rule `json:"rules"`
	// The receivers of notifications about its alerts: route or handlers. Default: all matching routes.
	Alert *PolicyAlert `json:"alert,omitempty"`
	// Nothing of it is evaluated while this is true; its problems close.
	Disabled bool `json:"disabled,omitempty"`
}

// Kind returns the name of the resource kind, RuleGroup.
func (*RuleGroupSpec) Kind() string { return "RuleGroup" }

// Rule is a rule of Prometheus that records an expression's result or raises alerts. The result is recorded as series;
// an alert is raised for each element of the result.
type Rule struct {
	// The name of the series that a recording rule writes: node:load:avg5m. Exactly one of record and alert.
	Record string `json:"record,omitempty"`
	// The name of the alerts that an alerting rule raises.
	Alert string `json:"alert,omitempty"`
	// The expression in PromQL.
	Expr string `json:"expr"`
	// How long an alert is pending before it fires. Default 0s.
	For Duration `json:"for,omitempty"`
	// How long an alert goes on firing after the expression has lost it. Default 0s.
	KeepFiringFor Duration `json:"keep_firing_for,omitempty"`
	// Labels that the rule adds; those of an alert are templates. An alert's label severity sets the severity of its problem.
	Labels map[string]string `json:"labels,omitempty"`
	// Texts of an alert for people, as templates: summary, description, runbook_url.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Defaults and bounds of rule groups.
const (
	DefaultGroupInterval = time.Minute
	MinRuleInterval      = time.Second
	MaxRuleSeries        = 10_000 // series or alerts of one rule
)

// DefinitionRuleGroup is the kind of definitions that hold rules. No agent gets one: the server evaluates them.
const DefinitionRuleGroup DefinitionKind = 5

// RuleGroupDefinition is a compiled RuleGroup.
type RuleGroupDefinition struct {
	Definition
	Interval    time.Duration
	QueryOffset time.Duration
	Limit       uint32
	Labels      map[string]string
	Rules       []Rule
	Handlers    []string // notified when a problem opens and closes
	Route       string   // replaces Handlers; both empty: all matching routes
}

// CompileRuleGroup converts the spec of a RuleGroup to its compiled form, with defaults filled in.
func CompileRuleGroup(head Definition, s *RuleGroupSpec) *RuleGroupDefinition {
	c := &RuleGroupDefinition{
		Definition: head, Interval: cmp.Or(time.Duration(s.Interval), DefaultGroupInterval), QueryOffset: time.Duration(s.QueryOffset),
		Limit: uint32(cmp.Or(max(0, s.Limit), MaxRuleSeries)), Labels: s.Labels, Rules: s.Rules,
	}
	if s.Alert != nil {
		c.Handlers, c.Route = s.Alert.Handlers, s.Alert.Route
	}
	return c
}

// ToDefinition wraps the compiled RuleGroup as a Definition, the common form of all compiled resources. The
// compiled group must not be changed after this call.
func (c *RuleGroupDefinition) ToDefinition() *Definition {
	return c.Definition.SetBody(DefinitionRuleGroup, c)
}

// AsRuleGroup returns the definition's body as a compiled RuleGroup, or nil for another kind of definition. It
// returns nil if the definition is nil or of another kind.
func (c *Definition) AsRuleGroup() *RuleGroupDefinition {
	if c == nil {
		return nil
	}
	group, _ := c.body.(*RuleGroupDefinition)
	return group
}

// AlertRule returns the group's rule that raised an alert, found by the alert's event instance, or nil. It
// returns nil if the group is nil or has no such rule.
func (c *RuleGroupDefinition) AlertRule(instance string) *Rule {
	name, _, ok := strings.Cut(instance, alertMark)
	if c == nil || !ok {
		return nil
	}
	if i := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.Alert == name }); i >= 0 {
		return &c.Rules[i]
	}
	return nil
}

// eventRules returns the RuleGroup's handlers and route as a CheckDefinition, because events are derived from
// checks. Events are always derived from checks. The severity comes from the verdict about an alert.
func (c *RuleGroupDefinition) eventRules() *CheckDefinition {
	return &CheckDefinition{Definition: c.Definition, FailAfter: 1, RecoverAfter: 1, Interval: c.Interval, Handlers: c.Handlers, Route: c.Route}
}

// alertMark ends the name of an alert in the instance of its event; the labels follow.
const alertMark = "{"

// IsAlertInstance reports whether an event instance has the form NAME{LABEL="VALUE", …} of a Prometheus
// alert. No trigger has such a name.
func IsAlertInstance(instance string) bool {
	name, labels, ok := strings.Cut(instance, alertMark)
	if !ok || name == "" {
		return false
	}
	c := labels[:min(1, len(labels))] // a label, not a macro such as {$MAX}
	return labels == "}" || strings.HasSuffix(labels, `"}`) && strings.Contains(labels, `="`) && !strings.ContainsAny(c, "$#?")
}

// RuleSource identifies an alert of a RuleGroup as the source of a problem.
func RuleSource(group UnitID, instance string) Source {
	return Source{Kind: SourceRule, ID: uint32(group), Instance: instance}
}
