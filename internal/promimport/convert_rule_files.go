// Package promimport converts rules files of Prometheus to RuleGroups. A file that promtool check rules accepts comes in whole;
// a label namespace is renamed, because the server sets it.
//
// In: the files. Out: resources and notes. The package starts no goroutine and keeps no state. Start reading at Import.
package promimport

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Result holds the resources and notes that an import has made.
type Result struct {
	conversion.Result
	Groups int `json:"groups"` // in the files
	Rules  int `json:"rules"`
}

// rulesFile is a rules file of Prometheus.
type rulesFile struct {
	Groups []ruleGroup `json:"groups"`
}

// ruleGroup is a group of a rules file.
type ruleGroup struct {
	Name        string            `json:"name"`
	Interval    model.Duration    `json:"interval"`
	QueryOffset model.Duration    `json:"query_offset"`
	Limit       int               `json:"limit"`
	Labels      map[string]string `json:"labels"`
	Rules       []model.Rule      `json:"rules"`
}

// Import converts the groups in rules files of Prometheus to RuleGroup resources. A file of another form is an error. It does not
// parse expressions: apply and plan check them.
func Import(files []conversion.File, kinds *kind.Registry) (*Result, error) {
	result, names := &Result{}, map[string]bool{}
	for _, f := range files {
		var read rulesFile
		if err := document.Decode(f.Name, f.Data, &read, func(func(string) bool) model.Flaws { return nil }); err != nil {
			return nil, err
		}
		for i := range read.Groups {
			result.importGroup(f.Name, &read.Groups[i], names, kinds)
		}
	}
	return result, nil
}

// importGroup converts one group of a Prometheus rules file to a RuleGroup. names has the names of the resources
// before it.
func (result *Result) importGroup(file string, g *ruleGroup, names map[string]bool, kinds *kind.Registry) {
	result.Groups, result.Rules = result.Groups+1, result.Rules+len(g.Rules)
	note := func(what, text string) { result.AddNote(file, 0, what, false, "%s", text) }
	spec := &model.RuleGroupSpec{Interval: g.Interval, Limit: g.Limit, QueryOffset: g.QueryOffset, Labels: g.Labels, Rules: g.Rules}
	if spec.Interval > 0 && spec.Interval < model.Duration(model.MinRuleInterval) {
		note("group "+g.Name, fmt.Sprintf("interval %s became %s, the shortest here", spec.Interval, model.Duration(model.MinRuleInterval)))
		spec.Interval = model.Duration(model.MinRuleInterval)
	}
	rename := func(what string, labels map[string]string) {
		if value, ok := labels["namespace"]; ok {
			delete(labels, "namespace")
			labels["exported_namespace"] = value
			note(what, "the label namespace became exported_namespace: the server sets the label namespace")
		}
	}
	rename("group "+g.Name, spec.Labels)
	for i := range g.Rules {
		r := &g.Rules[i]
		rename("rule "+r.Record+r.Alert, r.Labels)
	}
	base := cmp.Or(model.CleanName(strings.ToLower(g.Name)), "rules")
	name := base
	for n := 2; names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	r := &model.Resource{APIVersion: model.APIVersion, Kind: "RuleGroup", Spec: spec, Metadata: model.Metadata{Name: name, Namespace: model.DefaultNamespaceName}}
	if g.Name != name {
		r.Metadata.DisplayName = g.Name
	}
	if len(g.Rules) == 0 {
		note("group "+g.Name, "it has no rules and was left out")
		return
	}
	if flaws := kinds.Check(r); len(flaws) > 0 {
		result.AddNote(file, 0, "group "+g.Name, true, "%s", model.OneLine(flaws.Err()))
		return
	}
	names[name] = true
	result.Resources = append(result.Resources, r)
}
