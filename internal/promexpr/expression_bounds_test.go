package promexpr

import (
	"strconv"
	"strings"
	"testing"
)

// TestLabelsDoNotGrow parses expressions that build labels from other labels, and expects errors if labels may
// grow too long.
func TestLabelsDoNotGrow(t *testing.T) {
	nest := func(expr, format string, n int) string {
		for i := range n {
			expr = strings.ReplaceAll(strings.ReplaceAll(format, "%d", strconv.Itoa(i)), "%s", expr)
		}
		return expr
	}
	for expr, want := range map[string]bool{
		`label_replace(up, "host", "$1", "instance", "(.*):.*")`:                             true,
		`label_join(up, "all", "/", "job", "instance", "node")`:                              true,
		`sum by (a) (rate(x[5m])) / on (a) group_left (b) y`:                                 true,
		nest("up", `label_replace(%s, "l%d", "$1", "instance", "(.*)")`, 30):                 true,
		nest("up", `label_replace(%s, "a", "$1", "a", "(.*)")`, 200):                         true,
		nest("up", `label_replace(%s, "a", "$1$1", "a", "(.*)")`, 20):                        false,
		nest("up", `(-label_replace(%s, ("a"), "${1}$1", ("a"), "(.*)"))`, 20):               false,
		nest("up", `label_join(%s, "a", "", "a", "a", "a")`, 10):                             false,
		nest("vector(1)", `sum by (a, l%d) (label_replace(%s, "l%d", "$1$1", "a", ""))`, 60): false,
		`x or ` + nest("up", `label_replace(%s, "a", "$1$1$1", "a", "(.*)")`, 20):            false,
		nest("up", `label_replace(%s, "l%d", "`+strings.Repeat("x", 2000)+`", "", "")`, 6):   false,
	} {
		if _, err := NewParser().ParseExpr(expr); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "times the length of a label") {
			t.Errorf("%.100s: %v", expr, err)
		}
	}
}

// TestRegularExpressionsAreBounded parses expressions and selectors with large regular expressions, and expects errors
// before their compilation.
func TestRegularExpressionsAreBounded(t *testing.T) {
	large, literals := strings.Repeat(".{1000}", 2000), strings.TrimSuffix(strings.Repeat("web-0001.example.com|", 700), "|")
	for expr, want := range map[string]bool{
		`up{node=~"` + literals + `"}`:                              true,
		`up{node=~"web.*", job!~".+(a|b){3}"} or {a=~"[a-z]{100}"}`: true,
		`label_replace(up, "a", "$1", "b", "([^:]+):.{100}")`:       true,
		`up{node="` + large + `"}`:                                  true, // no regular expression
		`up{node=~"` + large + `"}`:                                 false,
		`rate(up{job="x",node!~'` + large + `'}[5m])`:               false,
		"{node=~`" + large + "`}":                                   false,
		"{node=~ # a comment\n\"" + large + "\"}":                   false,
		`up{node=~"\x2e{1000}\x2e{1000}.{1000}` + large + `"}`:      false,
		`{` + strings.Repeat(`a=~"(..){1000}",`, 11) + `}`:          false,
		`label_replace(up, "a", "$1", "b", ("` + large + `"))`:      false,
		`max_over_time(up{a=~".{900}"}[5m:1m]) > ` + strings.Repeat("1 + ", 40) + `up{b=~"(.{10}){100}(.{100}){10}` + strings.Repeat("(.{10}){100}", 18) + `"}`: false,
	} {
		_, err := NewParser().ParseExpr(expr)
		bounded := err != nil && strings.Contains(err.Error(), "regular expressions have more than")
		if bounded == want {
			t.Errorf("%.100s: %v", expr, err)
		}
	}
	for selector, want := range map[string]bool{`up{node=~"web.*"}`: true, `{a="b",c=~"` + literals + `"}`: true, `up{a!~"` + large + `"}`: false} {
		_, one := NewParser().ParseMetricSelector(selector)
		_, several := NewParser().ParseMetricSelectors([]string{"up", selector})
		for _, err := range []error{one, several} {
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "regular expressions have more than") {
				t.Errorf("selector %.100s: %v", selector, err)
			}
		}
	}
}

