package kind

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Property returns the kind of values for templates.
func Property() Kind {
	return Define(func() *model.PropertySpec { return &model.PropertySpec{} }, Definition[*model.PropertySpec]{
		KindInfo: model.KindInfo{Name: "Property", Plural: "properties", Short: "prop", Namespaced: true},
		LandsAs:  "read on",
		Example: `kind: Property
metadata: {name: disk-warn}
spec:
  property: disk_warn
  scope: group:web
  value: "20%"
`,
		Validate: func(v *Validator, r *model.Resource, s *model.PropertySpec) { validateProperty(v, r.Metadata.Name, s) },
		References: func(refs *References, s *model.PropertySpec) {
			if name, ok := strings.CutPrefix(s.Scope, "node:"); ok {
				refs.Mention("Node", "spec.scope", name)
			}
		},
		Columns: []Column[*model.PropertySpec]{
			{"SCOPE", 0, func(_ View, s *model.PropertySpec) string { return cmp.Or(s.Scope, "namespace") }},
			{"VALUE", 40, func(_ View, s *model.PropertySpec) string { return compact(s.Value) }},
			{"READ ON", 0, func(v View, _ *model.PropertySpec) string { return model.CountNoun(v.State.Nodes, "node") }},
		},
		Details: func(view View, s *model.PropertySpec) []Detail {
			return []Detail{{"scope", cmp.Or(s.Scope, "namespace")}, {"value", compact(s.Value)}, {"read by", model.CountNoun(view.State.Checks, "check")}}
		},
		Effect: func(_ *model.Resource, _ *model.PropertySpec, l Placement, _ bool) (note, warning string) {
			if l.Nodes == 0 {
				return "read by no check yet", ""
			}
			return "read on " + l.nodes(), ""
		},
	})
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func validateProperty(v *Validator, name string, s *model.PropertySpec) {
	if s.Property != "" {
		validatePropertyName(v, "spec.property", s.Property)
	} else if err := model.PropertyNameError(name); err != nil && name != "" {
		v.Flaw("metadata.name", "write spec: {property: …}", "%v", err)
	}
	if len(s.Value) == 0 {
		v.Missing("spec.value", "", "missing")
	}
	validatePropertyValue(v, "spec.value", s.Value)
	switch level, of, _ := strings.Cut(s.Scope, ":"); {
	case s.Scope == "" || s.Scope == "global" || s.Scope == "namespace":
	case level == "group" && of != "":
		v.SharedName("spec.scope", of)
	case level == "node" && of != "":
		v.NodeName("spec.scope", of)
	default:
		v.Flaw("spec.scope", "write global, namespace, group:NAME or node:NAME", "%q is no scope", s.Scope)
	}
}

func validatePropertyName(v *Validator, field, name string) {
	if err := model.PropertyNameError(name); err != nil {
		v.Flaw(field, "", "%v", err)
	}
}

// validateProperties checks values that stand in a node or group.
func validateProperties(v *Validator, field string, values map[string]json.RawMessage) {
	v.Bound(field, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := field + "." + name
		validatePropertyName(v, at, name)
		validatePropertyValue(v, at, values[name])
	}
}

func validatePropertyValue(v *Validator, field string, value json.RawMessage) {
	if len(value) > maxPropertyValue {
		v.Flaw(field, "keep large things in a file on the node", "%d bytes of JSON; at most %d", len(value), maxPropertyValue)
	}
}
