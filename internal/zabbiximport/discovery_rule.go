package zabbiximport

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/model"
)

// ruleImport is the working state of one discovery rule during its conversion to Muster's form.
type ruleImport struct {
	*template
	entity  *conversion.Mapping
	subject string
	spec    model.DiscoveryRule
	items   map[string][]string // keys of item prototypes by their names in the export
	names   map[string][]string // names of trigger prototypes here by their names in the export
}

// importRule imports a discovery rule of Zabbix with its prototypes.
func (im *importer) importRule(t *template, e *conversion.Mapping) {
	im.result.Counts.Rules++
	r := &ruleImport{template: t, entity: e, subject: "discovery rule " + e.TextOf("key"), items: map[string][]string{}, names: map[string][]string{}}
	if !im.claimKey(t, e, r.subject, e.TextOf("key")) {
		im.countPrototypes(e)
		return
	}
	im.importRuleItem(r)
	for _, one := range e.List("lld_macro_paths") {
		if r.spec.Paths == nil {
			r.spec.Paths = map[string]string{}
		}
		r.spec.Paths[one.TextOf("lld_macro")] = one.TextOf("path")
	}
	if err := compileRule(t, &model.DefinitionRule{Paths: r.spec.Paths}); err != nil {
		im.noteLoss(e, r.subject, "paths of macros left out: %s", conversion.OneLine(err.Error()))
		r.spec.Paths = nil
	}
	r.spec.Filter = im.importFilter(r, e.Child("filter"), r.subject)
	im.importLifetime(r)
	im.importPrototypes(r)
	im.importOverrides(r)
	for _, name := range []string{"graph_prototypes", "host_prototypes", "discovery_prototypes"} {
		if n := len(e.List(name)); n > 0 {
			countOmission(t.omitted, e, "discovery rules", strings.ReplaceAll(name, "_", " ")+" have no equivalent in Muster", true)
		}
	}
	e.IgnoreFields("uuid", "name")
	t.noteUnreadFields(e, "discovery rules")
	if len(r.spec.Items) == 0 {
		im.noteChange(e, r.subject, "it has no prototypes of items: it counts entities")
	}
	t.spec.Discovery = append(t.spec.Discovery, r.spec)
}

// countPrototypes counts the prototypes of a discovery rule for the totals of the export.
func (im *importer) countPrototypes(e *conversion.Mapping) {
	list := e.List("item_prototypes")
	im.result.Counts.Items += len(list)
	im.result.Counts.Triggers += len(e.List("trigger_prototypes"))
	for _, one := range list {
		im.result.Counts.Triggers += len(one.List("trigger_prototypes"))
		im.result.Counts.Steps += len(one.List("preprocessing"))
	}
}

// importRuleItem imports the item that supplies a discovery rule with the list of entities. The item has the
// source of the rule's values and their preprocessing steps.
func (im *importer) importRuleItem(r *ruleImport) {
	of := model.Item{Key: r.entity.TextOf("key"), Type: "text"}
	im.importSource(r.template, r.entity, r.subject, &of)
	im.importSteps(r.template, r.entity, r.subject, &of)
	if of.IsComputed() {
		im.markNotCollected(r.entity, r.subject, &of, "internal item of Zabbix")
		im.noteLoss(r.entity, r.subject, "the server lists no entities of its own")
	}
	if master := of.From; master != "" && !hasItem(r.template.spec.Items, master) {
		im.markNotCollected(r.entity, r.subject, &of, "its master item "+master+" is not in the template")
		im.noteLoss(r.entity, r.subject, "its master item %q is not in the template: it discovers nothing", master)
	}
	switch {
	case of.IsCollected() && of.Interval == "":
		of.Interval = model.DefaultItemInterval // the default of rules is another
	case of.Interval == model.DefaultRuleInterval:
		of.Interval = ""
	}
	r.spec = model.DiscoveryRule{
		Key: of.Key, Interval: of.Interval, HTTP: of.HTTP, From: of.From, Trapper: of.Trapper, NotCollected: of.NotCollected, Steps: of.Steps, Disabled: isDisabled(r.entity),
	}
}

