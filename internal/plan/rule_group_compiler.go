package plan

import (
	"errors"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// compileRuleGroup compiles a RuleGroup, which has no target nodes because the server evaluates its rules. No
// agent gets its rules, because the server evaluates them.
func compileRuleGroup(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns := d.spec.(*model.RuleGroupSpec), d.key.Namespace
	for i := range spec.Rules {
		if err := checkRule(&spec.Rules[i]); err != nil {
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
// expression and templates.
func checkRule(r *model.Rule) error {
	p := rulefmt.Rule{
		Record: r.Record, Alert: r.Alert, Expr: r.Expr, For: prommodel.Duration(r.For), KeepFiringFor: prommodel.Duration(r.KeepFiringFor),
		Labels: r.Labels, Annotations: r.Annotations,
	}
	flaws := p.Validate(rulefmt.RuleNode{}, prommodel.UTF8Validation, parser.NewParser(parser.Options{}))
	if len(flaws) == 0 {
		return nil
	}
	if err := errors.Unwrap(&flaws[0]); err != nil { // without the place in a file of Prometheus
		return err
	}
	return &flaws[0]
}
