package rudderimport

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// technique is a technique of Rudder during its conversion to a Technique of Muster.
type technique struct {
	im         *importer
	part       *conversion.Mapping
	id, name   string // in Rudder, and here
	parameters map[string]string
	spec       *model.TechniqueSpec
	before     []*component
	names      map[string]bool   // of components and blocks, with the blocks around them
	byID       map[string]string // names of components by ids in Rudder
	loops      []string          // variables of the loops around the item that is converted, the innermost last
}

// component is a Rudder method converted to a component (checked part of a technique), with both names.
// Conditions of other methods refer to these names.
type component struct {
	name   string // here
	prefix string // of its conditions in Rudder: METHOD_VALUE
}

// title returns the name of the technique for notes, such as technique ntp.
func (t *technique) title() string { return "technique " + t.id }

// importTechnique converts a technique of Rudder in YAML.
func (im *importer) importTechnique(p *conversion.Mapping) {
	im.result.Counts.Techniques++
	t := &technique{im: im, part: p, id: p.TextOf("id"), parameters: map[string]string{}, spec: &model.TechniqueSpec{}, names: map[string]bool{}, byID: map[string]string{}}
	title := p.TextOf("name")
	if t.id == "" {
		im.noteLoss(p, "technique", "left out: it has no id, or another group has it")
		return
	}
	if other := im.techniques[t.id]; other != nil {
		im.noteLoss(p, t.title(), "left out: %s has this id, too", other.part.Place())
		return
	}
	t.spec.Description = conversion.OneLine(p.TextOf("description"))
	p.IgnoreFields("format", "version", "documentation", "category", "tags")
	for _, one := range p.List("params") {
		t.importParameter(one)
	}
	t.spec.Methods = t.convertItems(p.List("items"), "")
	t.spec.Parameters = slices.DeleteFunc(t.spec.Parameters, func(q model.Parameter) bool { return q.IsLoop() && !loopsOver(t.spec.Methods, q.Name) })
	im.noteUnreadFields(p, t.title())
	if len(t.spec.Methods) == 0 {
		im.noteLoss(p, t.title(), "left out: no method remains")
		return
	}
	t.name = im.unusedName("Technique", t.id, "")
	if im.addResource(p, "Technique", t.name, title, t.spec) {
		im.techniques[t.id] = t
		im.result.Counts.ImportedMethods += len(t.before)
	}
}

// importParameter converts a parameter of a Rudder technique. Directives give values by its id. With the bridge
// Rudder's agents have the values.
func (t *technique) importParameter(p *conversion.Mapping) {
	name, id := p.TextOf("name"), p.TextOf("id")
	what := t.title() + ", parameter " + name
	kind := cmp.Or(p.TextOf("type"), "string")
	parameter := model.Parameter{Name: name, Description: conversion.OneLine(p.TextOf("description"))}
	p.IgnoreFields("documentation")
	switch {
	case kind == "integer" || kind == "boolean":
		parameter.Type = kind
	case kind != "string" && kind != "multiline-string" && kind != "password" && !t.im.Bridge:
		t.im.noteChange(p, what, "type %s is a plain text here: values are not tested for it", kind)
	case kind == "password":
		t.im.noteChange(p, what, "a value of type password is a plain text here: everybody who reads the directive sees it")
	}
	if c := p.Child("constraints"); c != nil {
		c.IgnoreFields("password_hashes")
		if r := c.Child("regex"); r != nil {
			parameter.Pattern = r.TextOf("value")
		}
		for _, one := range c.List("select") {
			parameter.OneOf = append(parameter.OneOf, model.Scalar(one.TextOf("value")))
		}
		if c.TextOf("allow_empty") == "true" && !p.HasField("default") {
			parameter.Default = &model.ParameterValue{}
		}
		t.im.noteUnreadFields(c, what)
	}
	if p.HasField("default") {
		parameter.Default = &model.ParameterValue{Text: model.Scalar(p.TextOf("default"))}
	}
	t.im.noteUnreadFields(p, what)
	if t.im.Bridge {
		return
	}
	if err := model.PropertyNameError(name); err != nil || name == "" {
		t.im.noteLoss(p, what, "left out: the name is not valid here: %v", err)
		return
	}
	if parameter.Pattern != "" {
		if _, err := policy.CompilePattern(parameter.Pattern); err != nil {
			t.im.noteLoss(p, what, "the regular expression was left out: %v", err)
			parameter.Pattern = ""
		}
	}
	if d := parameter.Default; d != nil && policy.CheckParameter(&parameter, *d) != nil {
		t.im.noteLoss(p, what, "the default %q was left out: %v", d.Text, policy.CheckParameter(&parameter, *d))
		parameter.Default = nil
	}
	t.parameters[strings.ToLower(id)], t.parameters[strings.ToLower(name)] = name, name
	t.spec.Parameters = append(t.spec.Parameters, parameter)
}

