package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Compiled is a compiled technique with the values of a directive.
type Compiled struct {
	Components []model.Component
	Blocks     []model.Block // by position, an outer block before its inner ones
	// Parameters has the texts of the parameters that components read. Lists and maps have become components.
	Parameters map[string]string
	// Secrets has the names of the Secrets that parameters of the type secret name.
	Secrets map[string]string
}

// MaxCondition bounds the condition of a component, also with the conditions of its blocks, in bytes.
const MaxCondition = 4096

// Limits of a compiled directive. The protocol has the same limits.
const (
	maxComponents    = 10000     // with its blocks and loops
	maxSize          = 256 << 10 // bytes
	maxComponentName = 255
)

// Compile compiles a technique with a directive's values to components (checked parts) and blocks. A component
// with a loop stands once for each element of its list or map. An error names the parameter or component that
// is wrong, and the field of the directive.
func Compile(technique *model.TechniqueSpec, values map[string]model.ParameterValue) (*Compiled, error) {
	bound, err := bindParameters(technique.Parameters, values)
	if err != nil {
		return nil, err
	}
	c := compiler{values: bound, names: map[string]bool{}}
	for i := range technique.Parameters {
		texts := &c.Parameters
		switch p := &technique.Parameters[i]; {
		case p.IsLoop():
			continue
		case p.Type == model.SecretParameter:
			texts = &c.Secrets
			fallthrough
		default:
			if *texts == nil {
				*texts = map[string]string{}
			}
			(*texts)[p.Name] = string(bound[p.Name].Text)
		}
	}
	if err := c.addMethods(technique.Methods, scope{}); err != nil {
		return &c.Compiled, errorInField(err, "spec.parameters")
	}
	return &c.Compiled, nil
}

// errorInField returns the error with the field of the directive that is wrong.
func errorInField(err error, field string) error {
	e := model.Errorf(model.Invalid, "%w", err)
	if known := (*model.Error)(nil); errors.As(err, &known) {
		e.Hint = known.Hint
	}
	return e.At("", field)
}

// compiler collects the components (checked parts) of a technique during the technique's compilation.
type compiler struct {
	Compiled
	values map[string]model.ParameterValue
	names  map[string]bool // of components, blocks and loops so far
	size   int             // at most the encoded size of the components so far, in bytes
}

// addSize adds bytes to the size of the compiled directive, and returns an error above the limit. It returns an
// error if the directive becomes too large for agents.
func (c *compiler) addSize(size int) error {
	if c.size += size; c.size > maxSize {
		return model.Errorf(model.Invalid, "the directive is too large for agents: more than %s", model.Size(maxSize)).WithHint("divide the technique, or shorten its loops")
	}
	return nil
}

// scope has the name prefix, conditions and mode that a component inherits from its surrounding blocks.
type scope struct {
	outer  []string // names of the blocks around it, the innermost last
	when   string   // joined conditions of the blocks
	item   map[string]string
	prefix string // of names
	mode   string // of the innermost block with a mode
}

// addMethods compiles all methods in one block or technique to components (checked parts of the directive).
func (c *compiler) addMethods(methods []model.Method, in scope) (err error) {
	for i := range methods {
		m := &methods[i]
		if m.ForEach == "" {
			if err := c.addMethod(m, in.prefix+m.Component, in); err != nil {
				return err
			}
			continue
		}
		value, ok := c.values[m.ForEach]
		if !ok {
			return fmt.Errorf("component %s: the technique has no parameter %q", m.Component, m.ForEach)
		}
		for _, e := range value.Elements {
			inner := in
			if inner.item, err = itemOf(e, in.item); err != nil {
				return fmt.Errorf("component %s: %w", m.Component, err)
			}
			if err := c.addSize(len(inner.item)); err != nil {
				return err
			}
			if err := c.addMethod(m, fmt.Sprintf("%s%s[%s]", in.prefix, m.Component, e.Name()), inner); err != nil {
				return err
			}
		}
		c.names[in.prefix+m.Component] = true
	}
	return nil
}

// outerField is the field under which the element of a loop has the element of the loop around it.
const outerField = "outer"

