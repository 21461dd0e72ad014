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

// TestIntervalsAreValidated validates intervals and units with macros and custom intervals, and expects an error about each
// faulty one. A macro without a default is no error.
func TestIntervalsAreValidated(t *testing.T) {
	for text, want := range map[string]string{
		"30s": "", "{$EVERY}": "", "{$NONE}": "", "{$EVERY};10s/1-5,09:00-18:00;wd1-5h8m30": "", "0;h23m50": "", "{#EVERY}s": "",
		"500ms":      "expected 1s to 366d, got 500ms",
		"{$BAD}":     `the interval {$BAD} is "soon" here: expected a time of 1s to 366d, such as 5m`,
		"1m;x":       `"x" is no custom interval`,
		"{$TOKEN}":   "the macro {$TOKEN} is secret",
		"{$BAD};h23": `the interval {$BAD};h23 is "soon;h23" here`,
	} {
		s := &model.TemplateSpec{
			Macros: map[string]string{"{$EVERY}": "300", "{$BAD}": "soon"}, Secrets: []model.MacroSecret{{Macro: "{$TOKEN}", Secret: "token"}},
			Items: []model.Item{{Key: "a", Interval: model.Interval(text), Unit: "{$EVERY}{$NONE}"}},
		}
		flaws := All().Check(&model.Resource{APIVersion: model.APIVersion, Kind: "Template", Metadata: model.Metadata{Name: "t", Namespace: "default"}, Spec: s})
		if want == "" && len(flaws) > 0 || want != "" && (len(flaws) != 1 || flaws[0].Field != "spec.items[0].interval" || !strings.HasPrefix(flaws[0].Text, want)) {
			t.Errorf("%s: %+v, expected %q", text, flaws, want)
		}
	}
	for field, edit := range map[string]func(*model.TemplateSpec){
		"spec.items[0].interval":               func(s *model.TemplateSpec) { s.Items[0].Formula, s.Items[0].Interval = "1", "1m;h9" },
		"spec.items[0].unit":                   func(s *model.TemplateSpec) { s.Items[0].Unit = "{$TOKEN}" },
		"spec.discovery[0].interval":           func(s *model.TemplateSpec) { s.Discovery[0].Interval = "1m;x" },
		"spec.discovery[0].deleteAfter":        func(s *model.TemplateSpec) { s.Discovery[0].DeleteAfter = "{$BAD}" },
		"spec.discovery[0].overrides[0].items": func(s *model.TemplateSpec) { s.Discovery[0].Overrides[0].Items[0].Interval = "{$BAD}" },
	} {
		s := &model.TemplateSpec{
			Macros: map[string]string{"{$BAD}": "soon"}, Secrets: []model.MacroSecret{{Macro: "{$TOKEN}", Secret: "token"}}, Items: []model.Item{{Key: "a"}},
			Discovery: []model.DiscoveryRule{{Key: "d", DisableAfter: "{$NONE}", Overrides: []model.DiscoveryOverride{{Name: "o", Items: []model.ItemOverride{{Interval: "{$NONE}"}}}}}},
		}
		edit(s)
		flaws := All().Check(&model.Resource{APIVersion: model.APIVersion, Kind: "Template", Metadata: model.Metadata{Name: "t", Namespace: "default"}, Spec: s})
		if len(flaws) != 1 || !strings.HasPrefix(flaws[0].Field, field) {
			t.Errorf("%s: %+v", field, flaws)
		}
	}
}
