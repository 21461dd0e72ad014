package kind

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Hook returns the kind of Sensu's hooks.
func Hook() Kind {
	return Define(func() *model.HookSpec { return &model.HookSpec{} }, Definition[*model.HookSpec]{
		KindInfo: model.KindInfo{Name: "Hook", Plural: "hooks", Short: "hk", Namespaced: true},
		Sensu:    true,
		Users:    true,
		Example: `kind: Hook
metadata: {name: processes}
spec:
  command: ps aux
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.HookSpec) { validateHook(v, s) },
		Columns: []Column[*model.HookSpec]{
			checksColumn[*model.HookSpec]("CHECKS"),
			{"RUNS", 60, func(_ View, s *model.HookSpec) string { return commandText(s.Command) }},
		},
		Details: func(_ View, s *model.HookSpec) []Detail { return []Detail{{"runs", commandText(s.Command)}} },
	})
}

func validateHook(v *Validator, s *model.HookSpec) {
	if s.Command == nil {
		v.Missing("spec.command", "", "missing")
	}
	v.command("spec.command", s.Command)
	v.templates(model.TemplateTexts{Command: s.Command})
	v.InRange("spec.timeout", s.Timeout, model.Duration(10*time.Millisecond), model.Duration(time.Minute))
}
