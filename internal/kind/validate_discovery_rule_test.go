package kind

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestDiscoveryRuleIsValidated validates faulty discovery rules and prototypes, and expects an error about each faulty field.
func TestDiscoveryRuleIsValidated(t *testing.T) {
	rule := func(edit func(*model.DiscoveryRule)) *model.Resource {
		pattern := "^ext"
		r := model.DiscoveryRule{
			Key: "vfs.fs.discovery", Filter: &model.DiscoveryFilter{Conditions: []model.DiscoveryCondition{{Macro: "{#FSTYPE}", Matches: &pattern}}},
			Items:     []model.Item{{Key: "vfs.fs.size[{#FSNAME},pused]"}},
			Triggers:  []model.Trigger{{Name: "{#FSNAME}: full", Expression: `last(//vfs.fs.size[{#FSNAME},pused])>{$MAX:"{#FSNAME}"}`}},
			Overrides: []model.DiscoveryOverride{{Name: "root", Triggers: []model.TriggerOverride{{Names: []string{"{#FSNAME}: full"}, Severity: "high"}}}},
		}
		edit(&r)
		return &model.Resource{APIVersion: model.APIVersion, Kind: "Template", Metadata: model.Metadata{Name: "disks", Namespace: "default"},
			Spec: &model.TemplateSpec{Macros: map[string]string{"{$MAX}": "90"}, Discovery: []model.DiscoveryRule{r}}}
	}
	for field, edit := range map[string]func(*model.DiscoveryRule){
		"":                          func(*model.DiscoveryRule) {},
		"discovery[0].items[0].key": func(r *model.DiscoveryRule) { r.Items = append([]model.Item{{Key: "load"}}, r.Items...) },
		"discovery[0].items[0]": func(r *model.DiscoveryRule) {
			r.Steps = []model.Step{{Name: "javascript", Parameters: []string{"return value"}}}
		},
		"discovery[0].triggers[0]":  func(r *model.DiscoveryRule) { r.Triggers[0].Expression = "last(//x[{#FSNAME}])>1" },
		"discovery[0].filter":       func(r *model.DiscoveryRule) { r.Filter.Formula = "A and B" },
		"discovery[0].paths":        func(r *model.DiscoveryRule) { r.Paths = map[string]string{"{#A}": "$["} },
		"discovery[0].deleteAfter":  func(r *model.DiscoveryRule) { r.DeleteAfter = "soon" },
		"discovery[0].overrides[0]": func(r *model.DiscoveryRule) { r.Overrides[0].Triggers[0].Names = []string{"x"} },
		"discovery[0].key":          func(r *model.DiscoveryRule) { r.Key = "" },
		"discovery[0].overrides[0].triggers[0].tags.cost center": func(r *model.DiscoveryRule) {
			r.Overrides[0].Triggers[0].Tags = map[string]string{"cost center": "7"}
		},
		"discovery[0].triggers[0].tags.scope":      func(r *model.DiscoveryRule) { r.Triggers[0].Tags = map[string]string{"scope": "two\nlines"} },
		"discovery[0].triggers[0].description":     func(r *model.DiscoveryRule) { r.Triggers[0].Description = strings.Repeat("x", 4097) },
		"discovery[0].triggers[0].operationalData": func(r *model.DiscoveryRule) { r.Triggers[0].OperationalData = "two\nlines" },
		"discovery[0].triggers[0].name":            func(r *model.DiscoveryRule) { r.Triggers[0].Name, r.Overrides = "{#FSNAME} of {HOST.NAME}", nil },
	} {
		flaws := All().Check(rule(edit))
		switch {
		case field == "" && len(flaws) > 0:
			t.Errorf("a valid rule: %v", flaws[0])
		case field != "" && (len(flaws) == 0 || !strings.HasPrefix(flaws[0].Field, "spec."+field)):
			t.Errorf("%s: flaws %v", field, flaws)
		}
	}
}
