package body

import (
	"strings"
	"testing"
)

const note = `{"kind":"opened","labels":{"env":"prod","team":"ops"},"output":"disk 97% full\nmore","count":3,"summary":"CRITICAL: disk on \"web01\""}`

func TestTemplateIsBounded(t *testing.T) {
	for _, c := range []struct{ template, want, wrong string }{
		{`{"text":{{ json .summary }}}`, `{"text":"CRITICAL: disk on \"web01\""}`, ""},
		{`{{ range $k, $v := .labels }}{{ $k }}={{ $v }};{{ end }}`, "env=prod;team=ops;", ""},
		{`{{ line .output }}|{{ cut 12 .output }}|{{ .nobody }}|`, "disk 97% full more|dis… (cut)||", ""},
		{`{{ if eq .kind "opened" }}yes{{ else }}no{{ end }}`, "yes", ""},
		{"{{ .kind", "", "unclosed action"},
		{"{{ kind }}", "", `function "kind" not defined`},
		{`{{ define "x" }}{{ template "x" }}{{ end }}`, "", "define and block"},
		{`{{ template "template" }}`, "", "template is not supported"},
		{"{{ range 1000000000 }}{{ end }}", "", "a loop needs a field"},
		{"{{ with .labels }}{{ range 5 }}x{{ end }}{{ end }}", "", "a loop needs a field"},
		{"{{ range .labels }}{{ range .labels }}{{ range .labels }}{{ end }}{{ end }}{{ end }}", "", "more than 2 nested loops"},
		{strings.Repeat("x", maxTemplate+1), "", "at most 65536"},
		{"{{ range .count }}x{{ end }}", "", "range"}, // a number is no list, at any time
		{"{{ range .labels }}" + strings.Repeat(`{{ printf "%100000d" 1 }}`, 6) + "{{ end }}", "", "more than 1048576 bytes"},
	} {
		err := Check(c.template)
		var got []byte
		if err == nil {
			got, err = Render(c.template, []byte(note))
		}
		if c.wrong == "" && (err != nil || string(got) != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%.60s: %q, %v; want %q %q", c.template, got, err, c.want, c.wrong)
		}
	}
}

// FuzzRender renders any template: it ends within its bounds.
func FuzzRender(f *testing.F) {
	for _, s := range []string{`{{ json .summary }}`, "{{ range .labels }}{{ . }}{{ end }}", "{{ with .labels }}{{ .env }}{{ end }}", "{{ cut 12 .output }}{{ line .output }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if Check(text) != nil {
			return
		}
		if got, err := Render(text, []byte(note)); err == nil && len(got) > maxRendered {
			t.Errorf("%d bytes", len(got))
		}
	})
}
