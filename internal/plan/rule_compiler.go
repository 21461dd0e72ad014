package plan

import (
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// compileRuleGroup compiles a RuleGroup to a unit without targets: no agent gets its rules, the server evaluates them.
func compileRuleGroup(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns := d.spec.(*model.RuleGroupSpec), d.key.Namespace
	definition := model.CompileRuleGroup(model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(ns).ID}, spec)
	b := &body{definition: definition.Seal()}
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
