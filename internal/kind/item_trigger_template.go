package kind

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/prep/javascript"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/when"
)

// Template returns the resource kind Template, a set of items and triggers for nodes.
func Template() Kind {
	return Define(Definition[*model.TemplateSpec]{
		KindInfo: model.KindInfo{Name: "Template", Plural: "templates", Short: "tpl", Namespaced: true},
		Unit:     model.DefinitionTemplate,
		LandsAs:  "collects on",
		Example: `kind: Template
metadata: {name: linux}
spec:
  targets: {groups: [all]}
  items:
    - {key: "system.cpu.load[all,avg1]", interval: 10s}
    - {key: "vm.memory.size[pavailable]", interval: 1m, unit: "%"}
  triggers:
    - {name: load is high, expression: "min(//system.cpu.load[all,avg1],5m)>4", severity: high}
`,
		Validate: validateTemplate,
		Columns: []Column[*model.TemplateSpec]{
			nodesColumn[*model.TemplateSpec](),
			{"ITEMS", 0, func(_ ResourceView, s *model.TemplateSpec) string { return fmt.Sprint(len(s.Items)) }},
			{"TRIGGERS", 0, func(_ ResourceView, s *model.TemplateSpec) string { return fmt.Sprint(len(s.Triggers)) }},
			{"TARGETS", 40, func(_ ResourceView, s *model.TemplateSpec) string { return targetText(s.Targets) }},
		},
		Details: detailsOfTemplate,
		Effect: func(r *model.Resource, s *model.TemplateSpec, l ResourceUsage, changed bool) (note, warning string) {
			switch {
			case s.Disabled:
				return "disabled: collects nothing", ""
			case l.Nodes == 0:
				return "collects on no node", "no node matches the targets of the template. List nodes: muster get nodes"
			case changed:
				return sourcesText(s) + " on " + l.nodesText() + "; see them: muster get items", ""
			}
			return "collects on " + l.nodesText(), ""
		},
	})
}

// sourcesText says how many items of a Template get values, and where the values come from.
func sourcesText(s *model.TemplateSpec) string {
	n := s.CountSources()
	rules := ""
	if len(s.Discovery) > 0 {
		rules = ", discovers by " + model.CountNoun(len(s.Discovery), "rule")
	}
	return itemSourcesText(s, n) + rules
}

// itemSourcesText says how many items are collected, computed or received, except items of discovery rules.
func itemSourcesText(s *model.TemplateSpec, n model.ItemSources) string {
	if n.Collected == len(s.Items) {
		return "collects " + model.CountNoun(n.Collected, "item")
	}
	text := fmt.Sprintf("collects %d of %s", n.Collected, model.CountNoun(len(s.Items), "item"))
	if n.Computed > 0 {
		text += fmt.Sprintf(", computes %d", n.Computed)
	}
	if n.Trapper > 0 {
		text += fmt.Sprintf(", takes %d from trappers", n.Trapper)
	}
	if n.Idle > 0 {
		text += fmt.Sprintf(", leaves %d without values (notCollected)", n.Idle)
	}
	return text
}

