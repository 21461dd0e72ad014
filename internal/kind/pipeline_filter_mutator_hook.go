package kind

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
)

// Pipeline returns the resource kind Pipeline, a Sensu pipeline of filters, mutator and handler.
func Pipeline() Kind {
	return Define(Definition[*model.PipelineSpec]{
		KindInfo: model.KindInfo{Name: "Pipeline", Plural: "pipelines", Short: "pi", Namespaced: true},
		Sensu:    true,
		Users:    true,
		Example: `kind: Pipeline
metadata: {name: alerts}
spec:
  workflows:
    - {name: oncall, filters: [is_incident, not_silenced], handler: oncall}
`,
		Validate: validatePipeline,
		Columns: []Column[*model.PipelineSpec]{
			usersColumn[*model.PipelineSpec](),
			{"WORKFLOWS", 80, func(_ ResourceView, s *model.PipelineSpec) string { return workflowsText(s) }},
		},
		Details: func(_ ResourceView, s *model.PipelineSpec) []Detail { return []Detail{{"workflows", workflowsText(s)}} },
	})
}

// workflowsText formats the workflows of a pipeline in one line, such as "slack: is_incident > json > slack"
func workflowsText(s *model.PipelineSpec) string {
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

// validatePipeline validates the spec of a Pipeline.
func validatePipeline(v *Validator, s *model.PipelineSpec) {
	v.LimitElements("spec.workflows", len(s.Workflows))
	seen := map[string]bool{}
	for i := range s.Workflows {
		w, at := &s.Workflows[i], fmt.Sprintf("spec.workflows[%d]", i)
		v.requireUniqueTitle(at+".name", "workflow", w.Name, "", seen)
		v.MissingIf(w.Handler == "", at+".handler", "", "%v", model.NameError(""))
	}
}

// Filter returns the resource kind Filter, a Sensu event filter.
func Filter() Kind {
	return Define(Definition[*model.FilterSpec]{
		KindInfo: model.KindInfo{Name: "Filter", Plural: "filters", Short: "fi", Namespaced: true},
		Sensu:    true,
		Example: `kind: Filter
metadata: {name: often}
spec:
  action: allow
  expressions: [event.check.occurrences > 2]
`,
		Validate: validateFilter,
		Columns:  []Column[*model.FilterSpec]{{"PASSES", 80, func(_ ResourceView, s *model.FilterSpec) string { return filterText(s) }}},
		Details: func(_ ResourceView, s *model.FilterSpec) []Detail {
			return assetDetails([]Detail{{"passes", filterText(s)}}, s.Assets)
		},
	})
}

// filterText describes in words which events pass a filter.
func filterText(s *model.FilterSpec) string {
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

// validateFilter validates the spec of a Filter.
func validateFilter(v *Validator, s *model.FilterSpec) {
	v.MissingIf(s.Action == "", "spec.action", "write allow or deny", "missing")
	v.requireOneOf("spec.action", s.Action, "allow", "deny")
	v.MissingIf(len(s.Expressions) == 0, "spec.expressions", "write expressions: [event.check.status == 2]", "says nothing")
	v.LimitElements("spec.expressions", len(s.Expressions))
	for i, expression := range s.Expressions {
		_, err := filter.Compile(expression)
		v.recordCompileError(fmt.Sprintf("spec.expressions[%d]", i), err)
	}
	w := s.When
	switch {
	case w == nil:
		return
	case len(w.Spans) == 0 && w.Window == "":
		v.Missing("spec.when", `write spans: [{during: "mon-fri 09:00-17:00"}], or window: NAME`, "the time is missing")
	case len(w.Spans) > 0 && w.Window != "":
		v.Flaw("spec.when.window", "keep one of these fields", "spans and window exclude each other")
	case w.Window != "":
		v.FlawIf(w.TimeZone != "", "spec.when.timeZone", "leave the field out", "the window has its own time zone")
	}
	v.validateTimeZone("spec.when.timeZone", w.TimeZone)
	v.LimitElements("spec.when.spans", len(w.Spans))
	validateWindowSpans(v, "spec.when.spans", w.Spans)
}

// Mutator returns the resource kind Mutator, a Sensu mutator, which transforms events for handlers.
func Mutator() Kind {
	return Define(Definition[*model.MutatorSpec]{
		KindInfo: model.KindInfo{Name: "Mutator", Plural: "mutators", Short: "mu", Namespaced: true},
		Sensu:    true,
		Example: `kind: Mutator
metadata: {name: short}
spec:
  javascript: return event.check.output.slice(0, 100)
`,
		Validate: validateMutator,
		Redact: func(s *model.MutatorSpec) *model.MutatorSpec {
			out := *s
			out.Env = redactValues(s.Env)
			return &out
		},
		Columns: []Column[*model.MutatorSpec]{{"RUNS", 80, func(_ ResourceView, s *model.MutatorSpec) string { return mutatorText(s) }}},
		Details: func(_ ResourceView, s *model.MutatorSpec) []Detail {
			return assetDetails([]Detail{{"runs", mutatorText(s)}}, s.Assets)
		},
	})
}

// mutatorText formats the command or JavaScript of a mutator.
func mutatorText(s *model.MutatorSpec) string {
	if s.Command != nil {
		return commandText(s.Command)
	}
	return "JavaScript: " + strings.Join(strings.Fields(s.Javascript), " ")
}

// maxJavascript limits the JavaScript of a mutator, in bytes.
const maxJavascript = 64 << 10

// validateMutator validates the spec of a Mutator.
func validateMutator(v *Validator, s *model.MutatorSpec) {
	switch {
	case s.Command == nil && strings.TrimSpace(s.Javascript) == "":
		v.Missing("spec", "write command: … or javascript: …", "the action is missing")
	case s.Command != nil && s.Javascript != "":
		v.Flaw("spec.javascript", "keep one of these fields", "command and javascript exclude each other")
	case s.Command == nil:
		_, err := filter.CompileMutation(s.Javascript)
		v.recordCompileError("spec.javascript", err)
		_, err = filter.CompileMutation("", filter.VariablesLibrary(s.Env)...)
		v.recordCompileError("spec.env", err)
	}
	v.FlawIf(len(s.Javascript) > maxJavascript, "spec.javascript", "", "longer than %d bytes", maxJavascript)
	v.validateCommand("spec.command", s.Command)
	v.validateEnv("spec.env", s.Env)
	v.validateCommandSecrets(s.Secrets, s.Command, s.Env, "leave the field out: JavaScript reads no environment", "only a command has an environment")
	v.InRange("spec.timeout", s.Timeout, minHandlerTimeout, maxHandlerTimeout)
}

// Hook returns the resource kind Hook, a command that runs after a check, as in Sensu. Imports from Sensu write it.
func Hook() Kind {
	return Define(Definition[*model.HookSpec]{
		KindInfo: model.KindInfo{Name: "Hook", Plural: "hooks", Short: "hk", Namespaced: true},
		Sensu:    true,
		Users:    true,
		Example: `kind: Hook
metadata: {name: processes}
spec:
  command: ps aux
`,
		Validate: validateHook,
		Columns: []Column[*model.HookSpec]{
			checksColumn[*model.HookSpec]("CHECKS"),
			{"RUNS", 60, func(_ ResourceView, s *model.HookSpec) string { return commandText(s.Command) }},
		},
		Details: func(_ ResourceView, s *model.HookSpec) []Detail {
			return assetDetails([]Detail{{"runs", commandText(s.Command)}}, s.Assets)
		},
	})
}

// validateHook validates the spec of a Hook.
func validateHook(v *Validator, s *model.HookSpec) {
	v.MissingIf(s.Command == nil, "spec.command", "", "missing")
	v.validateCommand("spec.command", s.Command)
	if _, err := (model.TemplateTexts{Command: s.Command, Sensu: true}).Parse(); err != nil { // tokens, if a check with sensu: true names it
		v.validateTemplates(model.TemplateTexts{Command: s.Command})
	}
	v.InRange("spec.timeout", s.Timeout, minTimeout, maxHookTimeout)
}
