package zabbiximport

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
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
	of = model.Trigger{Name: convertTriggerName(e.TextOf("name")), Disabled: isDisabled(e)}
	what := "trigger " + of.Name
	t = in
	var err error
	if of.Expression, t, err = im.convertExpression(t, im.expressionOf(e, "expression")); err != nil {
		im.noteLoss(e, what, "%s", compileErrorReason(err))
		return of, t, false
	}
	word := enumField(e, "priority", "NOT_CLASSIFIED")
	severity, known := severities[word]
	if of.Severity = severity; !known {
		im.noteLoss(e, what, "severity %s is unknown: it is average", word)
	}
	recovery := im.expressionOf(e, "recovery_expression")
	switch mode := enumField(e, "recovery_mode", "EXPRESSION"); mode {
	case "EXPRESSION":
	case "RECOVERY_EXPRESSION":
		of.Recovery, _, err = im.convertExpression(t, recovery)
	case "NONE":
		im.noteLoss(e, what, "recovery mode NONE has no equivalent in Muster: the problem closes when the expression is false")
	default:
		err = fmt.Errorf("unknown recovery mode %s", mode)
	}
	if err == nil {
		err = t.checkExpressions(prototypes, of.Expression, of.Recovery)
	}
	if err != nil {
		im.noteLoss(e, what, "%s", compileErrorReason(err))
		return of, t, false
	}
	if enumField(e, "type", "SINGLE") == "MULTIPLE" {
		im.noteLoss(e, what, "generation of multiple events has no equivalent in Muster: one problem is open at a time")
	}
	if enumField(e, "correlation_mode", "DISABLED") == "TAG_VALUE" {
		im.noteLoss(e, what, "correlation by tag %s has no equivalent in Muster", e.TextOf("correlation_tag"))
	}
	of.Tags, of.OperationalData = im.importProblemTags(e, what), conversion.OneLine(e.TextOf("opdata"))
	if of.Description = strings.TrimSpace(strings.ReplaceAll(e.TextOf("description"), "\r\n", "\n")); len(of.Description) > model.MaxProblemDescription {
		of.Description = model.Truncate(of.Description, model.MaxProblemDescription)
		im.noteLoss(e, what, "the description is longer than %d bytes and cut", model.MaxProblemDescription)
	}
	dependencies := e.List("dependencies")
	if link := e.TextOf("url"); link != "" {
		if u, err := url.Parse(link); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && !strings.ContainsAny(link, "{}") && !model.HasControl(link) && len(link) <= model.MaxText {
			of.Runbook = link
		} else {
			im.noteLoss(e, what, "url %s is no link here", conversion.ShortenLine(link, 100))
		}
	}
	e.IgnoreFields("uuid", "correlation_tag", "manual_close")
	t.noteUnreadFields(e, "triggers")
	if prototypes != nil && len(model.EntityMacros(of.Name)) == 0 {
		macros := model.EntityMacros(of.Expression)
		if len(macros) == 0 {
			im.noteLoss(e, what, "neither name nor expression has a macro of an entity, so that all entities would have one trigger")
			return of, t, false
		}
		of.Name = conversion.ShortenLine(of.Name, model.MaxName-200) + " " + macros[0]
		im.noteChange(e, what, "a discovered trigger has a name of its own here: %s", of.Name)
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

// dependency is a dependency between two Zabbix triggers, as written in the export.
type dependency struct {
	on   *conversion.Mapping
	from string // name of the other one here
}

// importDependencies imports the dependencies between Zabbix triggers. All triggers of the template are
// imported before.
func (im *importer) importDependencies(t *template) {
	for _, d := range t.dependencies {
		name := d.on.TextOf("name")
		expression, in, err := im.convertExpression(nil, im.expressionOf(d.on, "expression"))
		d.on.IgnoreFields("recovery_expression", "correlation_tag")
		found := ""
		if err == nil && in == t {
			found = addDependency(t.spec.Triggers, nil, d.from, convertTriggerName(name), expression)
			for i := range t.spec.Discovery {
				found = cmp.Or(found, addDependency(t.spec.Discovery[i].Triggers, t.spec.Triggers, d.from, convertTriggerName(name), expression))
			}
		}
		if found == "" {
			im.noteLoss(d.on, "trigger "+d.from, "it depends on %s, which is no trigger of this template here", name)
		}
	}
}

// addDependency records that one trigger depends on another trigger, and returns the second trigger's name. The
// other is in the same list or in further; the name is empty if one of the two is missing.
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

// convertTriggerName converts a Zabbix trigger's name to one line of text. Zabbix's macros for the host are
// "the node", because an event names its node. Other macros of Zabbix in it have no value here.
func convertTriggerName(name string) string {
	name = model.ReplaceBuiltinMacros(name, func(m model.BuiltinMacro) (string, bool) {
		return "the node", strings.HasPrefix(m.Name, "HOST")
	})
	if name = conversion.ShortenLine(name, model.MaxName-len(" (100)")); name == "" {
		return "unnamed"
	}
	return name
}

// expressionOf returns an expression of the export in the syntax of Zabbix 7.0. An expression that does not parse stays.
func (im *importer) expressionOf(e *conversion.Mapping, field string) string {
	text := e.TextOf(field)
	major, _, _ := strings.Cut(im.versions[e.File], ".")
	if n, err := strconv.Atoi(major); err != nil || n >= 7 {
		return text
	}
	escaped, err := trigger.EscapeTexts(text)
	if err != nil {
		return text
	}
	return escaped
}

// convertExpression converts a Zabbix expression to Muster's form, with //key instead of /template/key. A nil
// template is that which it names.
func (im *importer) convertExpression(in *template, expression string) (string, *template, error) {
	if strings.TrimSpace(expression) == "" {
		return "", in, fmt.Errorf("the trigger or item has no expression")
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
		return "", in, fmt.Errorf("template %s is not in the imported files", named)
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
		if _, err := trigger.CompileForItems(items, expression, t.macroLookup(prototypes != nil)); err != nil {
			return err
		}
	}
	return nil
}

// macroLookup returns a function that looks up a macro's value, or a sample value for compiling expressions. A
// macro without a value gets a sample value. entities: it has macros of entities, too.
func (t *template) macroLookup(entities bool) func(string) (string, error) {
	return func(macro string) (string, error) {
		if entities && model.IsEntityValue(macro) {
			return "1", nil
		}
		return t.macros.ValueOrSample(macro)
	}
}

// compileErrorReason returns the reason of an expression's compile error, in one line. The position in the
// expression is left out.
func compileErrorReason(err error) string {
	var fault *trigger.Error
	if errors.As(err, &fault) {
		return conversion.ShortenLine(fault.Problem+": "+fault.Source, 300)
	}
	return conversion.OneLine(err.Error())
}
