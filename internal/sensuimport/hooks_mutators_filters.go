package sensuimport

import (
	"github.com/muster-fleet/muster/internal/model"
)

// importHook imports a hook.
func importHook(o *object) {
	s := o.spec
	spec := &model.HookSpec{Command: &model.Command{Shell: s.text("command")}, Timeout: seconds(s.integer("timeout")), Stdin: s.boolean("stdin"), Assets: assetsOf(o, "hook")}
	if most := seconds(60); spec.Timeout > most {
		o.noteChange("timeout: a hook may run 60s at most, because the result waits for the hook")
		spec.Timeout = most
	}
	o.declareResource(spec)
}

// importMutator imports a mutator.
func importMutator(o *object) {
	s := o.spec
	spec := &model.MutatorSpec{Env: environmentOf(o, s.texts("env_vars")), Timeout: handlerTimeout(o)}
	if s.text("type") == "javascript" {
		spec.Javascript = s.text("eval")
	} else {
		spec.Command = &model.Command{Shell: s.text("command")}
		spec.Secrets = commandSecrets(o, "mutator")
	}
	spec.Assets = assetsOf(o, "mutator")
	o.declareResource(spec)
}

// importFilter imports a Sensu event filter and the times in which the filter applies.
func importFilter(o *object) {
	s := o.spec
	spec := &model.FilterSpec{Action: s.text("action"), Expressions: s.texts("expressions"), Assets: assetsOf(o, "filter")}
	var spans []model.WindowSpan
	for _, during := range o.weekdaySpans("when") {
		spans = append(spans, model.WindowSpan{During: during})
	}
	if len(spans) > 0 {
		spec.When = &model.FilterWhen{TimeZone: "UTC", Spans: spans}
	}
	o.declareResource(spec)
}
