package kind

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
)

// Filter returns the kind of Sensu's event filters.
func Filter() Kind {
	return Define(func() *model.FilterSpec { return &model.FilterSpec{} }, Definition[*model.FilterSpec]{
		KindInfo: model.KindInfo{Name: "Filter", Plural: "filters", Short: "fi", Namespaced: true},
		Sensu:    true,
		Example: `kind: Filter
metadata: {name: often}
spec:
  action: allow
  expressions: [event.check.occurrences > 2]
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.FilterSpec) { validateFilter(v, s) },
		References: func(refs *References, s *model.FilterSpec) {
			refs.Require("Asset", "spec.assets", s.Assets...)
			if s.When != nil {
				refs.window("spec.when.window", s.When.Window)
			}
		},
		Columns: []Column[*model.FilterSpec]{{"PASSES", 80, func(_ View, s *model.FilterSpec) string { return passes(s) }}},
		Details: func(_ View, s *model.FilterSpec) []Detail {
			return assetDetails([]Detail{{"passes", passes(s)}}, s.Assets)
		},
	})
}

// passes says which events pass a filter.
func passes(s *model.FilterSpec) string {
	word := map[string]string{"allow": "all of: ", "deny": "none of: "}[s.Action]
	if s.When != nil {
		word = "at certain times " + word
	}
	var parts []string
	for _, e := range s.Expressions {
		parts = append(parts, strings.Join(strings.Fields(e), " "))
	}
	return word + strings.Join(parts, "; ")
}

func validateFilter(v *Validator, s *model.FilterSpec) {
	switch s.Action {
	case "":
		v.Missing("spec.action", "write allow or deny", "missing")
	case "allow", "deny":
	default:
		v.Flaw("spec.action", "write allow or deny", "%q is not known", s.Action)
	}
	if len(s.Expressions) == 0 {
		v.Missing("spec.expressions", "write expressions: [event.check.status == 2]", "says nothing")
	}
	v.Bound("spec.expressions", len(s.Expressions))
	v.assets(s.Assets)
	for i, expression := range s.Expressions {
		_, err := filter.Compile(expression)
		v.compiled(fmt.Sprintf("spec.expressions[%d]", i), err)
	}
	w := s.When
	switch {
	case w == nil:
		return
	case len(w.Spans) == 0 && w.Window == "":
		v.Missing("spec.when", `write spans: [{during: "mon-fri 09:00-17:00"}], or window: NAME`, "says no time")
	case len(w.Spans) > 0 && w.Window != "":
		v.Flaw("spec.when.window", "keep one of them", "both spans and window")
	case w.Window != "":
		v.SharedName("spec.when.window", w.Window)
		if w.TimeZone != "" {
			v.Flaw("spec.when.timeZone", "leave it out", "the window has its own")
		}
	}
	v.timeZone("spec.when.timeZone", w.TimeZone)
	v.Bound("spec.when.spans", len(w.Spans))
	validateSpans(v, "spec.when.spans", w.Spans)
}
