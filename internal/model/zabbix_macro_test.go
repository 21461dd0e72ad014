package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestMacroValues expands macros with contexts, and expects for each macro the value that fits its context best. The
// exact context comes first, then the first matching pattern, then the value without context.
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

// TestSecretMacrosAreRedacted gives a macro the value of a Secret, and expects only the agent to know the value. No Property sets
// the macro, and texts of the server have no value of it.
func TestSecretMacrosAreRedacted(t *testing.T) {
	c := &TemplateDefinition{
		Macros: map[string]string{"{$HOST}": "web"}, Secrets: []DefinitionSecret{{Env: "{$TOKEN}", Name: "default/token"}, {Env: "{$PIN}", Name: "default/pin"}},
		Items: []Item{{Key: `page[{$HOST},{$TOKEN},{$TOKEN:"x"}]`}},
	}
	if got := strings.Join(c.MacroNames(), " "); got != "{$HOST}" {
		t.Errorf("names of Properties %s", got)
	}
	all := func(string) ([]byte, string, bool) { return []byte(`"open"`), "", true }
	if set := c.PropertyMacros(all); len(set) != 1 || c.MacroError(all) != nil {
		t.Errorf("set by Properties: %v, error %v", set, c.MacroError(all))
	}
	if list := c.SecretsIn(c.Items[0].Key); len(list) != 1 || list[0].Name != "default/token" {
		t.Errorf("secrets of the key: %v", list)
	}
	m := c.MacroValues(nil)
	if got, err := m.ExpandPublic(c.Items[0].Key); err != nil || got != `page[web,{$TOKEN},{$TOKEN:"x"}]` {
		t.Errorf("key %s, error %v", got, err)
	}
	for _, text := range []string{"{$TOKEN}", `{$TOKEN:"x"}`} {
		var secret *SecretMacroError
		if _, err := m.Expand(text); !errors.As(err, &secret) {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := m.ValueOrSample(text); !errors.As(err, &secret) {
			t.Errorf("%s in an expression: %v", text, err)
		}
		if _, err := m.ExpandSteps([]Step{{Name: "trim", Parameters: []string{text}}}); !errors.As(err, &secret) {
			t.Errorf("%s in a step: %v", text, err)
		}
	}
	full := m.WithSecrets(map[string]string{"{$TOKEN}": "hunter22"})
	if got, err := full.Expand(c.Items[0].Key); err != nil || got != "page[web,hunter22,hunter22]" {
		t.Errorf("key %s, error %v", got, err)
	}
	if _, err := m.Expand("{$TOKEN}"); err == nil {
		t.Error("the value of the agent is in the values of the Template")
	}
	if _, err := full.Expand("{$PIN}"); err == nil {
		t.Error("a secret without a value has one")
	}
}

// FuzzParseMacro parses random texts as macros, and expects no change after formatting and parsing.
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

// TestMacroFunctions expands macros with functions, and expects the same results as in Zabbix.
func TestMacroFunctions(t *testing.T) {
	m, err := NewMacroValues(map[string]string{"{$URL}": "https://a.example/x y", "{$LIST}": "one, Two;<3>", "{$N}": "12.3456", `{$N:"a"}`: "7", "{$LINES}": "a=1\nb=2",
		"{$ESCAPED}": "&lt;a href=&quot;x&#039;y&#39;&quot;&gt; &amp;lt; &nbsp;", "{$QUERY}": "a+b%2Fc%c3%a4%ff", "{$BROKEN}": "a+b%2", "{$PLUS}": "a+ü~"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`x{{$URL}.regsub("^https://([^/]+)", \1)}y`: "xa.exampley", `{{$LIST}.regsub("two","\0")}`: "", `{{$LIST}.iregsub("(two)","[\1]")}`: "[Two]", `{{$LINES}.regsub("^b=(.)$", "\1")}`: "2",
		`{{$N}.fmtnum(2)}`: "12.35", `{{$N:a}.fmtnum(2)}`: "7", `{{$LIST}.uppercase()}{{$LIST}.lowercase()}`: "ONE, TWO;<3>one, two;<3>", `{{$N:a}.btoa()}`: "Nw==", `{{$LIST}.htmlencode()}`: "one, Two;&lt;3&gt;",
		`{{$LIST}.regrepl("[a-z]+","<\0>",",","")}`: "<one> T<wo>;<3>", `{{$URL}.regsub("x","\")")}`: `")`, `{{$N}.fmtnum(2)`: "{12.3456.fmtnum(2)", "{{$N}}": "{12.3456}", `{{$URL}.urlencode()}`: "https%3A%2F%2Fa.example%2Fx%20y", `{{$PLUS}.urlencode()}`: "a%2B%C3%BC~",
		`{{$ESCAPED}.htmldecode()}`: `<a href="x'y'"> &lt; &nbsp;`, `{{$QUERY}.urldecode()}`: "a b/cä?", `{{$BROKEN}.urldecode()}`: "a+b%2",
		`{{$LIST}.tr("a-z","A-Z")}`: "ONE, TWO;<3>", `{{$LIST}.tr(oe,"01")}`: "0n1, Tw0;<3>", `{{$LIST}.tr("a-z",x)}`: "xxx, Txx;<3>", `{{$LIST}.tr("\\, -;",_)}`: "one__Two_<_>", `{{$LINES}.tr("\n-","|+")}`: "a=1|b=2",
		`{{$LIST}.tr("","x")}`: "one, Two;<3>", `{{$PLUS}.tr("\-a-",x)}`: "x+ü~", `{{$LIST}.tr("z-a",x)}`: "!the function tr of the macro {$LIST} has no result for the value \"one, Two;<3>\"",
		`{{$LIST}.tr(x)}`:     "!the function tr of the macro {$LIST} has no result for the value \"one, Two;<3>\"",
		`{{$LIST}.fmtnum(2)}`: "!the function fmtnum of the macro {$LIST} has no result for the value \"one, Two;<3>\"", `{{$N}.other()}`: "!the function other of the macro {$N} has no result for the value \"12.3456\"",
		`{{$N}.regsub(".{1000}","")}`: "!the function regsub of the macro {$N} has no result for the value \"12.3456\"", `{{$N}.regrepl(".{1000}","")}`: "!the function regrepl of the macro {$N} has no result for the value \"12.3456\"",
		`{{$N}.regsub("(")}`: "!the function regsub of the macro {$N} has no result for the value \"12.3456\"",
	} {
		got, err := m.Expand(text)
		if err != nil {
			got = "!" + err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if v, err := m.Value(`{{$N}.fmtnum(1)}`); err != nil || v != "12.3" {
		t.Errorf("value %q %v", v, err)
	}
	if names := MacroNames(`{{$N:"a"}.regsub("x","y")} {$Z}`); len(names) != 3 {
		t.Errorf("names %q", names)
	}
	m.markSecret("{$N}")
	if got, err := m.ExpandPublic(`{{$N}.fmtnum(1)}`); err != nil || got != `{{$N}.fmtnum(1)}` {
		t.Errorf("secret %q %v", got, err)
	}
}

// TestMacroFunctionFmttime formats times with the macro function fmttime, and expects the same results as in Zabbix.
func TestMacroFunctionFmttime(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	for _, c := range []struct {
		value  string
		params []string
		want   string // empty: no result
	}{
		{"1700000000", []string{"%Y-%m-%d %H:%M:%S %z"}, "2023-11-14 23:13:20 +0100"},
		{"1700000000 s", []string{"%A, %d. %B %y, %j, %e, %I %p, %%, %F %T"}, "Tuesday, 14. November 23, 318, 14, 11 PM, %, 2023-11-14 23:13:20"},
		{"1700000000", []string{"%F %T", "/d+1d"}, "2023-11-15 00:00:00"},
		{"1700000000", []string{"%F %T", "-1M/w"}, "2023-10-09 00:00:00"},
		{"1700000000", []string{"%F", "/y-1y"}, "2022-01-01"},
		{"2024-02-29T10:20:30", []string{"%d.%m.%Y %R", "-1y"}, "28.02.2023 10:20"},
		{"2024-02-29T10:20:30+05:00", []string{"%R", "+2h"}, "12:20"},
		{"2024-02-29T10:20:30Z", []string{"%s"}, "1709198430"},
		{"10:20:30", []string{"%H.%M"}, "10.20"},
		{"9:5:7", []string{"%T"}, "09:05:07"},
		{"0", []string{"%F"}, ""},
		{"soon", []string{"%F"}, ""},
		{"1700000000", []string{"%F", "1d"}, ""},
		{"1700000000", []string{"%F", "/m"}, ""},
		{"1700000000", []string{"%F", "+5"}, ""},
		{"1700000000", []string{""}, ""},
		{"1700000000", nil, ""},
	} {
		f := macroFunction{"fmttime", c.params}
		if got, ok := f.formatTime(c.value, zone); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s %q: %q %v, expected %q", c.value, c.params, got, ok, c.want)
		}
	}
}

// FuzzMacroFunction applies random functions to random values, and expects bounded results.
func FuzzMacroFunction(f *testing.F) {
	f.Add(`{{$A}.tr("a-z\n","\-")}`, "abc")
	f.Add(`{{$A}.fmttime("%F %T","/d-1h")}`, "2024-02-29T10:20:30+05:00")
	f.Add(`{{$A}.urldecode()}{{$A}.htmldecode()}`, "%41&amp;")
	f.Fuzz(func(t *testing.T, text, value string) {
		m, _ := NewMacroValues(map[string]string{"{$A}": value})
		calls := strings.Count(text, "{$")
		if out, err := m.Expand(text); err == nil && len(out) > len(text)+calls*(6*len(value)+maxMacroResult) {
			t.Fatalf("%q of %d bytes has %d bytes", text, len(value), len(out))
		}
	})
}

// FuzzInterval decodes random texts as intervals, and expects the same interval after another round.
func FuzzInterval(f *testing.F) {
	f.Add("90")
	f.Add("1h30m")
	f.Add("1m;h9")
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := ParseZabbixTime(text); ok && (d < 0 || d > MaxInterval) {
			t.Fatal(d)
		}
		var i, again Interval
		body, _ := json.Marshal(text)
		if i.UnmarshalJSON(body) != nil {
			return
		}
		body, _ = json.Marshal(i)
		if i != "" && (again.UnmarshalJSON(body) != nil || again != i) {
			t.Fatalf("%q: %q, then %q", text, i, again)
		}
	})
}
