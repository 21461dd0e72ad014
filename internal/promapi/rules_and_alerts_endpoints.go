package promapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/muster-fleet/muster/internal/rules"
)

// ruleGroup is a group of rules in Prometheus' form. Missed is Muster's own.
type ruleGroup struct {
	Name           string    `json:"name"`
	File           string    `json:"file"`
	Rules          []any     `json:"rules"`
	Interval       float64   `json:"interval"`
	Limit          int       `json:"limit"`
	EvaluationTime float64   `json:"evaluationTime"`
	LastEvaluation time.Time `json:"lastEvaluation"`
	Missed         int64     `json:"missedEvaluations,omitempty"`
}

// ruleOutcome is the outcome of a rule's last evaluation, in Prometheus' form. Alerting and recording rules have it.
type ruleOutcome struct {
	Health         promrules.RuleHealth `json:"health"`
	LastError      string               `json:"lastError,omitempty"`
	EvaluationTime float64              `json:"evaluationTime"`
	LastEvaluation time.Time            `json:"lastEvaluation"`
	Type           string               `json:"type"`
}

// alertingRule is an alerting rule in Prometheus' form.
type alertingRule struct {
	State         string        `json:"state"`
	Name          string        `json:"name"`
	Query         string        `json:"query"`
	Duration      float64       `json:"duration"`
	KeepFiringFor float64       `json:"keepFiringFor"`
	Labels        labels.Labels `json:"labels"`
	Annotations   labels.Labels `json:"annotations"`
	Alerts        []ruleAlert   `json:"alerts"`
	ruleOutcome
}

// recordingRule is a recording rule in Prometheus' form.
type recordingRule struct {
	Name   string        `json:"name"`
	Query  string        `json:"query"`
	Labels labels.Labels `json:"labels"`
	ruleOutcome
}

// ruleAlert is a pending or firing alert in Prometheus' form.
type ruleAlert struct {
	Labels          labels.Labels `json:"labels"`
	Annotations     labels.Labels `json:"annotations"`
	State           string        `json:"state"`
	ActiveAt        *time.Time    `json:"activeAt,omitempty"`
	KeepFiringSince *time.Time    `json:"keepFiringSince,omitempty"`
	Value           string        `json:"value"`
}

// ruleFilter has the request parameters that select rules, such as names and types. Prometheus' API documents the
// parameters.
type ruleFilter struct {
	kind          string // alert, record or empty
	excludeAlerts bool
	limit         int // groups in one answer; zero: all
	token         string
	names         []string
	groups        []string
	files         []string
}

// decodeRuleFilter decodes the parameters that select rules.
func decodeRuleFilter(r *http.Request) (f ruleFilter, err error) {
	f = ruleFilter{kind: strings.ToLower(r.Form.Get("type")), token: r.Form.Get("group_next_token"), names: r.Form["rule_name[]"], groups: r.Form["rule_group[]"], files: r.Form["file[]"]}
	if !slices.Contains([]string{"", "alert", "record"}, f.kind) {
		return f, badData(fmt.Errorf(`invalid parameter "type": not supported value %q`, f.kind))
	}
	if text := r.Form.Get("exclude_alerts"); text != "" {
		if f.excludeAlerts, err = strconv.ParseBool(text); err != nil {
			return f, badData(fmt.Errorf(`invalid parameter "exclude_alerts": error converting exclude_alerts: %w`, err))
		}
	}
	if text := r.Form.Get("group_limit"); text != "" {
		if f.limit, err = strconv.Atoi(text); err != nil || f.limit <= 0 {
			return f, badData(fmt.Errorf(`invalid parameter "group_limit": group_limit needs to be a valid number greater than 0`))
		}
	} else if f.token != "" {
		return f, badData(errors.New(`invalid parameter "group_limit": group_limit needs to be present in order to paginate over the groups`))
	}
	return f, nil
}

// visibleGroups returns the rule groups in the namespaces that the caller may read. If the request names a namespace,
// only its groups are returned.
func (q *promRequest) visibleGroups(ctx context.Context, x *parameters) (list []*rules.Group, err error) {
	if err := q.checkNamespace(ctx, x); err != nil || q.Rules == nil {
		return nil, err
	}
	for _, g := range q.Rules() {
		if q.SeesNamespace(g.Namespace()) && (x.namespace == "" || g.Namespace() == x.namespace) {
			list = append(list, g)
		}
	}
	return list, nil
}

