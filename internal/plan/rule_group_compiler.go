package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/promexpr"
)

// compileRuleGroup compiles a RuleGroup, which has no target nodes because the server evaluates its rules. No
// agent gets its rules, because the server evaluates them.
func compileRuleGroup(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns := d.spec.(*model.RuleGroupSpec), d.key.Namespace
	for i := range spec.Rules {
		if err := checkRule(&spec.Rules[i], spec.Labels); err != nil {
			return nil, model.Errorf(model.Invalid, "alert or recording rule %s: %w", spec.Rules[i].Record+spec.Rules[i].Alert, err).WithHint("correct spec.rules[%d]", i)
		}
	}
	definition := model.CompileRuleGroup(model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(ns).ID}, spec)
	b := &body{definition: definition.ToDefinition()}
	var err error
	if b.size, err = definitionSize(b.definition); err != nil {
		return nil, err
	}
	named := references{"Handler": definition.Handlers}
	if definition.Route != "" {
		named["Route"] = []string{definition.Route}
	}
	return &unit{
		Unit: &directory.Unit{ID: model.UnitID(d.id), Kind: d.key.Kind, Name: d.name(), Labels: d.meta.Labels, Annotations: d.meta.Annotations,
			DisplayName: d.meta.DisplayName, Disabled: spec.Disabled},
		body: b, needs: named,
	}, nil
}

// checkRule checks with Prometheus's own validation whether an alert or recording rule is valid. It checks name,
// expression and templates. labels are those of the group.
func checkRule(r *model.Rule, labels map[string]string) error {
	for _, texts := range []map[string]string{labels, r.Labels, r.Annotations} {
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if err := promexpr.CheckTemplate(texts[name]); err != nil {
				return fmt.Errorf("template of %s: %w", name, err)
			}
		}
	}
	p := rulefmt.Rule{
		Record: r.Record, Alert: r.Alert, Expr: r.Expr, For: prommodel.Duration(r.For), KeepFiringFor: prommodel.Duration(r.KeepFiringFor),
		Labels: r.Labels, Annotations: r.Annotations,
	}
	flaws := p.Validate(rulefmt.RuleNode{}, prommodel.UTF8Validation, promexpr.NewParser())
	if len(flaws) == 0 {
		return nil
	}
	if err := errors.Unwrap(&flaws[0]); err != nil { // without the place in a file of Prometheus
		return err
	}
	return &flaws[0]
}
