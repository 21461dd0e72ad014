package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func run(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }}
	code = Main(t.Context(), env)
	return code, out.String(), errs.String()
}

func TestLintReportsEveryFlaw(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "kind: Check\nmetadata: {name: a}\nspec: {interval: 60, probe: {name: disk}}\n",
		"b.yaml": "kind: Check\nmetadata: {name: b}\nspec:\n  interval: 60s\n  probe: {name: dsk}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, stderr := run(t, "", "lint", dir)
	if code != 2 || !strings.Contains(stderr, "a.yaml:3:18: spec.interval: ") || !strings.Contains(stderr, "b.yaml:5:3: spec.probe: ") {
		t.Errorf("code %d:\n%s", code, stderr)
	}
	code, stdout, stderr := run(t, "kind: Check\nmetadata: {name: a}\nspec: {interval: 60s, probe: {name: disk}}\n", "lint", "-")
	if code != 0 || stdout != "1 resource, no errors\n" {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
}

// lint notes the kinds of Sensu once per file, with the page that explains them.
func TestLintNotesSensuKinds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "old.yaml")
	if err := os.WriteFile(path, []byte(`
kind: Filter
metadata: {name: twice}
spec: {action: allow, expressions: ["event.check.occurrences == 2"]}
---
kind: Pipeline
metadata: {name: alerts}
spec: {workflows: [{name: slack, filters: [is_incident, twice], handler: slack}]}
---
kind: Filter
metadata: {name: day}
spec: {action: deny, expressions: ["hour(event.timestamp) < 8"]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "", "lint", path)
	if want := "3 resources, no errors\n" + path + ": kept from Sensu: Filter, Pipeline. It works as before; Muster's own kind for notifications is Route (docs/sensu-filters.md)\n"; code != 0 || stdout != want {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	code, _, stderr = run(t, "kind: Filter\nmetadata: {name: a}\nspec:\n  action: allow\n  expressions: [\"event.check.status ==\"]\n", "lint", "-")
	if code != 2 || !strings.Contains(stderr, "spec.expressions[0]: the expression is wrong at line 1") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestExplainCommand(t *testing.T) {
	code, stdout, _ := run(t, "", "explain", "check.alert")
	if code != 0 || !strings.Contains(stdout, "  failAfter (whole number)\n") || !strings.HasPrefix(stdout, "check.spec.alert: mapping\n") {
		t.Errorf("code %d:\n%s", code, stdout)
	}
	code, _, stderr := run(t, "", "explain", "chek")
	if code == 0 || !strings.Contains(stderr, "did you mean checks?") {
		t.Errorf("code %d:\n%s", code, stderr)
	}
}
