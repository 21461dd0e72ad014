package kind

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestMacroSecretsAreValidated validates faulty secret macros, and expects an error about each faulty field.
func TestMacroSecretsAreValidated(t *testing.T) {
	for field, edit := range map[string]func(*model.TemplateSpec){
		"":                       func(*model.TemplateSpec) {},
		"spec.secrets[0].macro":  func(s *model.TemplateSpec) { s.Secrets[0].Macro = `{$TOKEN:"x"}` },
		"spec.secrets[1].macro":  func(s *model.TemplateSpec) { s.Secrets = append(s.Secrets, s.Secrets[0]) },
		"spec.secrets[0].secret": func(s *model.TemplateSpec) { s.Secrets[0].Secret = "" },
		"spec.secrets":           func(s *model.TemplateSpec) { s.Secrets = make([]model.MacroSecret, model.MaxCheckSecrets+1) },
		"spec.items[0].steps": func(s *model.TemplateSpec) {
			s.Items[0].Steps = []model.Step{{Name: "trim", Parameters: []string{"{$TOKEN}"}}}
		},
		"spec.items[0].formula": func(s *model.TemplateSpec) {
			s.Items = append([]model.Item{{Key: "f", Formula: "{$TOKEN}*2"}}, s.Items...)
		},
		"spec.triggers[0].expression": func(s *model.TemplateSpec) {
			s.Triggers = []model.Trigger{{Name: "t", Expression: "last(//page[{$TOKEN}])={$TOKEN}"}}
		},
		"spec.discovery[0].filter.conditions[0]": func(s *model.TemplateSpec) {
			pattern := "{$TOKEN}"
			s.Discovery = []model.DiscoveryRule{{Key: "d", Filter: &model.DiscoveryFilter{Conditions: []model.DiscoveryCondition{{Macro: "{#A}", Matches: &pattern}}}}}
		},
	} {
		s := &model.TemplateSpec{Items: []model.Item{{Key: "page[{$TOKEN}]"}}, Secrets: []model.MacroSecret{{Macro: "{$TOKEN}", Secret: "token"}}}
		edit(s)
		flaws := All().Check(&model.Resource{APIVersion: model.APIVersion, Kind: "Template", Metadata: model.Metadata{Name: "t", Namespace: "default"}, Spec: s})
		switch {
		case field == "" && len(flaws) > 0:
			t.Errorf("a valid secret macro: %v", flaws[0])
		case field != "" && (len(flaws) == 0 || !strings.HasPrefix(flaws[0].Field, field)):
			t.Errorf("%s: flaws %v", field, flaws)
		}
	}
}
