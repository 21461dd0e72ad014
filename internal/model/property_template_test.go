package model

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/testenv"
)

// testProperties returns a PropertyValues function that looks up properties in a map. The property "conflicting" gives
// an error about two contradictory values.
func testProperties(m map[string]string) PropertyValues {
	return func(name string) ([]byte, string, bool) {
		if name == "conflicting" {
			return nil, "groups web and db set it to different values", true
		}
		v, ok := m[name]
		return []byte(v), "", ok
	}
}

// TestTemplateExpand expands templates with JSON values of each type, with and without shell quoting, and
// compares the results.
func TestTemplateExpand(t *testing.T) {
	values := testProperties(map[string]string{
		"warn": `"20%"`, "n": `15`, "yes": `true`, "list": `[1, "a"]`, "null": `null`,
		"disk": `{"warn": "5%", "deep": {"x": 1.5}}`, "evil": `"$(id) 'x' \"y\" \\"`, "a-b": `"c"`,
	})
	for _, c := range []struct {
		in, want string
		shell    bool
	}{
		{in: "plain", want: "plain"},
		{in: "", want: ""},
		{in: `-w {{ .props.warn }}`, want: `-w 20%`},
		{in: `-w {{.props.warn|default "1%"}} -x`, want: `-w 20% -x`},
		{in: `{{ .props.none | default "y" }}`, want: `y`},
		{in: "{{ .props.none | default `a\"b` }}", want: `a"b`},
		{in: `{{ .props.none | default 5 }}{{ .props.null | default -1.5 }}`, want: `5-1.5`},
		{in: `{{ .props.n }} {{ .props.yes }} {{ .props.list }} {{ .props.a-b }}`, want: `15 true [1,"a"] c`},
		{in: `{{ .props.disk.warn }} {{ .props.disk.deep.x }} {{ .props.disk.none | default "d" }}`, want: `5% 1.5 d`},
		{in: `docker ps --format {{ "{{" }}.Names}}`, want: `docker ps --format {{.Names}}`},
		{in: `a {{ .props.warn }}`, shell: true, want: `a '20%'`},
		{in: `a "x {{ .props.evil }}"`, shell: true, want: `a "x \$(id) 'x' \"y\" \\"`},
		{in: `a 'x {{ .props.evil }}'`, shell: true, want: `a 'x $(id) '\''x'\'' "y" \'`},
		{in: `a {{ .props.evil }}`, shell: true, want: `a '$(id) '\''x'\'' "y" \'`},
		{in: `a $(hostname) {{ .props.n }}`, shell: true, want: `a $(hostname) '15'`},
		{in: "a # don't\nb {{ .props.n }}", shell: true, want: "a # don't\nb '15'"},
		{in: "a \\\n b {{ .props.n }}", shell: true, want: "a \\\n b '15'"},
	} {
		p, err := ParseTemplate(c.in, c.shell)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got, err := p.Expand(values); err != nil || got != c.want {
			t.Errorf("%s\n got %s (%v)\nwant %s", c.in, got, err, c.want)
		}
	}
}

