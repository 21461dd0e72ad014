package kind

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/model"
)

// maxRuleParts bounds the overrides of a rule, their changes, and the conditions of a filter.
const maxRuleParts = 1024

// validateDiscoveryRule validates a discovery rule of a Template without the triggers of the rule. keys has the
// keys of the items outside of rules, and of the rules.
func (t *templateValidation) validateDiscoveryRule(at string, r *model.DiscoveryRule, keys map[string]bool) {
	v := t.v
	item := r.Item()
	item.Interval = r.Interval
	item.Type = ""
	t.validateItem(at, &item, keys)
	v.FlawIf(len(r.Items) > maxItems, at+".items", "divide the rule", "%d items, at most %d", len(r.Items), maxItems)
	v.FlawIf(len(r.Triggers) > maxItems, at+".triggers", "divide the rule", "%d triggers, at most %d", len(r.Triggers), maxItems)
	v.FlawIf(len(r.Overrides) > maxRuleParts, at+".overrides", "", "%d overrides, at most %d", len(r.Overrides), maxRuleParts)
	for i, text := range []string{r.DisableAfter, r.DeleteAfter} {
		field := at + []string{".disableAfter", ".deleteAfter"}[i]
		v.RequireLine(field, text, model.MaxText)
		if strings.Contains(text, "{$") {
			_, err := (&model.DefinitionRule{DisableAfterText: text}).WithMacros(t.macros)
			recordMacroError(v, field, err)
			continue
		}
		_, err := model.ParseLostAfter(cmp.Or(text, model.DefaultDeleteAfter))
		v.FlawIf(err != nil, field, "write now, never, or a time such as 7d", "%v", err)
	}
	masters := map[string]bool{}
	for key := range keys {
		masters[key] = true
	}
	names := make([]string, len(r.Triggers))
	for i := range r.Items {
		masters[r.Items[i].Key] = true
		v.FlawIf(len(model.EntityMacros(r.Items[i].Key)) == 0, fmt.Sprintf("%s.items[%d].key", at, i), "name the entity in it: vfs.fs.size[{#FSNAME},pused]", "the key has no macro of an entity, so that all entities would have one item")
		v.FlawIf(r.Items[i].Internal, fmt.Sprintf("%s.items[%d].internal", at, i), "make it an item of the template", "the server measures no entities of nodes")
		v.FlawIf(r.Items[i].IsCollected() && hasScript(r.Steps), fmt.Sprintf("%s.items[%d]", at, i), "make it from an item, with from:, or remove the step javascript of the rule", "agents find the entities of items that they collect, and they run no JavaScript")
	}
	t.validateItems(at+".items", r.Items, masters)
	for i := range r.Triggers {
		names[i] = r.Triggers[i].Name
		v.FlawIf(r.Triggers[i].Name != "" && len(model.EntityMacros(r.Triggers[i].Name)) == 0, fmt.Sprintf("%s.triggers[%d].name", at, i), "name the entity in it: disk {#FSNAME} is full", "the name has no macro of an entity, so that all entities would have one trigger")
	}
	t.validateOverrides(at+".overrides", r, names)
	compiled := model.DefinitionRule{Paths: r.Paths}
	_, err := discovery.Compile(&compiled, t.macros)
	v.recordCompileError(at+".paths", err)
	for macro := range r.Paths {
		v.FlawIf(!model.IsEntityMacro(macro), at+".paths", "write a macro such as {#NAME}", "%q is no macro of an entity", macro)
	}
	t.validateEntityFilter(at+".filter", r.Filter)
}

// hasScript reports whether any preprocessing step of an item runs JavaScript.
func hasScript(steps []model.Step) bool {
	return slices.ContainsFunc(steps, func(s model.Step) bool { return s.Name == "javascript" })
}

// validateEntityFilter validates a discovery rule's filter over entities (such as file systems). Patterns with a macro
// that has no default are validated on the nodes alone.
func (t *templateValidation) validateEntityFilter(at string, f *model.DiscoveryFilter) {
	if f == nil {
		return
	}
	t.v.FlawIf(len(f.Conditions) > maxRuleParts, at+".conditions", "", "%d conditions, at most %d", len(f.Conditions), maxRuleParts)
	for i := range f.Conditions {
		if _, err := t.macros.Expand(f.Conditions[i].Pattern()); err != nil {
			if secret := (*model.SecretMacroError)(nil); errors.As(err, &secret) {
				t.v.recordCompileError(fmt.Sprintf("%s.conditions[%d]", at, i), err)
			}
			return
		}
		t.v.FlawIf(len(f.Conditions[i].Pattern()) > 4096, fmt.Sprintf("%s.conditions[%d]", at, i), "", "the pattern is longer than 4096 bytes")
	}
	_, err := discovery.Compile(&model.DefinitionRule{Filter: f}, t.macros)
	t.v.recordCompileError(at, err)
}

// validateOverrides validates the exceptions (overrides) of a discovery rule for some entities. triggers has the names
// of its trigger prototypes.
func (t *templateValidation) validateOverrides(at string, r *model.DiscoveryRule, triggers []string) {
	seen := map[string]bool{}
	for i := range r.Overrides {
		o, in := &r.Overrides[i], fmt.Sprintf("%s[%d]", at, i)
		t.v.requireUniqueTitle(in+".name", "override", o.Name, "write a name such as root file system", seen)
		t.validateEntityFilter(in+".filter", o.Filter)
		for k := range o.Items {
			change := &o.Items[k]
			validateInterval(t.v, fmt.Sprintf("%s.items[%d].interval", in, k), change.Interval, false, t.macros)
			t.v.validateMetricTags(fmt.Sprintf("%s.items[%d].tags", in, k), change.Tags)
			for _, key := range change.Keys {
				t.v.FlawIf(!slices.ContainsFunc(r.Items, func(one model.Item) bool { return one.Key == key }), fmt.Sprintf("%s.items[%d].keys", in, k), "name the key of an item of this rule, as it stands there", "the rule has no item %q", key)
			}
		}
		for k := range o.Triggers {
			change := &o.Triggers[k]
			t.v.validateSeverity(fmt.Sprintf("%s.triggers[%d].severity", in, k), cmp.Or(change.Severity, model.Average.String()))
			t.v.validateProblemTags(fmt.Sprintf("%s.triggers[%d].tags", in, k), change.Tags)
			for _, name := range change.Names {
				t.v.FlawIf(!slices.Contains(triggers, name), fmt.Sprintf("%s.triggers[%d].names", in, k), "name a trigger of this rule, as it stands there", "the rule has no trigger %q", name)
			}
		}
	}
}
