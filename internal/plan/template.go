package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// compileTemplate compiles a Template to a unit, which has its targets and the compiled text for agents. Items and
// triggers that are disabled are left out; the order of the others is that of their keys and names, so that an edit
// of the order changes nothing.
func compileTemplate(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns := d.spec.(*model.TemplateSpec), d.key.Namespace
	definition := &model.TemplateDefinition{Definition: model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(ns).ID}, ValueMaps: spec.ValueMaps, Macros: spec.Macros}
	named := references{}
	for _, item := range spec.Items {
		if item.Collected() {
			item.Interval = cmp.Or(item.Interval, model.DefaultItemInterval)
		}
		if !item.Disabled {
			definition.Items = append(definition.Items, item)
		}
	}
	for i := range spec.Triggers {
		t := &spec.Triggers[i]
		if t.Disabled {
			continue
		}
		severity, _ := model.ParseSeverity(t.SeverityName())
		out := model.DefinitionTrigger{Name: t.Name, Expression: t.Expression, Recovery: t.Recovery, Severity: severity, Runbook: t.Runbook}
		if t.Alert != nil {
			out.Handlers, out.Route = t.Alert.Handlers, t.Alert.Route
			named["Handler"] = append(named["Handler"], out.Handlers...)
			if out.Route != "" {
				named["Route"] = append(named["Route"], out.Route)
			}
		}
		definition.Triggers = append(definition.Triggers, out)
	}
	slices.SortFunc(definition.Items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(definition.Triggers, func(a, b model.DefinitionTrigger) int { return strings.Compare(a.Name, b.Name) })
	b := &body{definition: definition.Seal(), properties: definition.MacroNames()}
	if len(b.properties) > 0 {
		b.try = func(properties model.PropertyValues) error { return definition.MacroError(properties) }
	}
	var err error
	if b.size, err = definitionSize(b.definition); err != nil {
		return nil, err
	}
	u := &unit{
		Unit: &directory.Unit{ID: model.UnitID(d.id), Kind: d.key.Kind, Name: d.name(), Labels: d.meta.Labels, Annotations: d.meta.Annotations,
			DisplayName: d.meta.DisplayName, Disabled: spec.Disabled},
		body: b, needs: named,
	}
	if spec.Targets != nil && !spec.Disabled {
		if u.targets, err = c.targets(ns, spec.Targets); err != nil {
			return nil, err
		}
		u.Groups, u.HasTargets = u.targets.groups, true
	}
	return u, nil
}