// convertItems converts the methods and blocks in a technique or block of Rudder. prefix names the blocks around them,
// as in pages/.
func (t *technique) convertItems(items []*conversion.Mapping, prefix string) (list []model.Method) {
	for _, p := range items {
		var m *model.Method
		if p.HasField("items") {
			m = t.convertBlock(p, prefix)
		} else {
			m = t.importMethod(p, prefix)
		}
		if m != nil {
			list = append(list, *m)
		}
	}
	return list
}

// conditionOf returns the condition under which a method or block of a Rudder technique runs. The condition is empty
// if the item always runs. With the bridge Rudder's agents have the conditions.
func (t *technique) conditionOf(p *conversion.Mapping) (string, error) {
	text := p.TextOf("condition")
	if text == "any" || text == "true" || t.im.Bridge {
		return "", nil
	}
	return t.convertCondition(text)
}

// modeOf returns the mode (audit or enforce) that a method or block of a Rudder technique sets. It is empty if the
// mode of the block or directive applies. With the bridge Rudder's agents have it.
func (t *technique) modeOf(p *conversion.Mapping) string {
	mode := p.TextOf("policy_mode_override")
	if t.im.Bridge || mode == "none" {
		return ""
	}
	return mode // the resource is tested: another word leaves the technique out
}

// convertBlock converts a block of a technique with its items. If the block is left out, it returns nil.
func (t *technique) convertBlock(p *conversion.Mapping, prefix string) *model.Method {
	title := conversion.OneLine(cmp.Or(p.TextOf("name"), "block"))
	what := fmt.Sprintf("%s, block %s", t.title(), title)
	id := p.TextOf("id")
	p.IgnoreFields("description", "documentation", "tags")
	loop, endLoop, err := t.convertLoop(p)
	defer endLoop()
	if err != nil {
		t.im.noteLoss(p, what, "left out: %v", err)
		return nil
	}
	when, err := t.conditionOf(p)
	if err != nil {
		t.im.noteLoss(p, what, "left out: %v", err)
		return nil
	}
	m := &model.Method{Component: t.componentName(prefix, title, ""), When: when, Mode: t.modeOf(p), ForEach: loop}
	var focus string
	if r := p.Child("reporting"); r != nil {
		mode := r.TextOf("mode")
		focus = r.TextOf("id")
		if _, ok := model.ReportingOf(mode); !ok {
			t.im.noteLoss(r, what, "reporting mode %s: its components count one by one", mode)
		} else if mode != "weighted" {
			m.Reporting = mode
		}
		t.im.noteUnreadFields(r, what)
	}
	t.im.noteUnreadFields(p, what)
	items := p.List("items")
	m.Block = t.convertItems(items, prefix+m.Component+"/")
	if len(m.Block) == 0 {
		t.im.noteLoss(p, what, "left out: no method remains")
		return nil
	}
	if m.Reporting == model.ReportFocus.String() {
		if m.Focus = t.byID[focus]; focus == "" || m.Focus == "" || !slices.ContainsFunc(m.Block, func(inner model.Method) bool { return inner.Component == m.Focus }) {
			t.im.noteLoss(p, what, "reporting mode focus: its item %s was left out, so its components count one by one", focus)
			m.Reporting, m.Focus = "", ""
		}
	}
	t.byID[id] = m.Component
	return m
}