// itemOf returns the fields of a loop's element, together with the fields of the outer loop's element. The
// fields of the element of the loop around it (nil: there is none) begin with "outer."; if that element is a
// text, it is the field outer.
func itemOf(e model.LoopItem, outer map[string]string) (map[string]string, error) {
	item := make(map[string]string, len(e)+len(outer))
	for field, text := range outer {
		item[strings.TrimSuffix(outerField+"."+field, ".")] = text
	}
	for field, text := range e {
		if field == outerField && outer != nil {
			return nil, model.Errorf(model.Invalid, "the field %s of a loop's element has the name of the outer loop's element", field).WithHint("give the field another name")
		}
		item[field] = string(text)
	}
	return item, nil
}

// addMethod compiles one method to a component, or one block to a block with its components.
func (c *compiler) addMethod(m *model.Method, name string, in scope) error {
	if c.names[name] {
		return model.Errorf(model.Invalid, "two components are named %q", name).WithHint("write another name, or remove the equal element of the loop")
	}
	if len(c.names) >= maxComponents {
		return model.Errorf(model.Invalid, "the directive has more than %d components, blocks and loops", maxComponents).WithHint("divide the technique, or shorten its loops")
	}
	if len(name) > maxComponentName {
		return model.Errorf(model.Invalid, "the component name %q… is longer than %d bytes", model.Truncate(name, 40), maxComponentName).WithHint("shorten the names of its blocks and elements")
	}
	when, err := c.joinConditions(m.When, in)
	if err != nil {
		return fmt.Errorf("component %s: %w", name, err)
	}
	reporting, _ := model.ReportingOf(m.Reporting)
	mode := cmp.Or(m.Mode, in.mode)
	if m.Block != nil {
		block := model.Block{Name: name, First: uint32(len(c.Components)), Reporting: reporting}
		at := len(c.Blocks)
		c.Blocks = append(c.Blocks, block)
		inner := scope{outer: append(slices.Clip(in.outer), in.prefix), when: when, item: in.item, prefix: name + "/", mode: mode}
		for i := range m.Block {
			first := len(c.Components)
			if err := c.addMethods(m.Block[i:i+1], inner); err != nil {
				return err
			}
			if m.Block[i].Component == m.Focus {
				block.FocusFirst, block.FocusCount = uint32(first), uint32(len(c.Components)-first)
			}
		}
		c.names[name] = true
		if block.Count = uint32(len(c.Components)) - block.First; block.Count == 0 {
			c.Blocks = c.Blocks[:at] // its loops have no elements
			return nil
		}
		c.Blocks[at] = block
		return nil
	}
	if m.Report != nil {
		condition, err := c.expandNames(m.Report.If, in)
		if err != nil {
			return fmt.Errorf("component %s: %w", name, err)
		}
		with := *m
		with.Report = &model.ReportMethod{If: condition, Message: m.Report.Message}
		m = &with
	}
	names, arguments := m.Selected()
	if len(names) != 1 {
		return fmt.Errorf("component %s: expected one method, found %d", name, len(names))
	}
	data, err := json.Marshal(arguments[0])
	if err != nil {
		return fmt.Errorf("component %s: %w", name, err)
	}
	size := len(name) + len(data) + len(when)
	for field, text := range in.item {
		size += len(field) + len(text)
	}
	if err := c.addSize(size); err != nil {
		return err
	}
	if in.item != nil {
		if err := checkItem(names[0], data, in.item); err != nil {
			return fmt.Errorf("component %s: %w", name, err)
		}
	}
	if reporting == model.ReportDisabled {
		c.Blocks = append(c.Blocks, model.Block{Name: name, First: uint32(len(c.Components)), Count: 1, Reporting: reporting})
	}
	c.Components = append(c.Components, model.Component{Name: name, Method: names[0], Arguments: data, When: when, Item: in.item, Mode: mode})
	c.names[name] = true
	return nil
}

// checkItem returns an error if a method reads a field that its loop's element does not have.
func checkItem(method string, arguments []byte, item map[string]string) error {
	_, err := model.EachMethodText(method, arguments, func(text string, shell bool) (string, error) {
		template, err := model.ParseMethodTemplate(text, shell)
		if err != nil {
			return "", err
		}
		for _, name := range template.Names() {
			field, ok := model.ItemField(name)
			if _, has := item[field]; !ok || has {
				continue
			}
			if field == "" {
				return "", model.Errorf(model.Invalid, "the element has several fields, so {{ .item }} is not a single text").WithHint("write one of %s", strings.Join(fieldNames(item), ", "))
			}
			return "", model.Errorf(model.Invalid, "the element has no field %q", field).WithHint("write one of %s", strings.Join(fieldNames(item), ", "))
		}
		return text, nil
	})
	return err
}

