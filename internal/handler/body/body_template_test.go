package body

import (
	"context"
	"strings"
	"testing"
)

const note = `{"kind":"opened","labels":{"env":"prod","team":"ops"},"output":"disk 97% full\nmore","count":3,"summary":"CRITICAL: disk on \"web01\""}`

// TestTemplateIsBounded renders webhook templates with functions, loops and long outputs, and expects an end
// within the limits. The limits are for time and size.
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
		{"{{ range 1000000000 }}{{ end }}", "", "must iterate over a field"},
		{"{{ with .labels }}{{ range 5 }}x{{ end }}{{ end }}", "", "must iterate over a field"},
		{"{{ range .labels }}{{ range .labels }}{{ range .labels }}{{ end }}{{ end }}{{ end }}", "", "more than 2 nested loops"},
		{strings.Repeat("x", maxTemplate+1), "", "the limit is 65536"},
		{"{{ range .count }}x{{ end }}", "", "range"}, // a number is no list, at any time
		{"{{ range .labels }}" + strings.Repeat(`{{ printf "%100000d" 1 }}`, 6) + "{{ end }}", "", "more than 1048576 bytes"},
		{"{{ $a := .output }}" + strings.Repeat(`{{ $a = print $a $a }}`, 30), "", "more than 4194304 bytes of text"},
		{"{{ $a := .output }}" + strings.Repeat(`{{ $a = print $a $a }}`, 15) + strings.Repeat("{{ print"+strings.Repeat(" $a", 1000)+"}}", 9), "", "bytes of text"},
		{"{{ $a := print .output }}" + strings.Repeat(`{{ $a = printf "%s%[1]s" $a }}`, 30), "", "bytes of text"},
		{`{{ $a := printf "` + strings.Repeat(`%999999[1]d`, 5000) + `" 1 }}`, "", "bytes of text"},
		{`{{ $a := printf "%s" .output }}{{ $a = printf "` + strings.Repeat(`%999999[1]s`, 5000) + `" $a }}`, "", "bytes of text"},
		{"{{ $a := html .output }}" + strings.Repeat(`{{ $a = html $a "<" $a }}`, 30), "", "bytes of text"},
		{"{{ $a := .output }}" + strings.Repeat(`{{ $a = json (print $a $a) }}`, 30), "", "bytes of text"},
		{`{{ printf "%-6s|%5.1f|%q|%*d" .kind 1.25 .summary 3 4 }}`, `opened|  1.2|"CRITICAL: disk on \"web01\""|%!(BADWIDTH)4`, ""},
		{`{{ print 1 2 "a" "b" }}`, `1 2ab`, ""},
	} {
		err := CheckTemplate(c.template)
		var got []byte
		if err == nil {
			got, err = Render(t.Context(), c.template, []byte(note))
		}
		if c.wrong == "" && (err != nil || string(got) != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%.60s: %q, %v; want %q %q", c.template, got, err, c.want, c.wrong)
		}
	}
}

// FuzzRender renders random templates and expects that each ends within the limits of time and size.
func FuzzRender(f *testing.F) {
	for _, s := range []string{`{{ json .summary }}`, "{{ range .labels }}{{ . }}{{ end }}", "{{ with .labels }}{{ .env }}{{ end }}", "{{ cut 12 .output }}{{ line .output }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if CheckTemplate(text) != nil {
			return
		}
		if got, err := Render(t.Context(), text, []byte(note)); err == nil && len(got) > maxRendered {
			t.Errorf("%d bytes", len(got))
		}
	})
}

// TestRenderingEndsInTime renders a template with a long loop without output, and expects an error at the time
// limit.
func TestRenderingEndsInTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Render(ctx, "{{ range .labels }}{{ $x := 1 }}{{ end }}", []byte(note))
	if err == nil || !strings.Contains(err.Error(), "longer than 1s") {
		t.Error(err)
	}
}