// compileRule compiles a converted discovery rule, and returns the first error. Macros without a value are no
// error.
func compileRule(t *template, d *model.DefinitionRule) error {
	_, err := discovery.Compile(d, t.macros)
	if _, missing := err.(*model.MissingMacroError); missing {
		return nil
	}
	return err
}

// importFilter imports the filter of a discovery rule. It returns nil if the rule has no filter.
func (im *importer) importFilter(r *ruleImport, e *conversion.Mapping, what string) *model.DiscoveryFilter {
	if e == nil {
		return nil
	}
	f := &model.DiscoveryFilter{}
	for _, one := range e.List("conditions") {
		c := model.DiscoveryCondition{ID: one.TextOf("formulaid"), Macro: one.TextOf("macro")}
		value := one.TextOf("value")
		var err error
		switch operator := enumField(one, "operator", "MATCHES_REGEX"); operator {
		case "MATCHES_REGEX":
			c.Matches = &value
		case "NOT_MATCHES_REGEX":
			c.NotMatches = &value
		case "EXISTS":
			c.Exists = new(true)
		case "NOT_EXISTS":
			c.Exists = new(false)
		default:
			err = fmt.Errorf("unknown comparison operator %s", operator)
		}
		if strings.HasPrefix(value, "@") && c.Exists == nil {
			err = fmt.Errorf("%s is a global regular expression, which has no equivalent in Muster; write the pattern itself", value)
		}
		if err == nil && !usesUndefinedMacro(r.template, value) {
			err = compileRule(r.template, &model.DefinitionRule{Filter: &model.DiscoveryFilter{Conditions: []model.DiscoveryCondition{c}}})
		}
		if err != nil {
			im.noteLoss(one, what, "condition on %s left out, so that more entities pass: %s", c.Macro, conversion.OneLine(err.Error()))
			f.Formula = "" // it would name the condition
			e.IgnoreFields("formula")
			continue
		}
		f.Conditions = append(f.Conditions, c)
	}
	if len(f.Conditions) == 0 {
		return nil
	}
	if enumField(e, "evaltype", "AND_OR") == "FORMULA" && len(f.Conditions) == len(e.List("conditions")) {
		f.Formula = e.TextOf("formula")
	} else {
		f.Formula = joinConditions(f.Conditions, enumField(e, "evaltype", "AND_OR"))
	}
	if err := compileRule(r.template, &model.DefinitionRule{Filter: &model.DiscoveryFilter{Formula: f.Formula, Conditions: replacePatterns(f.Conditions)}}); err != nil {
		im.noteLoss(e, what, "formula %s left out: %s", f.Formula, conversion.OneLine(err.Error()))
		f.Formula = ""
	}
	return f
}

// usesUndefinedMacro reports whether a text uses a macro that has no value in the Zabbix template.
func usesUndefinedMacro(t *template, text string) bool {
	_, err := t.macros.Expand(text)
	return err != nil
}

// replacePatterns replaces each pattern in a discovery filter by an existence test, for checking the filter's
// formula. Each condition only requires that its macro exists; so the formula over the conditions can be
// checked.
func replacePatterns(list []model.DiscoveryCondition) (out []model.DiscoveryCondition) {
	for _, c := range list {
		out = append(out, model.DiscoveryCondition{ID: c.ID, Macro: c.Macro, Exists: new(true)})
	}
	return out
}

// joinConditions returns a formula that joins the conditions of a discovery filter by "and" or "or". An empty text
// stands for the default formula.
func joinConditions(list []model.DiscoveryCondition, how string) string {
	if len(list) < 2 || how != "AND" && how != "OR" {
		return ""
	}
	ids := make([]string, len(list))
	for i := range list {
		if list[i].ID == "" {
			list[i].ID = string(rune('A' + i%26))
		}
		ids[i] = list[i].ID
	}
	return strings.Join(ids, " "+strings.ToLower(how)+" ")
}