// TestTemplatesAreBounded checks templates of alerts, and expects errors for templates that may need much time
// or memory.
func TestTemplatesAreBounded(t *testing.T) {
	for template, want := range map[string]string{
		"load {{ $value }} on {{ $labels.node }} {{ .Value }} {{ .Labels.job }}":                                                             "",
		"{{ $value | humanize }}, {{ printf \"%.2f\" $value }}%, {{ $value | printf \"%.1f\" | toUpper }}":                                   "",
		`{{ with query "up" }}{{ . | first | value | humanizePercentage }}{{ end }}`:                                                         "",
		`{{ with printf "up{job='%s'}" $labels.job | query }}{{ range . }}{{ .Labels.node }} {{ .Value }}{{ end }}{{ end }}`:                 "",
		`{{ range $i, $x := query "up" }}{{ if gt $i 2 }}{{ break }}{{ end }}{{ $x.Labels.node }}{{ end }}`:                                  "",
		`{{ range $name, $text := $labels }}{{ $name }}={{ $text }} {{ end }}{{ range .Labels }}{{ . }}{{ end }}`:                            "",
		`{{ $results := query "up" | sortByLabel "node" }}{{ range $results }}{{ . | label "node" | reReplaceAll "(.*):.*" "$1" }}{{ end }}`: "",
		`{{ $a := "x" }}{{ if gt $value 1000000000.0 }}{{ $a = "y" }}{{ end }}{{ $a }}`:                                                      "",
		`{{ invalid`: "",
		`{{ $a := $labels.job }}` + strings.Repeat(`{{ $a = print $a $a }}`, 20):                             "as long as a label",
		`{{ $a := $labels.job }}` + strings.Repeat(`{{ $a = $a | print $a }}`, 20):                           "as long as a label",
		strings.Repeat(`{{ with print . . }}`, 20) + strings.Repeat(`{{ end }}`, 20):                         "as long as a label",
		`{{ $a := "x" }}` + strings.Repeat(`{{ $a = printf "%s%[1]s" $a }}`, 20):                             "as long as a label",
		`{{ $a := "\"" }}` + strings.Repeat(`{{ $a = js $a }}`, 20):                                          "as long as a label",
		`{{ $labels.job | reReplaceAll "" "` + strings.Repeat("x", 5000) + `" | reReplaceAll "" "yyyyyy" }}`: "as long as a label",
		`{{ printf "%1000000d" 1 }}`:                                                                                               "long widths",
		`{{ printf "%*d" 1000000 1 }}`:                                                                                             "long widths",
		`{{ printf $labels.job 1 }}`:                                                                                               "format of printf",
		`{{ "%99d" | printf }}`:                                                                                                    "format of printf",
		`{{ reReplaceAll "a" $labels.job "a" }}`:                                                                                   "replacement of reReplaceAll",
		`{{ reReplaceAll $labels.job "x" "a" }}`:                                                                                   "regular expression of reReplaceAll",
		`{{ reReplaceAll "` + strings.Repeat("(.{1000})", 25) + `" "x" "a" }}`:                                                     "more than 20000 steps",
		`{{ range 1000000000 }}{{ end }}`:                                                                                          "a loop must iterate",
		`{{ $n := 1000000000 }}{{ range $n }}{{ end }}`:                                                                            "a loop must iterate",
		`{{ range $i := len "abc" }}{{ end }}`:                                                                                     "a loop must iterate",
		`{{ with toTime 1e18 }}{{ range .UnixNano }}{{ end }}{{ end }}`:                                                            "a loop must iterate",
		`{{ $q := query "x" }}{{ range $q }}{{ $q = 1000000000 }}{{ end }}`:                                                        "cannot change a variable",
		`{{ $q := query "x" }}{{ $q = 1000000000 }}{{ range $q }}{{ end }}`:                                                        "a loop must iterate",
		`{{ $n := 1000000000 }}{{ if false }}{{ $n := query "x" }}{{ end }}{{ range $n }}{{ end }}`:                                "a loop must iterate",
		`{{ $q := query "x" }}{{ if $q }}{{ $q := 1 }}{{ $q }}{{ end }}{{ range $q }}{{ end }}`:                                    "",
		`{{ range $x := query "x" }}{{ range $name, $text := $x.Labels }}{{ $text }}{{ end }}{{ end }}`:                            "",
		`{{ range $name, $text := (query "x" | first).Labels }}{{ $text }}{{ end }}`:                                               "",
		`{{ $a := "x" }}` + strings.Repeat(`{{ $a = print $a $a }}{{ range $a := query "x" }}{{ end }}`, 20):                       "as long as a label",
		`{{ $a := "x" }}` + strings.Repeat(`{{ $a = print $a $a }}{{ with $a := query "x" }}{{ $a := "y" }}{{ end }}`, 20):         "as long as a label",
		`{{ $a := "x" }}` + strings.Repeat(`{{ $a = print $a $a }}{{ if false }}{{ range $a = query "x" }}{{ end }}{{ end }}`, 20): "as long as a label",
		`{{ $a := "" }}{{ range $labels }}{{ $a = print $a $a "x" }}{{ end }}`:                                                     "cannot change a variable",
		strings.Repeat(`{{ range query "x" }}`, 3) + strings.Repeat(`{{ end }}`, 3):                                                "nested loops",
		`{{ define "a" }}{{ template "b" }}{{ end }}`:                                                                              "not supported",
		`{{ template "a" }}`:          "not supported",
		`{{ block "a" . }}x{{ end }}`: "not supported",
	} {
		err := CheckTemplate(template)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %q", template, err, want)
		}
	}
}

// FuzzTexts checks random texts as templates and as expressions, and expects that none panics.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{`{{ $value | humanize }}`, `{{ range query "up" }}{{ .Labels.node }}{{ else }}{{ end }}`, `{{ with print . }}{{ (index . 0).X.Y }}{{ end }}`, `label_replace(up, "a", "$1$1", "a", "(.*)")`} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		_ = CheckTemplate(text)
		_, _ = NewParser().ParseExpr(text)
		_, _ = NewParser().ParseMetricSelector(text)
		_, _ = NewParser().ParseMetricSelectors([]string{text, "up"})
	})
}
