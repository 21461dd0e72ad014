package zabbiximport

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/trigger"
)

// severities has the severities by their names in exports.
var severities = map[string]string{
	"NOT_CLASSIFIED": "information", "INFO": "information", "WARNING": "warning", "AVERAGE": "", "HIGH": "high", "DISASTER": "disaster",
}

// maxExpression bounds an expression, in bytes.
const maxExpression = 8192

// importTrigger imports a trigger of Zabbix. in is the template whose item it stands under; nil: the expression names
// the template.
func (im *importer) importTrigger(in *template, e *conversion.Mapping) {
	if of, t, ok := im.newTrigger(in, nil, e); ok {
		t.spec.Triggers = append(t.spec.Triggers, of)
	}
}

// newTrigger converts a trigger or trigger prototype of Zabbix. A prototype may also read item prototypes.
func (im *importer) newTrigger(in *template, prototypes []model.Item, e *conversion.Mapping) (of model.Trigger, t *template, ok bool) {
	im.result.Counts.Triggers++
	of = model.Trigger{Name: titleOf(e.TextOf("name")), Disabled: isDisabled(e)}
	what := "trigger " + of.Name
	t = in
	var err error
	if of.Expression, t, err = im.localExpression(t, e.TextOf("expression")); err != nil {
		im.lose(e, what, "%s", reasonOf(err))
		return of, t, false
	}
	word := constant(e, "priority", "NOT_CLASSIFIED")
	severity, known := severities[word]
	if of.Severity = severity; !known {
		im.lose(e, what, "severity %s is unknown: it is average", word)
	}
	recovery := e.TextOf("recovery_expression")
	switch mode := constant(e, "recovery_mode", "EXPRESSION"); mode {
	case "EXPRESSION":
	case "RECOVERY_EXPRESSION":
		of.Recovery, _, err = im.localExpression(t, recovery)
	case "NONE":
		im.lose(e, what, "recovery mode NONE has no equivalent in Muster: the problem closes when the expression is false")
	default:
		err = fmt.Errorf("unknown recovery mode %s", mode)
	}
	if err == nil {
		err = t.checkExpressions(prototypes, of.Expression, of.Recovery)
	}
	if err != nil {
		im.lose(e, what, "%s", reasonOf(err))
		return of, t, false
	}
	if constant(e, "type", "SINGLE") == "MULTIPLE" {
		im.lose(e, what, "generation of multiple events has no equivalent in Muster: one problem is open at a time")
	}
	if constant(e, "correlation_mode", "DISABLED") == "TAG_VALUE" {
		im.lose(e, what, "correlation by tag %s has no equivalent in Muster", e.TextOf("correlation_tag"))
	}
	dependencies := e.List("dependencies")
	if link := e.TextOf("url"); link != "" {
		if u, err := url.Parse(link); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && !strings.ContainsAny(link, "{}") && !model.HasControl(link) && len(link) <= model.MaxText {
			of.Runbook = link
		} else {
			im.lose(e, what, "url %s is no link here", conversion.ShortenLine(link, 100))
		}
	}
	e.IgnoreFields("uuid", "correlation_tag", "manual_close")
	t.omit(e, "triggers")
	if prototypes != nil && len(model.EntityMacros(of.Name)) == 0 {
		macros := model.EntityMacros(of.Expression)
		if len(macros) == 0 {
			im.lose(e, what, "neither name nor expression has a macro of an entity, so that all entities would have one trigger")
			return of, t, false
		}
		of.Name = conversion.ShortenLine(of.Name, model.MaxName-200) + " " + macros[0]
		im.change(e, what, "a discovered trigger has a name of its own here: %s", of.Name)
	}
	for number, name := 2, of.Name; t.triggers[of.Name]; number++ {
		of.Name = fmt.Sprintf("%s (%d)", name, number)
	}
	t.triggers[of.Name] = true
	for _, on := range dependencies {
		t.dependencies = append(t.dependencies, dependency{on, of.Name})
	}
	return of, t, true
}

// dependency is a dependency between two triggers, in the form of the export.
type dependency struct {
	on   *conversion.Mapping
	from string // name of the other one here
}

