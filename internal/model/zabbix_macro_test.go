package model

import (
	"strings"
	"testing"
)

// TestMacroValues expands macros and expects the value for the exact context first, then for the first matching
// pattern, then without context.
func TestMacroValues(t *testing.T) {
	m, err := NewMacroValues(map[string]string{
		"{$MAX}": "90", `{$MAX:"/tmp"}`: "80", `{$MAX:regex:"^/mnt/"}`: "70", "{$A.B_1}": "x", `{$ONLY:"a"}`: "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"{$MAX}": "90", "a{$MAX:/tmp}b": "a80b", `{$MAX: "/tmp" }`: "80", "{$MAX:/mnt/x}{$A.B_1}": "70x", `{$MAX:"/"}`: "90", "^a{2}$ {$ {$a}": "^a{2}$ {$ {$a}",
		"{$NONE}": "!{$NONE}", `{$ONLY:b}`: `!{$ONLY:"b"}`,
	} {
		got, err := m.Expand(text)
		if err != nil {
			got = "!" + err.(*MissingMacroError).Macro
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	for _, name := range []string{"MAX", "{$max}", "{$MAX", `{$MAX:regex:"("}`, "{$MAX}x"} {
		if _, err := NewMacroValues(map[string]string{name: ""}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, want := range map[string]string{"{$MAX}": "", `{$MAX:"a"}`: "", "{$MAX:a}": `write {$MAX:"a"}`, "{$max}": "no macro"} {
		if err := PropertyNameError(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("property %s: %v, want %q", name, err, want)
		}
	}
}

// TestPropertiesSetMacros sets macros by Properties, and expects an error that names a macro without a value.
func TestPropertiesSetMacros(t *testing.T) {
	c := &TemplateDefinition{
		Macros:   map[string]string{"{$LOAD.MAX}": "4"},
		Items:    []Item{{Key: "net.if.in[{$IF}]", Steps: []Step{{Name: "multiplier", Parameters: []string{`{$FACTOR:"net"}`}}}}},
		Triggers: []DefinitionTrigger{{Name: "high", Expression: "last(//net.if.in[{$IF}])>{$LOAD.MAX}"}},
	}
	if got := strings.Join(c.MacroNames(), " "); got != `{$FACTOR:"net"} {$FACTOR} {$IF} {$LOAD.MAX}` {
		t.Errorf("names %s", got)
	}
	properties := map[string]string{"{$IF}": `"eth0"`, "{$LOAD.MAX}": "8"}
	values := func(name string) ([]byte, string, bool) { v, ok := properties[name]; return []byte(v), "", ok }
	if err := c.MacroError(values); err == nil || !strings.Contains(err.Error(), `the macro {$FACTOR:"net"} has no value here`) {
		t.Errorf("error %v", err)
	}
	properties["{$FACTOR}"] = "8"
	if err := c.MacroError(values); err != nil {
		t.Error(err)
	}
	m := c.MacroValues(c.PropertyMacros(values))
	if got, _ := m.Expand("{$IF} {$LOAD.MAX}"); got != "eth0 8" {
		t.Errorf("values %s", got)
	}
	if steps, err := m.ExpandSteps(c.Items[0].Steps); err != nil || steps[0].Parameters[0] != "8" || c.Items[0].Steps[0].Parameters[0] == "8" {
		t.Errorf("steps %v %v", steps, err)
	}
}

// FuzzParseMacro parses random texts as macros, and expects String to return a text that parses to the same macro.
func FuzzParseMacro(f *testing.F) {
	f.Add(`{$A:"b\"c"}`)
	f.Add(`{$A:regex:^b}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, length := ParseMacro(text)
		if length == 0 || strings.HasSuffix(m.Context, `\`) {
			return
		}
		if again, n := ParseMacro(m.String()); again != m || n != len(m.String()) {
			t.Fatalf("%q: %+v, %q: %+v", text, m, m.String(), again)
		}
	})
}
