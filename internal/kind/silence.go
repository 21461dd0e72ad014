package kind

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Silence returns the kind of silences.
func Silence() Kind {
	return Define(func() *model.SilenceSpec { return &model.SilenceSpec{} }, Definition[*model.SilenceSpec]{
		KindInfo: model.KindInfo{Name: "Silence", Plural: "silences", Short: "si", Namespaced: true},
		Example: `kind: Silence
metadata: {name: web01-disk}
spec:
  targets: {nodes: [web01]}
  checks: [disk]
  until: 2026-12-24T18:00:00Z
  reason: the new disk arrives on Thursday
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.SilenceSpec) { validateSilence(v, s) },
		Targets:  func(s *model.SilenceSpec) []FieldTargets { return []FieldTargets{{"spec.targets", s.Targets}} },
		Columns: []Column[*model.SilenceSpec]{
			{"COVERS", 50, func(_ View, s *model.SilenceSpec) string { return selection(&s.Selector) }},
			{"UNTIL", 0, silenceEnd},
			{"BY", 0, func(_ View, s *model.SilenceSpec) string { return dash(s.Creator) }},
			{"HOLDS", 0, func(v View, _ *model.SilenceSpec) string { return model.CountNoun(v.State.Holds, "problem") }},
			{"REASON", 50, func(_ View, s *model.SilenceSpec) string { return s.Reason }},
		},
	})
}

func silenceEnd(v View, s *model.SilenceSpec) string {
	switch {
	case !s.Until.IsZero() && !s.Until.After(v.Now):
		return "ended " + model.Age(v.Now, s.Until.Time) + " ago"
	case s.Begin.After(v.Now):
		return "begins in " + model.TimeSpan(s.Begin.Sub(v.Now))
	case !s.Until.IsZero():
		return "for " + model.TimeSpan(s.Until.Sub(v.Now)) + ", " + s.Until.In(v.Zone).Format("01-02 15:04")
	case s.UntilResolved:
		return "the problem closes"
	}
	return "somebody ends it"
}

func validateSilence(v *Validator, s *model.SilenceSpec) {
	v.selector("spec", &s.Selector)
	if strings.TrimSpace(s.Reason) == "" {
		v.Missing("spec.reason", "write it for who wonders at 3 a.m. why nobody was told", "missing")
	}
	v.Line("spec.reason", s.Reason)
	v.Line("spec.creator", s.Creator)
	if !s.Until.IsZero() && !s.Until.After(s.Begin.Time) {
		v.Flaw("spec.until", "", "it would end before it begins")
	}
}
