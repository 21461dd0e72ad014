package kind

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// RuleGroup returns the resource kind RuleGroup, a group of recording and alerting rules of Prometheus.
func RuleGroup() Kind {
	return Define(Definition[*model.RuleGroupSpec]{
		KindInfo: model.KindInfo{Name: "RuleGroup", Plural: "rulegroups", Short: "rg", Namespaced: true},
		Unit:     model.DefinitionRuleGroup,
		Example: `kind: RuleGroup
metadata: {name: load}
spec:
  interval: 10s
  rules:
    - record: site:load:avg
      expr: avg(system_cpu_load)
    - alert: LoadIsHigh
      expr: system_cpu_load > 4 * scalar(site:load:avg)
      for: 5m
      labels: {severity: warning}
      annotations: {summary: "load {{ $value }} on {{ $labels.node }}"}
`,
		Validate: validateRuleGroup,
		Columns: []Column[*model.RuleGroupSpec]{
			{"RECORDS", 0, func(_ ResourceView, s *model.RuleGroupSpec) string {
				records, _ := countRules(s)
				return fmt.Sprint(records)
			}},
			{"ALERTS", 0, func(_ ResourceView, s *model.RuleGroupSpec) string {
				_, alerts := countRules(s)
				return fmt.Sprint(alerts)
			}},
			{"INTERVAL", 0, func(_ ResourceView, s *model.RuleGroupSpec) string { return ruleInterval(s).String() }},
		},
		Details: func(_ ResourceView, s *model.RuleGroupSpec) []Detail {
			list := []Detail{{"interval", ruleInterval(s).String()}}
			for i := range s.Rules {
				r := &s.Rules[i]
				if r.Record != "" {
					list = append(list, Detail{"record", r.Record + " = " + r.Expr})
					continue
				}
				text := r.Alert + "  " + r.Expr
				if r.For > 0 {
					text += "  for " + r.For.String()
				}
				list = append(list, Detail{"alert", text})
			}
			return list
		},
		Effect: func(_ *model.Resource, s *model.RuleGroupSpec, _ ResourceUsage, _ bool) (note, warning string) {
			if s.Disabled {
				return "disabled: evaluates nothing", ""
			}
			records, alerts := countRules(s)
			return fmt.Sprintf("records %d series names and raises %s, evaluated every %s; see them: muster get rules", records, model.CountNoun(alerts, "alert"), ruleInterval(s)), ""
		},
	})
}

// Bounds of rules; the protocol has them, too.
const (
	maxRules         = 1024
	maxRuleText      = 1024     // bytes of the name of a series or label
	maxAlertName     = 128      // internal/rules makes instances of events of it
	maxRuleExpr      = 16 << 10 // bytes of an expression
	maxRuleLabels    = 32       // and as many annotations
	maxRuleTemplate  = 8 << 10  // bytes of a label's or annotation's template
	maxRuleGroupSize = 128 << 10
)

// ruleLabel matches the names of labels and annotations.
var ruleLabel = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// ruleInterval returns how often the rules of a RuleGroup are evaluated.
func ruleInterval(s *model.RuleGroupSpec) model.Duration {
	return cmp.Or(s.Interval, model.Duration(model.DefaultGroupInterval))
}

// countRules returns the number of recording rules and the number of alerting rules.
func countRules(s *model.RuleGroupSpec) (records, alerts int) {
	for i := range s.Rules {
		if s.Rules[i].Record != "" {
			records++
		} else {
			alerts++
		}
	}
	return records, alerts
}

