package kind

import (
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
)

// Mutator returns the kind of Sensu's mutators.
func Mutator() Kind {
	return Define(func() *model.MutatorSpec { return &model.MutatorSpec{} }, Definition[*model.MutatorSpec]{
		KindInfo: model.KindInfo{Name: "Mutator", Plural: "mutators", Short: "mu", Namespaced: true},
		Sensu:    true,
		Example: `kind: Mutator
metadata: {name: short}
spec:
  javascript: return event.check.output.slice(0, 100)
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.MutatorSpec) { validateMutator(v, s) },
		References: func(refs *References, s *model.MutatorSpec) {
			refs.secrets(s.Secrets)
			refs.Require("Asset", "spec.assets", s.Assets...)
		},
		Redact: func(s *model.MutatorSpec) *model.MutatorSpec {
			out := *s
			out.Env = hide(s.Env)
			return &out
		},
		Columns: []Column[*model.MutatorSpec]{{"RUNS", 80, func(_ View, s *model.MutatorSpec) string { return mutation(s) }}},
		Details: func(_ View, s *model.MutatorSpec) []Detail {
			return assetDetails([]Detail{{"runs", mutation(s)}}, s.Assets)
		},
	})
}

func mutation(s *model.MutatorSpec) string {
	if s.Command != nil {
		return commandText(s.Command)
	}
	return "JavaScript: " + strings.Join(strings.Fields(s.Javascript), " ")
}

// maxJavascript is how much of it a filter or mutator may be.
const maxJavascript = 64 << 10

func validateMutator(v *Validator, s *model.MutatorSpec) {
	switch {
	case s.Command == nil && strings.TrimSpace(s.Javascript) == "":
		v.Missing("spec", "write command: … or javascript: …", "says nothing to do")
	case s.Command != nil && s.Javascript != "":
		v.Flaw("spec.javascript", "keep one of them", "both command and javascript")
	case s.Command == nil:
		_, err := filter.CompileMutation(s.Javascript)
		v.compiled("spec.javascript", err)
	}
	if len(s.Javascript) > maxJavascript {
		v.Flaw("spec.javascript", "", "longer than %d bytes", maxJavascript)
	}
	v.command("spec.command", s.Command)
	v.env("spec.env", s.Env)
	v.commandSecrets(s.Secrets, s.Command, s.Env, "leave it out: JavaScript reads no environment")
	v.assets(s.Assets)
	v.InRange("spec.timeout", s.Timeout, model.Duration(100*time.Millisecond), model.Duration(10*time.Minute))
}
