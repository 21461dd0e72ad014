package kind

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Pipeline returns the kind of Sensu's pipelines.
func Pipeline() Kind {
	return Define(func() *model.PipelineSpec { return &model.PipelineSpec{} }, Definition[*model.PipelineSpec]{
		KindInfo: model.KindInfo{Name: "Pipeline", Plural: "pipelines", Short: "pi", Namespaced: true},
		Sensu:    true,
		Users:    true,
		Example: `kind: Pipeline
metadata: {name: alerts}
spec:
  workflows:
    - {name: oncall, filters: [is_incident, not_silenced], handler: oncall}
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.PipelineSpec) { validatePipeline(v, s) },
		References: func(refs *References, s *model.PipelineSpec) {
			for i := range s.Workflows {
				w, at := &s.Workflows[i], fmt.Sprintf("spec.workflows[%d]", i)
				for k, name := range w.Filters {
					if !model.BuiltinFilter(name) {
						refs.Require("Filter", fmt.Sprintf("%s.filters[%d]", at, k), name)
					}
				}
				if w.Mutator != "" && !model.BuiltinMutator(w.Mutator) {
					refs.Require("Mutator", at+".mutator", w.Mutator)
				}
				refs.Require("Handler", at+".handler", w.Handler)
			}
		},
		Columns: []Column[*model.PipelineSpec]{
			usersColumn[*model.PipelineSpec](),
			{"WORKFLOWS", 80, func(_ View, s *model.PipelineSpec) string { return workflows(s) }},
		},
		Details: func(_ View, s *model.PipelineSpec) []Detail { return []Detail{{"workflows", workflows(s)}} },
	})
}

// workflows is a pipeline in one line: slack: is_incident > json > slack.
func workflows(s *model.PipelineSpec) string {
	var parts []string
	for i := range s.Workflows {
		w := &s.Workflows[i]
		steps := append([]string{}, w.Filters...)
		if w.Mutator != "" {
			steps = append(steps, w.Mutator)
		}
		parts = append(parts, w.Name+": "+strings.Join(append(steps, w.Handler), " > "))
	}
	return strings.Join(parts, "; ")
}

func validatePipeline(v *Validator, s *model.PipelineSpec) {
	if len(s.Workflows) == 0 {
		v.Missing("spec.workflows", "write workflows: [{name: slack, filters: [is_incident], handler: slack}]", "says nothing to do")
	}
	v.Bound("spec.workflows", len(s.Workflows))
	seen := map[string]bool{}
	for i := range s.Workflows {
		w, at := &s.Workflows[i], fmt.Sprintf("spec.workflows[%d]", i)
		switch {
		case w.Name == "":
			v.Missing(at+".name", "", "missing")
		case len(w.Name) > model.MaxName || model.HasControl(w.Name):
			v.Flaw(at+".name", "", "want one line of at most %d bytes", model.MaxName)
		case seen[w.Name]:
			v.Flaw(at+".name", "", "a second workflow %q", w.Name)
		}
		seen[w.Name] = true
		v.Bound(at+".filters", len(w.Filters))
		v.Names(at+".filters", w.Filters, v.SharedName)
		if w.Mutator != "" {
			v.SharedName(at+".mutator", w.Mutator)
		}
		if w.Handler == "" {
			v.Missing(at+".handler", "", "missing")
		} else {
			v.SharedName(at+".handler", w.Handler)
		}
	}
}
