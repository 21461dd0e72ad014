package model

import (
	"slices"
	"strings"
	"testing"
)

// TestDiscoveredTriggerHasItsPrototype looks up triggers made by discovery, and expects the prototype that made
// each. Its handlers and route apply to the problems of the trigger.
func TestDiscoveredTriggerHasItsPrototype(t *testing.T) {
	c := &TemplateDefinition{Triggers: []DefinitionTrigger{{Name: "/: full"}}, Rules: []DefinitionRule{{Triggers: []DefinitionTrigger{
		{Name: "{#A}: full"}, {Name: "{#A}: {#B}: full"}, {Name: "disk {#A}"}, {Name: "{#a} no macro {#A}"},
	}}}}
	for name, want := range map[string]string{
		"/: full": "/: full", "/mnt: full": "{#A}: full", "a: b: full": "{#A}: {#B}: full", "disk ": "disk {#A}", "disk sda": "disk {#A}", "a disk": "", "": "",
		": full": "{#A}: full", "{#a} no macro x": "{#a} no macro {#A}",
	} {
		found := ""
		if of := c.Trigger(name); of != nil {
			found = of.Name
		}
		if found != want {
			t.Errorf("%q: prototype %q, want %q", name, found, want)
		}
	}
}

// FuzzEntityMacros replaces discovery macros in random texts, and expects an unchanged text if no macro has a
// value. A text with values counts as an instance of the original.
func FuzzEntityMacros(f *testing.F) {
	f.Add("{#A}: full {$X}", "7d")
	f.Add("{#{#A}{#a}{#}", "never")
	f.Fuzz(func(t *testing.T, text, value string) {
		if same := ReplaceEntityMacros(text, func(string) (string, bool) { return "", false }); same != text {
			t.Fatalf("%q became %q", text, same)
		}
		if len(EntityMacros(value)) == 0 && !strings.Contains(text+value, "{#{#") {
			name := ReplaceEntityMacros(text, func(string) (string, bool) { return value, true })
			if _, ok := isInstanceOf(text, name); !ok && strings.Count(text, "{#") < 2 {
				t.Fatalf("%q is no instance of %q", name, text)
			}
		}
		if d, err := ParseLostAfter(value); err == nil && d < 0 {
			t.Fatalf("%q is %d", value, d)
		}
	})
}

// TestTriggerDependencies lists the direct and indirect dependencies of triggers, and compares the names. The
// names of discovered triggers contain the name of their entity.
func TestTriggerDependencies(t *testing.T) {
	c := TemplateDefinition{
		Triggers: []DefinitionTrigger{{Name: "a", DependsOn: []string{"b"}}, {Name: "b", DependsOn: []string{"c", "gone"}}, {Name: "c"}},
		Rules: []DefinitionRule{{Triggers: []DefinitionTrigger{
			{Name: "{#FS} of {#HOST} is full"}, {Name: "{#FS} of {#HOST} is nearly full", DependsOn: []string{"{#FS} of {#HOST} is full", "a"}},
		}}},
	}
	for name, want := range map[string][]string{
		"a": {"b", "c"}, "c": nil, "nosuch": nil, "/var of x.y is full": nil,
		"/var of x.y is nearly full": {"/var of x.y is full", "a", "b", "c"},
	} {
		if got := c.Dependencies(name); !slices.Equal(got, want) {
			t.Errorf("%s depends on %q, want %q", name, got, want)
		}
	}
}