// importLifetime imports the rule's setting for how long Muster keeps a vanished discovered entity. Lost
// entities are no longer in the discovered list. Before 7.0 they were never disabled.
func (im *importer) importLifetime(r *ruleImport) {
	before7 := r.version < "7"
	deflt := "7d"
	if before7 {
		deflt = "30d"
	}
	r.spec.DeleteAfter = im.convertLifetime(r, enumField(r.entity, "lifetime_type", "DELETE_AFTER"), cmp.Or(r.entity.TextOf("lifetime"), deflt))
	kind := enumField(r.entity, "enabled_lifetime_type", "DISABLE_IMMEDIATELY")
	if before7 && !r.entity.HasField("enabled_lifetime_type") {
		kind = "DISABLE_NEVER"
	}
	r.spec.DisableAfter = im.convertLifetime(r, kind, cmp.Or(r.entity.TextOf("enabled_lifetime"), "0"))
	if r.spec.DeleteAfter == model.DefaultDeleteAfter {
		r.spec.DeleteAfter = ""
	}
	if r.spec.DisableAfter == model.DefaultDisableAfter {
		r.spec.DisableAfter = ""
	}
}

// convertLifetime converts the time for which Zabbix keeps a vanished discovered entity to Muster's form. The
// result is never, now or a duration.
func (im *importer) convertLifetime(r *ruleImport, kind, text string) string {
	switch _, how, _ := strings.Cut(kind, "_"); how {
	case "NEVER":
		return "never"
	case "IMMEDIATELY":
		return "now"
	}
	expanded, err := r.macros.Expand(text)
	d, ok := model.ParseZabbixTime(expanded)
	missing := (*model.MissingMacroError)(nil)
	switch {
	case strings.Contains(text, "{$") && (ok || errors.As(err, &missing)):
		return text
	case err != nil || !ok:
		im.noteLoss(r.entity, r.subject, "the time %s after which lost entities go cannot be read: it is %s", text, model.DefaultDeleteAfter)
		return model.DefaultDeleteAfter
	case d == 0:
		return "now"
	}
	return model.Duration(d).String()
}

// importPrototypes imports the item and trigger prototypes of a discovery rule.
func (im *importer) importPrototypes(r *ruleImport) {
	list := r.entity.List("item_prototypes")
	for _, one := range list {
		im.result.Counts.Items++
		what := "item prototype " + one.TextOf("key")
		if len(model.EntityMacros(one.TextOf("key"))) == 0 {
			im.result.Counts.Steps += len(one.List("preprocessing"))
			im.noteLoss(one, what, "the key has no macro of an entity, so that all entities would have one item")
			continue
		}
		name := one.TextOf("name")
		of, ok := im.newItem(r.template, one, what)
		if !ok {
			continue
		}
		if reason := r.agentLimitation(); of.IsCollected() && reason != "" {
			im.markNotCollected(one, what, &of, reason)
			im.noteChange(one, what, "not collected: %s", reason)
		}
		r.noteUnreadFields(one, "item prototypes")
		r.spec.Items = append(r.spec.Items, of)
		r.items[name] = append(r.items[name], of.Key)
	}
	for dropped := true; dropped; {
		dropped = false
		r.spec.Items = slices.DeleteFunc(r.spec.Items, func(of model.Item) bool {
			has := of.From == "" || of.From == r.spec.Key || of.From != of.Key && (hasItem(r.spec.Items, of.From) || hasItem(r.template.spec.Items, of.From))
			if !has {
				im.noteLoss(r.entity, "item prototype "+of.Key, "its master item %q is not in the template", of.From)
				dropped = true
			}
			return !has
		})
	}
	im.checkFormulas(r.template, r.spec.Items, r.spec.Items)
	triggers := r.entity.List("trigger_prototypes")
	for _, one := range list {
		triggers = append(triggers, one.List("trigger_prototypes")...)
	}
	for _, one := range triggers {
		name := one.TextOf("name")
		of, t, ok := im.newTrigger(r.template, r.spec.Items, one)
		switch {
		case ok && t != r.template:
			im.noteLoss(one, "trigger "+of.Name, "it reads items of another template")
		case ok:
			r.spec.Triggers = append(r.spec.Triggers, of)
			r.names[name] = append(r.names[name], of.Name)
		}
	}
}