// detailsOfTemplate returns the lines that `muster describe template` prints about a Template.
func detailsOfTemplate(_ ResourceView, s *model.TemplateSpec) []Detail {
	list := []Detail{{"targets", targetText(s.Targets)}}
	for i := range s.Items {
		list = append(list, Detail{"item", itemText(&s.Items[i])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Macros)) {
		list = append(list, Detail{"macro", name + "  " + s.Macros[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
		list = append(list, Detail{"tag", name + "=" + s.Tags[name]})
	}
	for i := range s.Secrets {
		list = append(list, Detail{"macro", s.Secrets[i].Macro + "  Secret " + s.Secrets[i].Secret})
	}
	for i := range s.ValueMaps {
		list = append(list, Detail{"value map", s.ValueMaps[i].Name + "  " + model.CountNoun(len(s.ValueMaps[i].Mappings), "mapping")})
	}
	for i := range s.Triggers {
		t := &s.Triggers[i]
		list = append(list, Detail{"trigger", triggerText(t)})
	}
	for i := range s.Discovery {
		rule := &s.Discovery[i]
		item := rule.Item()
		list = append(list, Detail{"discovery", itemText(&item)})
		for k := range rule.Items {
			list = append(list, Detail{"  item", itemText(&rule.Items[k])})
		}
		for k := range rule.Triggers {
			list = append(list, Detail{"  trigger", triggerText(&rule.Triggers[k])})
		}
	}
	return list
}

// triggerText formats a trigger as one line of text.
func triggerText(t *model.Trigger) string {
	text := fmt.Sprintf("%s  %s  (%s)", t.Name, t.Expression, t.SeverityName())
	for _, name := range slices.Sorted(maps.Keys(t.Tags)) {
		text += fmt.Sprintf(", %s=%s", name, t.Tags[name])
	}
	if len(t.DependsOn) > 0 {
		text += ", depends on " + strings.Join(t.DependsOn, ", ")
	}
	return text
}

// itemText formats an item as one line, with its key, source and preprocessing steps.
func itemText(item *model.Item) string {
	when := "every " + string(cmp.Or(item.Interval, model.DefaultItemInterval))
	switch {
	case item.Disabled:
		when = "disabled"
	case item.HTTP != nil:
		when += " by " + cmp.Or(item.HTTP.Method, "GET") + " " + item.HTTP.URL
	case item.From != "":
		when = "from " + item.From
	case item.Trapper:
		when = "trapper"
	case item.NotCollected != "":
		when = "not collected: " + item.NotCollected
	case item.Formula != "":
		when += " = " + item.Formula
	case item.Internal:
		when += " of the server"
	}
	steps := make([]string, len(item.Steps))
	for k := range item.Steps {
		steps[k] = strings.TrimSpace(item.Steps[k].Name + " " + strings.Join(item.Steps[k].Parameters, " "))
	}
	if item.ValueMap != "" {
		steps = append(steps, item.ValueMap)
	}
	return strings.Join(append([]string{item.Key + "  " + when}, steps...), " → ")
}

// Bounds of a Template; the protocol has them, too.
const (
	maxItems         = 10_000
	maxItemKey       = 2048
	maxMappedValue   = 1024
	maxMacroValue    = 2048
	maxSteps         = 100
	maxStepParameter = 64 << 10
	maxParameters    = 100
	maxExpression    = 8192
	maxIntervalText  = 1024
)

// validateTemplate validates the spec of a Template.
func validateTemplate(v *Validator, s *model.TemplateSpec) {
	v.validateTargets("spec.targets", s.Targets, false)
	v.MissingIf(len(s.Items) == 0 && len(s.Discovery) == 0, "spec.items", "write a list such as [{key: agent.ping, interval: 1m}]", "missing")
	v.FlawIf(len(s.Items) > maxItems, "spec.items", "divide the template", "%d items, at most %d", len(s.Items), maxItems)
	v.FlawIf(len(s.Triggers) > maxItems, "spec.triggers", "divide the template", "%d triggers, at most %d", len(s.Triggers), maxItems)
	v.LimitElements("spec.valueMaps", len(s.ValueMaps))
	mapNames := map[string]bool{}
	for i := range s.ValueMaps {
		v.validateValueMap(fmt.Sprintf("spec.valueMaps[%d]", i), &s.ValueMaps[i], mapNames)
	}
	v.LimitElements("spec.macros", len(s.Macros))
	for _, name := range slices.Sorted(maps.Keys(s.Macros)) {
		v.validateMacro("spec.macros."+name, name, s.Macros[name])
	}
	v.validateMacroSecrets(s)
	v.validateProblemTags("spec.tags", s.Tags)
	macros := model.NewTemplateMacros(s)
	own := slices.Clone(s.Items) // with the items of rules
	keys := map[string]bool{}
	for i := range s.Discovery {
		own = append(own, s.Discovery[i].Item())
	}
	for i := range own {
		keys[own[i].Key] = true
	}
	t := &templateValidation{v: v, macros: macros, maps: mapNames, keys: map[string]bool{}, names: map[string]bool{}}
	t.validateItems("spec.items", s.Items, keys)
	for i := range s.Discovery {
		t.validateDiscoveryRule(fmt.Sprintf("spec.discovery[%d]", i), &s.Discovery[i], keys)
	}
	t.validateFormulas("spec.items", s.Items, own)
	t.validateTriggers("spec.triggers", s.Triggers, own)
	t.validateDependencies("spec.triggers", s.Triggers, nil)
	for i := range s.Discovery {
		in, items := fmt.Sprintf("spec.discovery[%d]", i), append(slices.Clone(own), s.Discovery[i].Items...)
		t.validateFormulas(in+".items", s.Discovery[i].Items, items)
		t.validateTriggers(in+".triggers", s.Discovery[i].Triggers, items)
		t.validateDependencies(in+".triggers", s.Discovery[i].Triggers, s.Triggers)
	}
}

// templateValidation is the state during the validation of a Template's items and triggers.
type templateValidation struct {
	v      *Validator
	macros *model.MacroValues
	maps   map[string]bool // names of value maps
	keys   map[string]bool // of the items so far
	names  map[string]bool // of the triggers so far
}

// validateItems validates the items that a Template or one of its discovery rules declares. keys has the keys
// that they may name as their master.
func (t *templateValidation) validateItems(at string, items []model.Item, keys map[string]bool) {
	for i := range items {
		t.validateItem(fmt.Sprintf("%s[%d]", at, i), &items[i], keys)
	}
}

// validateItem validates an item, and records an error if another item has the same key.
func (t *templateValidation) validateItem(at string, item *model.Item, keys map[string]bool) {
	t.v.FlawIf(t.keys[item.Key], at+".key", "keep one entry", "item %s occurs twice", item.Key)
	t.keys[item.Key] = true
	validateItem(t.v, at, item, keys, t.macros)
	t.v.FlawIf(item.ValueMap != "" && !t.maps[item.ValueMap], at+".valueMap", "name one of spec.valueMaps", "the template has no value map %q", item.ValueMap)
}

// validateFormulas validates the formulas of computed items in a list. A formula may read the items in `items`.
func (t *templateValidation) validateFormulas(at string, list, items []model.Item) {
	slices.SortFunc(items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	for i := range list {
		if list[i].Formula != "" && len(list[i].Formula) <= maxExpression {
			program, err := trigger.CompileFormula(items, list[i].Formula, t.macroValue)
			t.v.recordCompileError(fmt.Sprintf("%s[%d].formula", at, i), err)
			t.v.FlawIf(err == nil && len(program.Selections()) > 0 && len(model.EntityMacros(list[i].Key)) > 0, fmt.Sprintf("%s[%d].formula", at, i), "make it an item of the template", "a discovered item reads single items of its own node")
		}
	}
}

// macroValue returns a macro's value or, without one, a sample value, so that expressions can be compiled.
// Expressions can then be compiled.
func (t *templateValidation) macroValue(macro string) (string, error) {
	if model.IsEntityValue(macro) {
		return "1", nil
	}
	return t.macros.ValueOrSample(macro)
}

// validateTriggers validates a list of triggers whose expressions read the given items.
func (t *templateValidation) validateTriggers(at string, triggers []model.Trigger, items []model.Item) {
	slices.SortFunc(items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	for i := range triggers {
		in := fmt.Sprintf("%s[%d]", at, i)
		validateTrigger(t.v, in, &triggers[i], t.names)
		t.validateExpression(in+".expression", items, triggers[i].Expression)
		t.validateExpression(in+".recovery", items, triggers[i].Recovery)
	}
}

// validateDependencies validates the other triggers on which the triggers of a list depend. They may depend on
// each other and on the further triggers; no further trigger depends on one of the list.
func (t *templateValidation) validateDependencies(at string, triggers, further []model.Trigger) {
	byName := map[string]*model.Trigger{}
	for _, list := range [][]model.Trigger{further, triggers} {
		for i := range list {
			byName[list[i].Name] = &list[i]
		}
	}
	for i := range triggers {
		in := fmt.Sprintf("%s[%d].dependsOn", at, i)
		t.v.FlawIf(len(triggers[i].DependsOn) > model.MaxDependencies, in, "", "%d triggers, at most %d", len(triggers[i].DependsOn), model.MaxDependencies)
		for _, name := range triggers[i].DependsOn {
			t.v.FlawIf(byName[name] == nil, in, "name a trigger of this template", "the template has no trigger %q", name)
		}
		t.v.FlawIf(dependsOnItself(byName, triggers[i].Name), in, "remove one of the dependencies", "trigger %q depends on itself", triggers[i].Name)
	}
}

// dependsOnItself reports whether a trigger's dependencies lead back to the trigger, directly or through
// others.
func dependsOnItself(byName map[string]*model.Trigger, name string) bool {
	seen := map[string]bool{}
	for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
		of := byName[todo[0]]
		if of == nil || seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		if slices.Contains(of.DependsOn, name) {
			return true
		}
		todo = append(todo, of.DependsOn...)
	}
	return false
}

// validateValueMap validates one value map, a list of texts to show for an item's values. names has the names
// of those before it.
func (v *Validator) validateValueMap(at string, m *model.ValueMap, names map[string]bool) {
	v.requireUniqueTitle(at+".name", "value map", m.Name, "write a name such as service state", names)
	v.MissingIf(len(m.Mappings) == 0, at+".mappings", `write a list such as [{value: "1", text: up}]`, "missing")
	v.LimitElements(at+".mappings", len(m.Mappings))
	for i := range m.Mappings {
		in := fmt.Sprintf("%s.mappings[%d]", at, i)
		v.FlawIf(len(m.Mappings[i].Value) > maxMappedValue, in+".value", "", "longer than %d bytes", maxMappedValue)
		v.RequireLine(in+".text", m.Mappings[i].Text, model.MaxText)
	}
	_, err := prep.CompileValueMap(m)
	v.recordCompileError(at+".mappings", err)
}

// validateExpression records an error unless an expression over items of the Template compiles.
func (t *templateValidation) validateExpression(field string, items []model.Item, expression string) {
	if expression != "" && len(expression) <= maxExpression {
		_, err := trigger.CompileForItems(items, expression, t.macroValue)
		t.v.recordCompileError(field, err)
	}
}

// validateMacro validates a macro of a template.
func (v *Validator) validateMacro(at, name, value string) {
	_, err := model.NewMacroValues(map[string]string{name: value})
	if err == nil {
		err = model.PropertyNameError(name) // a Property has the same name
	}
	v.recordCompileError(at, err)
	v.FlawIf(len(value) > maxMacroValue, at, "", "longer than %d bytes", maxMacroValue)
}

// validateMacroSecrets validates the secret macros of a template.
func (v *Validator) validateMacroSecrets(s *model.TemplateSpec) {
	v.FlawIf(len(s.Secrets) > model.MaxCheckSecrets, "spec.secrets", "divide the template", "%d secrets, at most %d", len(s.Secrets), model.MaxCheckSecrets)
	names := map[string]bool{} // of macros, without context
	for macro := range s.Macros {
		of, _ := model.ParseMacro(macro)
		names[of.Name] = true
	}
	for i := range s.Secrets {
		one, at := &s.Secrets[i], fmt.Sprintf("spec.secrets[%d]", i)
		macro, _ := model.ParseMacro(one.Macro)
		v.FlawIf(one.Macro == "" || macro.String() != one.Macro || macro.Kind != model.NoContext, at+".macro", "write a macro without context, such as {$DB.PASSWORD}", "%q is no macro without context", one.Macro)
		v.FlawIf(names[macro.Name], at+".macro", "keep one entry", "%s is set twice", one.Macro)
		names[macro.Name] = true
		v.MissingIf(one.Secret == "", at+".secret", "write the name of a Secret", "missing")
	}
}

// validateItem validates the fields of one item, but not whether its key is unique. keys has the keys of all
// items of the template. Steps with a macro that has no default are validated on the nodes alone.
func validateItem(v *Validator, at string, item *model.Item, keys map[string]bool, macros *model.MacroValues) {
	v.MissingIf(item.Key == "", at+".key", "write a key such as system.cpu.load[all,avg1]", "missing")
	v.RequireLine(at+".key", item.Key, maxItemKey)
	typ, ok := item.ValueType()
	v.FlawIf(!ok, at+".type", "write float, unsigned, text, log or boolean", "unknown type %q", item.Type)
	validateInterval(v, at+".interval", item.Interval, item.IsComputed(), macros)
	ways := 0
	for _, set := range []bool{item.Interval != "" || item.Formula != "" || item.Internal || item.HTTP != nil, item.From != "", item.Trapper, item.NotCollected != ""} {
		if set {
			ways++
		}
	}
	v.FlawIf(ways > 1, at, "keep one of these fields", "interval, http, from, trapper and notCollected exclude each other")
	v.FlawIf(item.Formula != "" && item.Internal, at, "keep one of these fields", "formula and internal exclude each other")
	v.FlawIf(item.HTTP != nil && item.IsComputed(), at, "keep one of these fields", "http, formula and internal exclude each other")
	validateHTTPRequest(v, at+".http", item.HTTP)
	v.FlawIf(len(item.Formula) > maxExpression, at+".formula", "", "longer than %d bytes", maxExpression)
	if item.Internal {
		_, err := model.ParseInternalKey(item.Key)
		v.recordCompileError(at+".key", err)
	}
	v.RequireLine(at+".notCollected", item.NotCollected, model.MaxText)
	v.FlawIf(item.From != "" && item.From == item.Key, at+".from", "name the item that collects the whole value", "the item names itself as its master item")
	v.FlawIf(item.From != "" && !keys[item.From], at+".from", "name the key of an item of this template", "the template has no item %q", item.From)
	v.RequireLine(at+".unit", item.Unit, model.MaxText)
	_, err := macros.Expand(item.Unit)
	recordMacroError(v, at+".unit", err)
	v.validateMetricTags(at+".tags", item.Tags)
	v.FlawIf(len(item.Steps) > maxSteps, at+".steps", "", "%d steps, at most %d", len(item.Steps), maxSteps)
	for k := range item.Steps {
		step := &item.Steps[k]
		in := fmt.Sprintf("%s.steps[%d].%s", at, k, step.Name)
		v.FlawIf(len(step.Parameters) > maxParameters, in, "", "%d parameters, at most %d", len(step.Parameters), maxParameters)
		for _, text := range step.Parameters {
			v.FlawIf(len(text) > maxStepParameter, in, "", "longer than %d bytes", maxStepParameter)
		}
	}
	steps, missing := macros.ExpandSteps(item.Steps)
	if secret := (*model.SecretMacroError)(nil); errors.As(missing, &secret) {
		v.Flaw(at+".steps", "write the value in a key of an item with interval", "%v", secret)
	}
	if missing == nil {
		_, err := prep.Compile(discovery.SampleSteps(steps), typ, javascript.Compile)
		v.recordCompileError(at+".steps", err)
	}
}

// validateInterval validates the interval of an item. A macro without a default is validated on the nodes alone, and one of an
// entity on the entities.
func validateInterval(v *Validator, at string, i model.Interval, computed bool, macros *model.MacroValues) {
	v.FlawIf(len(i) > maxIntervalText, at, "", "longer than %d bytes", maxIntervalText)
	if d, ok := i.Fixed(); ok {
		v.InRange(at, d, model.MinItemInterval, maxInterval)
		return
	}
	if _, err := macros.Expand(string(i)); err == nil && strings.Contains(string(i), "{#") {
		return
	}
	var err error
	if computed {
		_, err = when.FixedInterval(i, macros)
	} else {
		_, err = when.ScheduleOf(i, macros)
	}
	recordMacroError(v, at, err)
}

// recordMacroError records the error of a text with macros, except the error that a macro has no default.
func recordMacroError(v *Validator, field string, err error) {
	if missing := (*model.MissingMacroError)(nil); !errors.As(err, &missing) {
		v.recordCompileError(field, err)
	}
}

// validateTrigger validates one trigger. names has the names of those before it.
func validateTrigger(v *Validator, at string, t *model.Trigger, names map[string]bool) {
	v.requireUniqueTitle(at+".name", "trigger", t.Name, "write a name such as load is high", names)
	v.FlawIf(t.Name == model.ComplianceInstance, at+".name", "write another name", "events of directives have the name %s", t.Name)
	v.FlawIf(model.IsAlertInstance(t.Name), at+".name", "write another name", "%q has the form of an alert of a rule", t.Name)
	v.MissingIf(t.Expression == "", at+".expression", "write a condition such as last(//agent.ping)=0", "missing")
	v.FlawIf(len(t.Expression) > maxExpression, at+".expression", "", "longer than %d bytes", maxExpression)
	v.FlawIf(len(t.Recovery) > maxExpression, at+".recovery", "", "longer than %d bytes", maxExpression)
	v.validateSeverity(at+".severity", cmp.Or(t.Severity, t.SeverityName()))
	if a := t.Alert; a != nil {
		v.FlawIf(a.FailAfter != 0, at+".alert.failAfter", "write a function of several values, such as min(//KEY,#3)", "a trigger opens its problem when its condition holds")
		v.FlawIf(a.RecoverAfter != 0, at+".alert.recoverAfter", "write recovery: with a condition", "a trigger closes its problem by its conditions")
		v.FlawIf(a.Flapping != nil, at+".alert.flapping", "write recovery: with a condition", "triggers do not flap: their conditions have hysteresis")
		v.excludeRoute(at+".alert.handlers", a.Route, a.Handlers)
	}
	validateRunbook(v, at+".runbook", t.Runbook)
	v.FlawIf(strings.Contains(t.Name, "{HOST"), at+".name", "leave the macro out: an event names its node, web01/linux:load is high", "a name has no macro of the host")
	v.validateProblemTags(at+".tags", t.Tags)
	v.FlawIf(len(t.Description) > model.MaxProblemDescription, at+".description", "", "longer than %d bytes", model.MaxProblemDescription)
	v.RequireLine(at+".operationalData", t.OperationalData, model.MaxText)
}

// validateProblemTags validates the tags of triggers, which become labels of their problems.
func (v *Validator) validateProblemTags(at string, tags map[string]string) {
	v.FlawIf(len(tags) > model.MaxValueTags, at, "", "%d, at most %d", len(tags), model.MaxValueTags)
	v.validateLabels(at, tags)
}