// importDependencies adds the dependencies between triggers. All triggers of the template are imported before.
func (im *importer) importDependencies(t *template) {
	for _, d := range t.dependencies {
		name := d.on.TextOf("name")
		expression, in, err := im.localExpression(nil, d.on.TextOf("expression"))
		d.on.IgnoreFields("recovery_expression", "correlation_tag")
		found := ""
		if err == nil && in == t {
			found = addDependency(t.spec.Triggers, nil, d.from, titleOf(name), expression)
			for i := range t.spec.Discovery {
				found = cmp.Or(found, addDependency(t.spec.Discovery[i].Triggers, t.spec.Triggers, d.from, titleOf(name), expression))
			}
		}
		if found == "" {
			im.lose(d.on, "trigger "+d.from, "it depends on %s, which is no trigger of this template here", name)
		}
	}
}

// addDependency records that a trigger depends on another, and returns the other's name. The other is in the same list
// or in further; the name is empty if one of the two is missing.
func addDependency(list, further []model.Trigger, from, title, expression string) string {
	i := slices.IndexFunc(list, func(t model.Trigger) bool { return t.Name == from })
	if i < 0 || len(list[i].DependsOn) == model.MaxDependencies {
		return ""
	}
	for _, of := range slices.Concat(list, further) {
		if of.Name != from && of.Expression == expression && strings.HasPrefix(of.Name, title) {
			list[i].DependsOn = append(list[i].DependsOn, of.Name)
			return of.Name
		}
	}
	return ""
}

// titleOf returns the name of a trigger in one line. Zabbix's macros for the host are removed. Macros of Zabbix in it
// have no value here.
func titleOf(name string) string {
	for _, macro := range []string{"{HOST.NAME}", "{HOST.HOST}", "{HOSTNAME}"} {
		name = strings.ReplaceAll(name, macro, "the node")
	}
	if name = conversion.ShortenLine(name, model.MaxName-len(" (100)")); name == "" {
		return "unnamed"
	}
	return name
}

// localExpression returns a trigger's or item's expression in Muster's form, with //key instead of /template/key. A
// nil template is that which it names.
func (im *importer) localExpression(in *template, expression string) (string, *template, error) {
	if strings.TrimSpace(expression) == "" {
		return "", in, fmt.Errorf("the expression is missing")
	}
	named := ""
	out, err := trigger.ReplaceHosts(expression, func(host string) (string, error) {
		if named != "" && host != named {
			return "", fmt.Errorf("the trigger reads items of %s and %s, but all items must be of one template; write a RuleGroup (docs/rules.md)", named, host)
		}
		named = host
		return "", nil
	})
	if err != nil {
		return "", in, err
	}
	switch other := im.byName[named]; {
	case named == "" && in == nil:
		return "", in, fmt.Errorf("the expression reads no item")
	case named == "" || in != nil && (other == in || named == in.entity.TextOf("name")):
	case in != nil && other != nil:
		return "", in, fmt.Errorf("the trigger reads items of another template, %s; write a RuleGroup (docs/rules.md)", named)
	case in != nil: // a renamed template: the expression compiles only over its own items
	case other == nil:
		return "", in, fmt.Errorf("template %s is not in these files", named)
	default:
		in = other
	}
	if out = strings.TrimSpace(out); len(out) > maxExpression {
		return "", in, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	}
	return out, in, nil
}

// checkExpressions returns an error if an expression of a trigger does not compile. The expressions may read items of
// the template and prototypes of a rule.
func (t *template) checkExpressions(prototypes []model.Item, expressions ...string) error {
	items := slices.Concat(t.spec.Items, prototypes)
	slices.SortFunc(items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	for _, expression := range expressions {
		if expression == "" {
			continue
		}
		if _, err := trigger.CompileForItems(items, expression, t.macroValue(prototypes != nil)); err != nil {
			return err
		}
	}
	return nil
}

// macroValue returns a function that gives every macro some value, for compiling expressions. A macro without a value
// gets a sample value. entities: it has macros of entities, too.
func (t *template) macroValue(entities bool) func(string) (string, error) {
	return func(macro string) (string, error) {
		if entities && model.IsEntityMacro(macro) {
			return "1", nil
		}
		return t.macros.ValueOrSample(macro)
	}
}

// reasonOf returns the cause of an expression's compile error, in one line. The position in the expression is left
// out.
func reasonOf(err error) string {
	var fault *trigger.Error
	if errors.As(err, &fault) {
		return conversion.ShortenLine(fault.Problem+": "+fault.Source, 300)
	}
	return conversion.OneLine(err.Error())
}