// agentLimitation returns the reason why agents cannot run the discovery rule, or an empty text. Agents then
// collect none of the items of the entities.
func (r *ruleImport) agentLimitation() string {
	of := r.spec.Item()
	for range r.template.spec.Items { // a chain of masters is not longer
		if slices.ContainsFunc(of.Steps, func(s model.Step) bool { return s.Name == "javascript" }) {
			return "the list of entities is made by JavaScript, which agents do not run"
		}
		at := slices.IndexFunc(r.template.spec.Items, func(one model.Item) bool { return one.Key == of.From })
		if of.From == "" || at < 0 {
			break
		}
		of = r.template.spec.Items[at]
	}
	if !of.IsCollected() {
		return "the list of entities does not come from the agent"
	}
	return ""
}

// importOverrides imports the overrides of a discovery rule, in the order of their steps.
func (im *importer) importOverrides(r *ruleImport) {
	list := r.entity.List("overrides")
	step := func(e *conversion.Mapping) int { n, _ := strconv.Atoi(e.TextOf("step")); return n }
	slices.SortStableFunc(list, func(a, b *conversion.Mapping) int { return cmp.Compare(step(a), step(b)) })
	for i, one := range list {
		o := model.DiscoveryOverride{Name: cmp.Or(conversion.ShortenLine(one.TextOf("name"), model.MaxName-20), fmt.Sprintf("override %d", i+1))}
		what := r.subject + ", override " + o.Name
		stop := enumField(one, "stop", "NO")
		o.Stop = stop == "YES" || stop == "STOP" || stop == "1"
		filter := one.Child("filter")
		o.Filter = im.importFilter(r, filter, what)
		if filter != nil && len(filter.List("conditions")) > 0 && (o.Filter == nil || len(o.Filter.Conditions) < len(filter.List("conditions"))) {
			im.noteLoss(one, what, "left out: it would apply to more entities")
			continue
		}
		for _, operation := range one.List("operations") {
			im.importOperation(r, operation, what, &o)
		}
		for _, name := range one.UnreadFields() {
			im.noteLoss(one, what, "field %s has no equivalent in Muster", name)
		}
		if !o.Stop && len(o.Items)+len(o.Triggers) == 0 {
			continue
		}
		for slices.ContainsFunc(r.spec.Overrides, func(other model.DiscoveryOverride) bool { return other.Name == o.Name }) {
			o.Name += " " + strconv.Itoa(i+1)
		}
		r.spec.Overrides = append(r.spec.Overrides, o)
	}
}