// importMethod converts one Rudder method to a component, which is a checked part of a technique. If the method
// is left out, it returns nil.
func (t *technique) importMethod(p *conversion.Mapping, prefix string) *model.Method {
	t.im.result.Counts.Methods++
	method, id := p.TextOf("method"), p.TextOf("id")
	title := conversion.OneLine(cmp.Or(p.TextOf("name"), method, id))
	what := fmt.Sprintf("%s, method %s", t.title(), title)
	p.IgnoreFields("condition", "description", "documentation", "tags", "reporting")
	parameters := map[string]string{}
	if c := p.Child("params"); c != nil {
		for _, name := range c.Names() {
			parameters[currentName(method, name)] = c.TextOf(name)
		}
	}
	silent := false
	if r := p.Child("reporting"); r != nil {
		silent = r.TextOf("mode") == "disabled"
	}
	if silent && t.im.Bridge {
		t.im.noteChange(p, what, "left out: it reports nothing (reporting mode disabled)")
		return nil
	}
	value := parameters[classParameter(method)] // as Rudder's conditions name it
	loop, endLoop, err := t.convertLoop(p)
	defer endLoop()
	if err != nil {
		t.im.noteLoss(p, what, "left out: %v", err)
		return nil
	}
	m := &model.Method{Mode: t.modeOf(p), ForEach: loop}
	t.im.noteUnreadFields(p, what)
	if t.im.Bridge {
		if m.Rudder = (&model.RudderMethod{Method: method, ID: id}); id == "" {
			m.Rudder.Component = title
		}
		if p.HasField("foreach") {
			t.im.noteChange(p, what, "all elements of its loop are one component: the worst report of them counts")
		}
	} else {
		for _, name := range slices.Sorted(mapKeys(parameters)) {
			convert := func(text string) (string, error) { return t.expandVariables(text, inventoryFacts) }
			if method == "report_if_condition" && name == "condition" {
				convert = t.convertCondition
			}
			text, err := convert(parameters[name])
			if err != nil {
				t.im.noteLoss(p, what, "left out: %s: %v", name, err)
				return nil
			}
			for _, fact := range []struct{ name, words string }{{"distribution", "debian for Debian"}, {"arch", "amd64 for x86_64"}} {
				if strings.Contains(text, factVariable(fact.name)) {
					t.im.noteChange(p, what, "%s: the fact %s has other words than Rudder's inventory, such as %s", name, fact.name, fact.words)
				}
			}
			parameters[name] = text
		}
		if err := convertMethod(m, method, parameters); err != nil {
			t.im.noteLoss(p, what, "left out: %v", err)
			return nil
		}
		switch method {
		case "kernel_module_loaded":
			t.im.noteChange(p, what, "the module is also loaded at each start of the machine")
		case "sysctl_value":
			t.im.noteChange(p, what, "the value is kept in /etc/sysctl.d/60-muster.conf")
		}
		if silent {
			m.Reporting = model.ReportDisabled.String()
		}
	}
	if m.When, err = t.conditionOf(p); err != nil {
		t.im.noteLoss(p, what, "left out: %v", err)
		return nil
	}
	m.Component = t.componentName(prefix, title, value)
	t.before = append(t.before, &component{prefix + m.Component, canonify(classPrefix(method) + "_" + value)})
	t.byID[id] = m.Component
	return m
}

// convertLoop turns the elements of a Rudder loop (foreach) into a list parameter of the technique. It returns the
// parameter's name, or an empty text without a loop. The caller calls end after the item. With the bridge Rudder's
// agents have the elements.
func (t *technique) convertLoop(p *conversion.Mapping) (parameter string, end func(), err error) {
	end = func() {}
	variable, elements := cmp.Or(p.TextOf("foreach_name"), "item"), p.List("foreach")
	p.IgnoreFields("foreach_columns_order")
	switch {
	case !p.HasField("foreach") || t.im.Bridge:
		return "", end, nil
	}
	var value model.ParameterValue
	seen := map[string]bool{}
	for i, one := range elements {
		element := model.LoopItem{}
		for _, field := range one.Tree.Names() {
			text, err := t.expandVariables(one.TextOf(field), nil)
			if err != nil {
				return "", end, fmt.Errorf("foreach loop: %s: %w", field, err)
			}
			if strings.Contains(text, "{{ "+model.ItemName) {
				return "", end, fmt.Errorf("foreach loop: %s: an element that refers to the outer loop has no equivalent in Muster", field)
			}
			element[field] = model.Scalar(text)
			if _, named := element["name"]; !named && len(one.Tree.Names()) == 1 {
				element["name"] = element[field]
			}
		}
		if name := string(element["name"]); name == "" || seen[name] || strings.Contains(name, "{{") {
			if one.HasField("name") {
				return "", end, fmt.Errorf("foreach loop: the element name %q has no equivalent in Muster", name)
			}
			element["name"] = model.Scalar(fmt.Sprint(i + 1))
		}
		seen[string(element["name"])] = true
		value.Elements = append(value.Elements, element)
	}
	name := "loop"
	for n := 2; slices.ContainsFunc(t.spec.Parameters, func(q model.Parameter) bool { return q.Name == name }); n++ {
		name = fmt.Sprintf("loop%d", n)
	}
	list := model.Parameter{Name: name, Type: "list", Default: &value}
	if err := policy.CheckParameter(&list, value); err != nil {
		return "", end, fmt.Errorf("foreach loop: %w", err)
	}
	around := t.loops
	t.spec.Parameters, t.loops = append(t.spec.Parameters, list), append(slices.Clip(around), variable)
	return name, func() { t.loops = around }, nil
}