// validateRuleGroup validates the spec of a RuleGroup.
func validateRuleGroup(v *Validator, s *model.RuleGroupSpec) {
	v.FlawIf(v.namespace == model.SharedNamespaceName, "metadata.namespace", "write the namespace of the series", "rules read the series of one namespace")
	v.InRange("spec.interval", s.Interval, model.Duration(model.MinRuleInterval), maxInterval)
	v.FlawIf(s.QueryOffset < 0 || s.QueryOffset > model.Duration(time.Hour), "spec.query_offset", "", "expected 0s to 1h, got %s", s.QueryOffset)
	v.FlawIf(s.Limit < 0 || s.Limit > model.MaxRuleSeries, "spec.limit", "", "expected 1 to %d, got %d", model.MaxRuleSeries, s.Limit)
	v.MissingIf(len(s.Rules) == 0, "spec.rules", "write a list such as [{record: site:load:avg, expr: avg(system_cpu_load)}]", "missing")
	v.FlawIf(len(s.Rules) > maxRules, "spec.rules", "divide the group", "%d rules, at most %d", len(s.Rules), maxRules)
	size := validateRuleTexts(v, "spec.labels", s.Labels)
	for i := range s.Rules {
		size += validateRule(v, fmt.Sprintf("spec.rules[%d]", i), &s.Rules[i])
	}
	v.FlawIf(size > maxRuleGroupSize, "spec.rules", "divide the group", "longer than %s", model.Size(maxRuleGroupSize))
	if a := s.Alert; a != nil {
		v.excludeRoute("spec.alert.handlers", a.Route, a.Handlers)
	}
}

// validateRule validates one rule except its expression and templates, and returns the total length of its texts. The
// planner validates these: the command line of small builds has no PromQL.
func validateRule(v *Validator, at string, r *model.Rule) (size int) {
	name := r.Record + r.Alert
	v.FlawIf(r.Record != "" && r.Alert != "", at, "make a rule of each", "record and alert exclude each other")
	v.MissingIf(name == "", at, "write record: NAME or alert: NAME", "the name is missing")
	v.MissingIf(r.Expr == "", at+".expr", "write an expression in PromQL", "missing")
	v.FlawIf(len(name) > maxRuleText || model.HasControl(name), at, "", "the name is longer than %d bytes or no single line", maxRuleText)
	v.FlawIf(len(r.Expr) > maxRuleExpr, at+".expr", "", "longer than %d bytes", maxRuleExpr)
	v.FlawIf(r.For < 0 || r.For > maxInterval, at+".for", "", "expected 0s to 366d, got %s", r.For)
	v.FlawIf(r.KeepFiringFor < 0 || r.KeepFiringFor > maxInterval, at+".keep_firing_for", "", "expected 0s to 366d, got %s", r.KeepFiringFor)
	v.FlawIf(strings.Contains(r.Alert, "{") || len(r.Alert) > maxAlertName, at+".alert", "write another name", "the name of an alert has no { and at most %d bytes", maxAlertName)
	size = len(name) + len(r.Expr) + validateRuleTexts(v, at+".labels", r.Labels) + validateRuleTexts(v, at+".annotations", r.Annotations)
	v.FlawIf(r.Record != "" && len(r.Annotations) > 0, at+".annotations", "leave the field out", "a recording rule has no annotations")
	v.FlawIf(r.Record != "" && r.For+r.KeepFiringFor != 0, at+".for", "leave for and keep_firing_for out", "a recording rule does not wait")
	return size
}

// validateRuleTexts limits the number and the lengths of a rule's labels or annotations.
func validateRuleTexts(v *Validator, field string, texts map[string]string) (size int) {
	v.FlawIf(len(texts) > maxRuleLabels, field, "", "%d, at most %d", len(texts), maxRuleLabels)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		v.FlawIf(!ruleLabel.MatchString(name) || name == "__name__" || len(name) > maxRuleText, field+"."+name, "use letters, digits and _", "invalid name %q", name)
		v.FlawIf(name == "namespace" && strings.HasSuffix(field, ".labels"), field+".namespace", "leave the label out", "the server sets the label namespace")
		v.FlawIf(len(texts[name]) > maxRuleTemplate, field+"."+name, "", "longer than %d bytes", maxRuleTemplate)
		size += len(name) + len(texts[name])
	}
	return size
}