// importOperation imports one operation of a discovery rule's override.
func (im *importer) importOperation(r *ruleImport, e *conversion.Mapping, what string, o *model.DiscoveryOverride) {
	object := enumField(e, "operationobject", "ITEM_PROTOTYPE")
	prototypes := r.items
	switch object {
	case "ITEM_PROTOTYPE":
	case "TRIGGER_PROTOTYPE":
		prototypes = r.names
	default:
		im.noteLoss(e, what, "operations on %s have no equivalent in Muster", strings.ToLower(strings.ReplaceAll(object, "_", " ")))
		return
	}
	names, all, err := selectedPrototypes(prototypes, enumField(e, "operator", "EQUAL"), e.TextOf("value"))
	if err == nil && !all && len(names) == 0 {
		err = fmt.Errorf("no prototype of the discovery rule has exactly this name")
	}
	if err != nil {
		im.noteLoss(e, what, "operation on names that %s %q left out: %s", strings.ToLower(enumField(e, "operator", "EQUAL")), e.TextOf("value"), conversion.OneLine(err.Error()))
		return
	}
	var discover *bool
	for _, name := range []string{"status", "discover"} {
		switch enumField(e, name, "") {
		case "ENABLED", "DISCOVER":
			if discover == nil {
				discover = new(true)
			}
		case "DISABLED", "NO_DISCOVER":
			discover = new(false)
		}
	}
	if object == "TRIGGER_PROTOTYPE" {
		change := model.TriggerOverride{Names: names, Discover: discover}
		if word := enumField(e, "severity", ""); word != "" {
			change.Severity = cmp.Or(severities[word], "average")
		}
		change.Tags = im.importProblemTags(e, what)
		o.Triggers = append(o.Triggers, change)
	} else {
		change := model.ItemOverride{Keys: names, Discover: discover, Tags: im.importTags(e, what)}
		if text := e.TextOf("delay"); text != "" {
			var err error
			if change.Interval, err = r.convertInterval(text); err != nil {
				im.noteLoss(e, what, "interval left out: %s", conversion.OneLine(err.Error()))
				change.Interval = ""
			}
		}
		o.Items = append(o.Items, change)
	}
	for _, name := range e.UnreadFields() {
		im.noteLoss(e, what, "field %s has no equivalent in Muster", name)
	}
}

// selectedPrototypes returns the names of the prototypes that an override's operation selects. The result all
// is true if it selects every prototype.
func selectedPrototypes(prototypes map[string][]string, operator, value string) (list []string, all bool, err error) {
	match := func(name string) bool { return name == value }
	switch operator {
	case "EQUAL":
	case "NOT_EQUAL":
		match = func(name string) bool { return name != value }
	case "LIKE", "NOT_LIKE":
		match = func(name string) bool { return strings.Contains(name, value) == (operator == "LIKE") }
	case "REGEXP", "NOT_REGEXP":
		pattern, err := regexp.Compile(value)
		if err != nil {
			return nil, false, err
		}
		match = func(name string) bool { return pattern.MatchString(name) == (operator == "REGEXP") }
	default:
		return nil, false, fmt.Errorf("unknown comparison operator %s", operator)
	}
	all = true
	for name, keys := range prototypes {
		if match(name) {
			list = append(list, keys...)
		} else {
			all = false
		}
	}
	if all {
		return nil, true, nil
	}
	slices.Sort(list)
	return list, false, nil
}

// dropRefusedPart removes the part of a discovery rule, such as a prototype, that Muster's validation refuses.
// It returns the name of the part.
func dropRefusedPart(t *template, i int, field string) string {
	r := &t.spec.Discovery[i]
	_, rest, _ := strings.Cut(field, "].")
	list, rest, _ := strings.Cut(rest, "[")
	digits, _, _ := strings.Cut(rest, "]")
	k, err := strconv.Atoi(digits)
	switch {
	case err == nil && list == "items" && k < len(r.Items):
		what := "item prototype " + r.Items[k].Key
		r.Items = slices.Delete(r.Items, k, k+1)
		return what
	case err == nil && list == "triggers" && k < len(r.Triggers):
		what := "trigger " + r.Triggers[k].Name
		r.Triggers = slices.Delete(r.Triggers, k, k+1)
		return what
	case err == nil && list == "overrides" && k < len(r.Overrides):
		what := "override " + r.Overrides[k].Name
		r.Overrides = slices.Delete(r.Overrides, k, k+1)
		return what
	}
	what := "discovery rule " + r.Key
	t.spec.Discovery = slices.Delete(t.spec.Discovery, i, i+1)
	return what
}