// fieldNames returns the template variables for the fields of a loop's element, ascending.
func fieldNames(item map[string]string) []string {
	names := slices.Sorted(maps.Keys(item))
	for i, field := range names {
		if names[i] = "{{ .item." + field + " }}"; field == "" {
			names[i] = "{{ .item }}"
		}
	}
	return names
}

// joinConditions joins the condition of a component with the conditions of its blocks.
func (c *compiler) joinConditions(own string, in scope) (string, error) {
	if own == "" {
		return in.when, nil
	}
	text, err := c.expandNames(own, in)
	if err != nil {
		return "", err
	}
	if in.when != "" {
		text = "(" + in.when + ") && (" + text + ")"
	}
	if len(text) > MaxCondition {
		return "", fmt.Errorf("the condition of the component and the conditions of its blocks are together longer than %d bytes", MaxCondition)
	}
	return text, nil
}

// expandNames replaces component names in a condition by full names with the prefix of block and loop. A full
// name includes loop and block. It searches a name in the component's own block first, then in the blocks
// around it.
func (c *compiler) expandNames(own string, in scope) (string, error) {
	var unknown error
	text, err := renameComponents(own, func(name string) string {
		prefix := in.prefix
		for i := len(in.outer); ; i-- {
			if c.names[prefix+name] {
				return prefix + name
			}
			if i == 0 {
				unknown = fmt.Errorf("condition: no earlier component is named %q", name)
				return name
			}
			prefix = in.outer[i-1]
		}
	})
	return text, cmp.Or(err, unknown)
}

