package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Compile returns the components of a technique in their order, and the texts of its parameters with the values of a
// directive. An error names the parameter that is wrong.
func Compile(technique *model.TechniqueSpec, values map[string]model.Scalar) ([]model.Component, map[string]string, error) {
	parameters, err := bindParameters(technique.Parameters, values)
	if err != nil {
		return nil, nil, err
	}
	components := make([]model.Component, len(technique.Methods))
	for i := range technique.Methods {
		m := &technique.Methods[i]
		names, arguments := m.Selected()
		if len(names) != 1 {
			return nil, nil, fmt.Errorf("component %s: %d methods instead of one", m.Component, len(names))
		}
		data, err := json.Marshal(arguments[0])
		if err != nil {
			return nil, nil, fmt.Errorf("component %s: %w", m.Component, err)
		}
		components[i] = model.Component{Name: m.Component, Method: names[0], Arguments: data, When: m.When}
	}
	return components, parameters, nil
}

// bindParameters returns the text of each parameter: the directive's value or the default.
func bindParameters(parameters []model.Parameter, values map[string]model.Scalar) (map[string]string, error) {
	var bound map[string]string
	for i := range parameters {
		p := &parameters[i]
		value, ok := values[p.Name]
		if !ok && p.Default == nil {
			return nil, model.Errorf(model.Invalid, "parameter %s has no value", p.Name).WithHint("write parameters: {%s: VALUE}: the technique has no default for it", p.Name)
		}
		if !ok {
			value = *p.Default
		}
		if err := CheckParameter(p, value); err != nil {
			return nil, err
		}
		if bound == nil {
			bound = map[string]string{}
		}
		bound[p.Name] = string(value)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := bound[name]; !known {
			names := make([]string, len(parameters))
			for i := range parameters {
				names[i] = parameters[i].Name
			}
			return nil, model.Errorf(model.Invalid, "the technique has no parameter %q", name).WithHint("its parameters: %s", strings.Join(names, ", "))
		}
	}
	return bound, nil
}

// CheckParameter returns an error unless a value fits a parameter. A value with properties of the node is refused where the
// parameter has constraints, because each node would have to test it.
func CheckParameter(p *model.Parameter, value model.Scalar) error {
	if strings.Contains(string(value), "{{") {
		if len(p.OneOf) > 0 || p.Pattern != "" || p.Type == "integer" || p.Type == "boolean" {
			return model.Errorf(model.Invalid, "parameter %s: %q has a property of the node, which its type, oneOf or pattern cannot test", p.Name, value).
				WithHint("write the value, or declare the parameter in the technique as text without oneOf and pattern")
		}
		return nil
	}
	switch _, err := strconv.ParseInt(string(value), 10, 64); {
	case p.Type == "integer" && err != nil:
		return model.Errorf(model.Invalid, "parameter %s: %q is no whole number", p.Name, value)
	case p.Type == "boolean" && value != "true" && value != "false":
		return model.Errorf(model.Invalid, "parameter %s: %q is neither true nor false", p.Name, value)
	case len(p.OneOf) > 0 && !slices.Contains(p.OneOf, value):
		words := make([]string, len(p.OneOf))
		for i, word := range p.OneOf {
			words[i] = string(word)
		}
		return model.Errorf(model.Invalid, "parameter %s: %q is not allowed", p.Name, value).WithHint("write %s", strings.Join(words, " or "))
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

// CompilePattern compiles the pattern of a parameter, which the whole value has to match.
func CompilePattern(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "pattern %q is no regular expression: %w", pattern, err)
	}
	return re, nil
}