// rules lists the alerting and recording rules, each with the outcome of its last evaluation.
func (q *promRequest) rules(ctx context.Context, r *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	f, err := decodeRuleFilter(r)
	if err != nil {
		return nil, nil, err
	}
	visible, err := q.visibleGroups(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	answer := struct {
		Groups []ruleGroup `json:"groups"`
		Next   string      `json:"groupNextToken,omitempty"`
	}{Groups: []ruleGroup{}}
	begun := f.token == ""
	for _, g := range visible {
		if begun = begun || groupToken(g) == f.token; !begun {
			continue
		}
		if len(f.groups) > 0 && !slices.Contains(f.groups, g.Name()) || len(f.files) > 0 && !slices.Contains(f.files, g.File()) {
			continue
		}
		group := ruleGroup{
			Name: g.Name(), File: g.File(), Rules: f.rulesOf(g, x.matchers), Interval: g.Interval().Seconds(), Limit: g.Limit(), EvaluationTime: g.GetEvaluationTime().Seconds(),
			LastEvaluation: g.GetLastEvaluation(), Missed: g.Missed(),
		}
		if len(group.Rules) == 0 {
			continue
		}
		if f.limit > 0 && len(answer.Groups) == f.limit {
			answer.Next = groupToken(g)
			break
		}
		answer.Groups = append(answer.Groups, group)
	}
	if !begun {
		return nil, nil, badData(fmt.Errorf(`invalid parameter "group_next_token": invalid group_next_token '%v'. were rule groups changed?`, f.token))
	}
	data, err := json.Marshal(answer)
	return data, nil, err
}

// groupToken returns the token for the next page of rule groups, which begins at the given group.
func groupToken(g *rules.Group) string {
	sum := sha256.Sum256([]byte(g.File() + ";" + g.Name()))
	return hex.EncodeToString(sum[:])
}

// rulesOf returns the selected rules of a group in Prometheus' form.
func (f *ruleFilter) rulesOf(g *rules.Group, matchers [][]*labels.Matcher) (list []any) {
	for _, r := range g.Rules(matchers...) {
		if len(f.names) > 0 && !slices.Contains(f.names, r.Name()) {
			continue
		}
		out := ruleOutcome{Health: r.Health(), EvaluationTime: r.GetEvaluationDuration().Seconds(), LastEvaluation: r.GetEvaluationTimestamp(), Type: "recording"}
		if err := r.LastError(); err != nil {
			out.LastError = err.Error()
		}
		a, ok := r.(*promrules.AlertingRule)
		switch {
		case !ok && f.kind != "alert":
			list = append(list, recordingRule{r.Name(), r.Query().String(), r.Labels(), out})
		case ok && f.kind != "record":
			out.Type = "alerting"
			rule := alertingRule{
				State: a.State().String(), Name: a.Name(), Query: a.Query().String(), Duration: a.HoldDuration().Seconds(), KeepFiringFor: a.KeepFiringFor().Seconds(),
				Labels: a.Labels(), Annotations: a.Annotations(), ruleOutcome: out,
			}
			if !f.excludeAlerts {
				rule.Alerts = alertsOf(a)
			}
			list = append(list, rule)
		}
	}
	return list
}

// alerts lists the pending and firing alerts.
func (q *promRequest) alerts(ctx context.Context, _ *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	visible, err := q.visibleGroups(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	answer := struct {
		Alerts []ruleAlert `json:"alerts"`
	}{[]ruleAlert{}}
	for _, g := range visible {
		for _, r := range g.AlertingRules() {
			answer.Alerts = append(answer.Alerts, alertsOf(r)...)
		}
	}
	data, err := json.Marshal(answer)
	return data, nil, err
}

// alertsOf returns the pending and firing alerts of a rule in Prometheus' form, by their labels.
func alertsOf(r *promrules.AlertingRule) []ruleAlert {
	list := []ruleAlert{}
	for _, a := range r.ActiveAlerts() {
		alert := ruleAlert{Labels: a.Labels, Annotations: a.Annotations, State: a.State.String(), ActiveAt: &a.ActiveAt, Value: strconv.FormatFloat(a.Value, 'e', -1, 64)}
		if !a.KeepFiringSince.IsZero() {
			alert.KeepFiringSince = &a.KeepFiringSince
		}
		list = append(list, alert)
	}
	slices.SortFunc(list, func(a, b ruleAlert) int { return labels.Compare(a.Labels, b.Labels) })
	return list
}