// loopsOver reports whether any converted method is repeated for each element of the given list parameter.
func loopsOver(methods []model.Method, parameter string) bool {
	return slices.ContainsFunc(methods, func(m model.Method) bool { return m.ForEach == parameter || loopsOver(m.Block, parameter) })
}

// componentName returns an unused name for a component, which is a checked part of a technique.
func (t *technique) componentName(prefix, title, value string) string {
	title = model.Truncate(title, model.MaxName/4)
	name := title
	if t.names[prefix+name] && value != "" {
		name = title + " " + conversion.OneLine(model.Truncate(value, model.MaxName/8))
	}
	for n, base := 2, name; t.names[prefix+name]; n++ {
		name = fmt.Sprintf("%s %d", base, n)
	}
	t.names[prefix+name] = true
	return name
}

// variablePattern matches a variable of Rudder: ${…} or $(…).
var variablePattern = regexp.MustCompile(`\$[{(]([^{}()]*)[})]`)

// propertyPattern matches a property of the node, with its members.
var propertyPattern = regexp.MustCompile(`^node\.properties((?:\[[A-Za-z0-9_-]+\])+)$`)

// inventoryFacts has the facts here that have the values of variables of Rudder's inventory.
var inventoryFacts = map[string]string{
	"node.inventory[hostname]": "fqdn", "node.inventory[archDescription]": "arch", "node.inventory[os][name]": "distribution", "node.inventory[os][fullName]": "distributionName",
	"node.inventory[os][version]": "distributionVersion", "node.inventory[os][kernelVersion]": "kernel",
}

// factVariable returns the template variable of a fact.
func factVariable(fact string) string { return "{{ " + model.FactPrefix + fact + " }}" }

// expandVariables converts Rudder's variables in a text to variables of Muster. facts has the facts by variable of the
// inventory; nil where a text cannot read facts.
func (t *technique) expandVariables(text string, facts map[string]string) (string, error) {
	if strings.Contains(text, "{{") {
		return "", fmt.Errorf("a text with {{ would be read as a template in Muster")
	}
	var failed error
	text = variablePattern.ReplaceAllStringFunc(text, func(found string) string {
		name := found[2 : len(found)-1]
		if p := propertyPattern.FindStringSubmatch(name); p != nil {
			return "{{ .props." + strings.ReplaceAll(strings.Trim(p[1], "[]"), "][", ".") + " }}"
		}
		if fact, ok := facts[name]; ok {
			return factVariable(fact)
		}
		path := model.ItemName + "."
		for _, variable := range slices.Backward(t.loops) {
			if field, ok := strings.CutPrefix(name, variable+"."); ok {
				return "{{ " + path + field + " }}"
			}
			path += "outer."
		}
		if own, ok := t.parameters[strings.ToLower(strings.TrimPrefix(name, t.id+"."))]; ok {
			return "{{ .params." + own + " }}"
		}
		failed = fmt.Errorf("the variable %s has no equivalent in Muster", found)
		return found
	})
	if failed == nil && strings.Contains(text, "${") {
		failed = fmt.Errorf("a variable within a variable has no equivalent in Muster")
	}
	return text, failed
}
