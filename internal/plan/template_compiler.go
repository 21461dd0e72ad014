package plan

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// compileTemplate compiles a Template to its targets and its definition for agents. Items and triggers that are
// disabled are left out; the order of the others is that of their keys and names, so that an edit of the order changes
// nothing.
func compileTemplate(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns := d.spec.(*model.TemplateSpec), d.key.Namespace
	definition := &model.TemplateDefinition{Definition: model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(ns).ID}, ValueMaps: spec.ValueMaps, Macros: spec.Macros}
	named := references{}
	for _, item := range spec.Items {
		if !item.Disabled {
			definition.Items = append(definition.Items, item.WithInterval())
		}
	}
	definition.Triggers = compileTriggers(spec.Triggers, spec.Tags, named)
	definition.Triggers = slices.DeleteFunc(definition.Triggers, func(t model.DefinitionTrigger) bool { return t.Disabled })
	for i := range spec.Discovery {
		if rule := &spec.Discovery[i]; !rule.Disabled {
			definition.Items = append(definition.Items, rule.Item())
			definition.Rules = append(definition.Rules, compileDiscoveryRule(rule, spec.Tags, named))
		}
	}
	for _, s := range spec.Secrets {
		named["Secret"] = append(named["Secret"], s.Secret)
		secret, _ := c.secret(ns, s.Secret, s.Macro)
		definition.Secrets = append(definition.Secrets, secret)
	}
	slices.SortFunc(definition.Rules, func(a, b model.DefinitionRule) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(definition.Items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	b := &body{definition: definition.ToDefinition(), properties: definition.MacroNames()}
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

// compileTriggers compiles the triggers of a Template, or the prototypes of a discovery rule. It collects the handlers
// and routes of the triggers in `named`. tags has the tags of the Template.
func compileTriggers(triggers []model.Trigger, tags map[string]string, named references) (list []model.DefinitionTrigger) {
	for i := range triggers {
		out := triggers[i].Definition()
		out.Tags = model.MergeTags(tags, out.Tags)
		named.addReceivers(&out)
		list = append(list, out)
	}
	slices.SortFunc(list, func(a, b model.DefinitionTrigger) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// addReceivers adds the handlers and the route of a trigger to the references.
func (named references) addReceivers(t *model.DefinitionTrigger) {
	named["Handler"] = append(named["Handler"], t.Handlers...)
	if t.Route != "" {
		named["Route"] = append(named["Route"], t.Route)
	}
}

// compileDiscoveryRule compiles a low-level discovery rule of a Template. By such a rule agents find things such as disks.
// Disabled prototypes stay: an override may ask for them.
func compileDiscoveryRule(rule *model.DiscoveryRule, tags map[string]string, named references) model.DefinitionRule {
	out := rule.Definition()
	for i := range out.Triggers {
		out.Triggers[i].Tags = model.MergeTags(tags, out.Triggers[i].Tags)
		named.addReceivers(&out.Triggers[i])
	}
	return out
}
