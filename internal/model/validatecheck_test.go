package model

import (
	"strings"
	"testing"
)

// What is wrong with a check, and where.
func TestChecksAreLookedThrough(t *testing.T) {
	for yaml, want := range map[string]string{
		"command: 'mail-check'\n  stdin: |\n    hello\n    {{ .props.name }}": "",
		"probe: {name: load}\n  stdin: x":                                     "a probe reads no standard input",
		"command: 'true'\n  stdin: '{{ .name }}'":                             "spec.stdin: column 1",
		"command: 'true'\n  stdin: '(hidden)'":                                "spec.stdin: (hidden) stands for",
	} {
		list, err := DecodeResources("c", []byte("kind: Check\nmetadata: {name: c}\nspec:\n  interval: 60s\n  "+yaml+"\n"))
		if err == nil {
			err = Validate(&list[0].Resource)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}