// bindParameters returns the value of each parameter, from the directive or the technique's default. It is the
// directive's value or the default.
func bindParameters(parameters []model.Parameter, values map[string]model.ParameterValue) (map[string]model.ParameterValue, error) {
	bound := map[string]model.ParameterValue{}
	for i := range parameters {
		p := &parameters[i]
		value, ok := values[p.Name]
		if !ok && p.Default == nil {
			return nil, model.Errorf(model.Invalid, "parameter %s has no value", p.Name).
				WithHint("write parameters: {%s: VALUE}: the technique has no default for it", p.Name).At("", "spec.parameters")
		}
		if !ok {
			value = *p.Default
		}
		if err := CheckParameter(p, value); err != nil {
			return nil, errorInField(err, "spec.parameters."+p.Name)
		}
		bound[p.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := bound[name]; !known {
			names := make([]string, len(parameters))
			for i := range parameters {
				names[i] = parameters[i].Name
			}
			return nil, model.Errorf(model.Invalid, "the technique has no parameter %q", name).WithHint("its parameters: %s", strings.Join(names, ", ")).At("", "spec.parameters."+name)
		}
	}
	return bound, nil
}

// CheckParameter returns an error unless a value fits a parameter of a technique. A value with properties of the node
// is refused where the parameter has constraints, because each node would have to test it.
func CheckParameter(p *model.Parameter, value model.ParameterValue) error {
	if !p.IsLoop() {
		if value.Elements != nil {
			return model.Errorf(model.Invalid, "parameter %s: expected a text, got %s", p.Name, value).WithHint("declare the parameter in the technique as a list or map")
		}
		return checkText(p, value.Text)
	}
	if value.Elements == nil || value.Map != (p.Type == "map") {
		return model.Errorf(model.Invalid, "parameter %s: %s is not a %s", p.Name, value, p.Type).WithHint("write %s", map[string]string{"list": "[A, B] or [{name: A, FIELD: TEXT}]", "map": "{KEY: TEXT}"}[p.Type])
	}
	if n := len(value.Elements); p.Min != nil && n < *p.Min || p.Max != nil && n > *p.Max {
		return model.Errorf(model.Invalid, "parameter %s has %s, but allows %s", p.Name, model.CountNoun(len(value.Elements), "element"), rangeText(p))
	}
	seen := map[string]bool{}
	for _, e := range value.Elements {
		name := e.Name()
		switch {
		case name == "" || strings.Contains(name, "{{"):
			return model.Errorf(model.Invalid, "parameter %s: an element has no name", p.Name).WithHint("write a text without variables, or {name: A, …}")
		case seen[name]:
			return model.Errorf(model.Invalid, "parameter %s: two elements are named %q", p.Name, name)
		}
		seen[name] = true
		for field := range e {
			if field != "" && model.PropertyNameError(field) != nil && !value.Map {
				return model.Errorf(model.Invalid, "parameter %s: the field %q has other characters than letters, digits, _ and -", p.Name, field)
			}
		}
		text, ok := e[""]
		if value.Map {
			text, ok = e["value"], true
		}
		if ok {
			element := *p
			element.Type, element.Min, element.Max = "", nil, nil
			if err := checkText(&element, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// rangeText returns the smallest and largest number that a parameter allows.
func rangeText(p *model.Parameter) string {
	switch {
	case p.Max == nil:
		return fmt.Sprintf("%d or more", *p.Min)
	case p.Min == nil:
		return fmt.Sprintf("at most %d", *p.Max)
	}
	return fmt.Sprintf("%d to %d", *p.Min, *p.Max)
}

// checkText returns an error unless a text value fits the type and limits of a parameter. It also checks the elements
// of a list or map.
func checkText(p *model.Parameter, value model.Scalar) error {
	if p.Type == model.SecretParameter {
		if value == "" || strings.Contains(string(value), "{{") {
			return model.Errorf(model.Invalid, "parameter %s: %q is not a valid name of a Secret", p.Name, value).WithHint("write the name of a Secret: muster get secrets")
		}
		if namespace, _, found := strings.Cut(string(value), "/"); found && namespace != model.SharedNamespaceName {
			return model.Errorf(model.Invalid, "parameter %s: %q is a Secret of another namespace", p.Name, value).
				WithHint("write a name of the same namespace, or %s/NAME", model.SharedNamespaceName)
		}
		return nil
	}
	if strings.Contains(string(value), "{{") {
		if len(p.OneOf) > 0 || p.Pattern != "" || p.Type == "integer" || p.Type == "boolean" {
			return model.Errorf(model.Invalid, "parameter %s: %q contains a node property, whose value cannot be checked against type, oneOf or pattern", p.Name, value).
				WithHint("write the value, or declare the parameter in the technique as text without oneOf and pattern")
		}
		return nil
	}
	switch n, err := strconv.Atoi(string(value)); {
	case p.Type == "integer" && err != nil:
		return model.Errorf(model.Invalid, "parameter %s: %q is not a whole number", p.Name, value)
	case p.Type == "integer" && (p.Min != nil && n < *p.Min || p.Max != nil && n > *p.Max):
		return model.Errorf(model.Invalid, "parameter %s: %d is not %s", p.Name, n, rangeText(p))
	case p.Type == "boolean" && value != "true" && value != "false":
		return model.Errorf(model.Invalid, "parameter %s: %q is neither true nor false", p.Name, value)
	case len(p.OneOf) > 0 && !slices.Contains(p.OneOf, value):
		words := make([]string, len(p.OneOf))
		for i, word := range p.OneOf {
			words[i] = string(word)
		}
		return model.Errorf(model.Invalid, "parameter %s: value %q is not one of the allowed values", p.Name, value).WithHint("write %s", strings.Join(words, " or "))
	case p.Pattern != "":
		pattern, err := CompilePattern(p.Pattern)
		if err != nil {
			return err
		}
		if !pattern.MatchString(string(value)) {
			return model.Errorf(model.Invalid, "parameter %s: %q does not match %s", p.Name, value, p.Pattern)
		}
	}
	return nil
}

// aclEntry matches an entry of an access control list in the form of getfacl.
var aclEntry = regexp.MustCompile(`^(default:)?(user|group|mask|other):[A-Za-z0-9._-]*:[r-][w-][x-]$`)

// IsACLEntry reports whether a text is an entry of an access control list, such as user:ada:r-x.
func IsACLEntry(text string) bool { return aclEntry.MatchString(text) }

// CompilePattern compiles the pattern of a parameter to a regular expression for whole values.
func CompilePattern(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "pattern %q is not a regular expression: %w", pattern, err)
	}
	return re, nil
}