// TestMissingPropertiesAreErrors expands templates with missing and conflicting properties, and expects errors
// with the reason.
func TestMissingPropertiesAreErrors(t *testing.T) {
	values := testProperties(map[string]string{"n": "1", "null": "null"})
	for in, want := range map[string]string{
		`{{ .props.gone }}`:                      `property "gone" is not set and has no default`,
		`{{ .props.null }}`:                      `property "null" is not set and has no default`,
		`{{ .props.conflicting | default "x" }}`: `property "conflicting" has no value here: groups web and db set it to different values`,
		`{{ .props.n.x }}`:                       `property "n.x" cannot be read: the value above "x" is not a JSON object`,
		`{{ .props.gone.x.y }} {{.props.n}}`:     `property "gone.x.y" is not set and has no default`,
	} {
		p, err := ParseTemplate(in, false)
		testenv.NoError(t, err)
		_, err = p.Expand(values)
		var missing *MissingError
		if !errors.As(err, &missing) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

// TestMethodsReadFacts expands the text of a method with facts, and expects their values. An unknown fact and a fact
// outside of methods are errors.
func TestMethodsReadFacts(t *testing.T) {
	facts := map[string]string{"distributionName": "Debian's 12"}
	values, err := (&DirectiveDefinition{}).Lookup(testProperties(nil), nil, func(name string) (string, bool) {
		text, ok := facts[name]
		return text, ok
	})
	testenv.NoError(t, err)
	p, err := ParseMethodTemplate(`echo {{ .facts.distributionName }}`, true)
	testenv.NoError(t, err)
	if got, err := p.Expand(values); err != nil || got != `echo 'Debian'\''s 12'` {
		t.Errorf("got %s (%v)", got, err)
	}
	p, err = ParseMethodTemplate(`{{ .facts.gone }}`, false)
	testenv.NoError(t, err)
	if _, err := p.Expand(values); err == nil || err.Error() != `the fact "gone" is not known on this node` {
		t.Errorf("unknown fact: %v", err)
	}
	if _, err := ParseTemplate(`{{ .facts.os }}`, false); err == nil {
		t.Error("a check may read a fact")
	}
	for method, want := range map[string]string{`{{ .facts.anything }}`: "", `{{ .props.gone }}`: `component a: path: property "gone" is not set and has no default`} {
		d := DirectiveDefinition{Components: []Component{{Name: "a", Method: "filePresent", Arguments: []byte(`{"path": "/` + method + `"}`)}}}
		if err := d.ExpandAll(testProperties(nil)); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
			t.Errorf("%s: %v, want %q", method, err, want)
		}
	}
}

// TestTemplateErrors parses wrong templates, and expects errors with column and reason.
func TestTemplateErrors(t *testing.T) {
	for _, c := range []struct {
		in     string
		column int
		reason string
	}{
		{`ab {{ .labels.x }}`, 4, "the only variable is"},
		{`{{ .props. }}`, 11, "name of a property"},
		{`{{ .props.a | upper }}`, 15, "only default"},
		{`{{ .props.a | default x }}`, 23, "in quotes"},
		{`{{ .props.a | default "x }}`, 23, "in quotes"},
		{`{{ .props.a`, 12, "expected }} here"},
		{`{{ .props.a }`, 13, "expected }} here"},
		{`{{`, 1, "the only variable is"},
		{"a `b` {{ .props.a }}", 7, "backquotes"},
		{`a $(b {{ .props.a }})`, 7, "inside $("},
		{`a "$(b "x") {{ .props.a }}"`, 13, "$(…) with quotes"},
		{`a "$(case x in x) echo {{ .props.a }};; esac)"`, 24, "$(case"},
		{`echo $[1+1] {{ .props.a }}`, 13, "$[…]"},
		{`echo "$[1+1] {{ .props.a }}"`, 14, "$[…]"},
		{`((x)) && echo {{ .props.a }}`, 15, "((…))"},
		{`[[ 1 -eq {{ .props.a }} ]]`, 10, "[[…]]"},
		{`cat <#{{ .props.a }}`, 7, "comment"},
		{"cat <<END\n{{ .props.a }}\nEND", 11, "here document"},
		{`a $'\'' {{ .props.a }}`, 9, "$'"},
		{`a \{{ .props.a }}`, 4, "backslash"},
		{`a ${{ .props.a }}`, 4, "follow $"},
		{`a # {{ .props.a }}`, 5, "comment"},
		{`a ${x:-1} {{ .props.a }}`, 11, "${…}"},
	} {
		_, err := ParseTemplate(c.in, true)
		var wrong *TemplateError
		if !errors.As(err, &wrong) || wrong.Column != c.column || !strings.Contains(wrong.Reason, c.reason) {
			t.Errorf("%s: got %v, want column %d: …%s…", c.in, err, c.column, c.reason)
		}
	}
}

// TestCommandTemplate expands a command, its environment and standard input with property values, and compares the
// results.
func TestCommandTemplate(t *testing.T) {
	tmpl, err := TemplateTexts{
		Command: &Command{Argv: []string{"x", "{{ .props.b }}", "{{ .props.a }}"}},
		Env:     map[string]string{"HOME": "/h/{{ .props.a }}"}, RunAs: `{{ .props.user | default "nobody" }}`,
		Stdin: "{{ .props.c }}\n",
	}.Parse()
	testenv.NoError(t, err)
	if got := strings.Join(tmpl.Names(), " "); got != "a b c user" {
		t.Errorf("names: %s", got)
	}
	out, err := tmpl.Expand(testProperties(map[string]string{"a": `"1 2"`, "b": `"$x"`, "c": "7"}))
	if err != nil || out.Argv[1] != "$x" || out.Argv[2] != "1 2" || out.Env["HOME"] != "/h/1 2" || out.RunAs != "nobody" || out.Stdin != "7\n" {
		t.Errorf("got %+v, %v", out, err)
	}
	_, err = TemplateTexts{Probe: &Probe{Name: "disk", Args: map[string]string{"path": "{{ x }}"}}, Env: map[string]string{"A": "{{"}}.Parse()
	if err == nil || !strings.Contains(err.Error(), "probe.args.path, column 1") || !strings.Contains(err.Error(), "env.A, column 1") {
		t.Errorf("got %v", err)
	}
}

// TestShellQuoting runs shell lines with random property values, and expects the shell to see plain text. It
// tries every position that the parser accepts.
func TestShellQuoting(t *testing.T) {
	if _, err := exec.LookPath("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	templates := []string{
		"printf '%s' {{ .props.v }}", `printf '%s' "{{ .props.v }}"`, `printf '%s' '{{ .props.v }}'`,
		"true $(true) # it's\nprintf '%s' \\\n\"\"{{ .props.v }}''",
	}
	checks := 100
	if testing.Short() {
		checks = 20
	}
	seen := 0
	rapid.Check(t, func(r *rapid.T) {
		if seen++; seen > checks {
			return
		}
		value := rapid.StringOf(rapid.SampledFrom([]rune("a $`'\"\\(){};&|<>#!~*\n\t=-é"))).Draw(r, "value")
		p, err := ParseTemplate(templates[rapid.IntRange(0, len(templates)-1).Draw(r, "template")], true)
		testenv.NoError(r, err)
		line, err := p.Expand(func(string) ([]byte, string, bool) { return jsonString(value), "", true })
		testenv.NoError(r, err)
		got, err := exec.Command("/bin/sh", "-c", line).Output()
		if err != nil || string(got) != value {
			r.Fatalf("line %q: got %q (%v), want %q", line, got, err, value)
		}
	})
}

// jsonString encodes a text as a JSON string.
func jsonString(s string) []byte {
	b, _ := Command{Shell: s}.MarshalJSON()
	return b
}

// FuzzParseTemplate parses random templates, and expects an error with its column, or a usable template. A usable
// template can be expanded. It may be for a shell.
func FuzzParseTemplate(f *testing.F) {
	for _, s := range []string{"", "a {{ .props.x }}", `{{ .props.x | default "y" }}`, `"{{ .props.x.y }}" $(a) # b`, "{{", `{{ "{{" }}`} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, shell bool) {
		p, err := ParseTemplate(text, shell)
		if err != nil {
			var wrong *TemplateError
			if !errors.As(err, &wrong) || wrong.Column < 1 || wrong.Column > len(text)+1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		if !strings.Contains(text, "{{") {
			if got, err := p.Expand(nil); err != nil || got != text {
				t.Fatalf("text without variables changed: %q", got)
			}
		}
		if _, err := p.Expand(func(string) ([]byte, string, bool) { return []byte(`"v"`), "", true }); err != nil {
			var missing *MissingError
			if !errors.As(err, &missing) {
				t.Fatal(err)
			}
		}
	})
}
