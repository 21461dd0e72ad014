package where

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// webNode returns a test node with labels, facts and groups.
func webNode() *Node {
	n := NewNode()
	n.Set("default", "web01",
		MakePairs(map[string]string{"env": "prod", "tier": "front", "app.kubernetes.io/name": "shop"}),
		MakePairs(map[string]string{"os": "linux", "cpus": "8"}))
	n.SetGroups([]string{"web", "eu"})
	return n
}

// TestConditionMatchesNode evaluates conditions on a test node, and expects the results of CEL. The conditions read
// labels, facts, groups and names.
func TestConditionMatchesNode(t *testing.T) {
	for expr, want := range map[string]bool{
		`node.labels.env == "prod"`:                               true,
		`node.labels["app.kubernetes.io/name"] == "shop"`:         true,
		`node.labels.env != "prod"`:                               false,
		`node.labels.absent == ""`:                                true,
		`node.labels.absent != "prod"`:                            true,
		`has(node.labels.absent)`:                                 false,
		`has(node.labels.env) && !has(node.facts.env)`:            true,
		`"env" in node.labels`:                                    true,
		`"absent" in node.labels`:                                 false,
		`node.name.startsWith("web") && node.facts.os == "linux"`: true,
		`node.namespace == "default"`:                             true,
		`"web" in node.groups`:                                    true,
		`"db" in node.groups`:                                     false,
		`int(node.facts.cpus) >= 8`:                               true,
		`int(node.facts.absent) >= 8`:                             false, // an error is no match
		`double(node.facts.cpus) > 7.5`:                           true,
		`node.facts.os > "aix"`:                                   true, // strings are ordered
		`int(node.facts.absent) >= 8 || node.facts.os == "linux"`: true,
		`node.labels.exists(k, k.startsWith("app."))`:             true,
		`size(node.labels) == 3`:                                  true,
		`node.name.matches("^web[0-9]+$")`:                        true,
		`node.facts == {"os": "linux", "cpus": "8"}`:              true,
		`node.labels == node.facts`:                               false,
	} {
		w, err := Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got := w.Match(webNode()); got != want {
			t.Errorf("%s = %v, want %v", expr, got, want)
		}
	}
}

// TestWrongConditionNamesColumnAndHint compiles wrong conditions, and expects errors with the column and a correction.
func TestWrongConditionNamesColumnAndHint(t *testing.T) {
	for expr, want := range map[string]string{
		``:                       "empty",
		`node.labels.env`:        "is a string",
		`node.labels.env == 5`:   "column 17",
		`node.lables.env == "x"`: "node.labels",
		`host == "x"`:            "column 1",
		`node.facts.cpus > 4`:    "int(node.facts.cpus) > 4",
		`node.facts.cpus == 4`:   "int(node.facts.cpus) > 4",
		`node.facts.cpus > "4"`:  "int(…) on one side and 4",
		`"12.4" <= node.facts["distributionVersion"]`: "double(…) on one side",
		`node.labels.env = "x"`:                       "column 17",
		strings.Repeat("a", 5000):                     "4096",
		`node.name.matches(".{1000}")`:                "column 19",
		`node.name.matches(node.labels.env)`:          "computed",
		`node.labels.all(a, node.labels.all(b, node.labels.all(c, node.labels.all(d, a+b+c+d != ""))))`: "steps",
	} {
		_, err := Compile(expr)
		if err == nil {
			t.Errorf("%.40s: accepted", expr)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v\nwants %q", expr, err, want)
		}
	}
}

// TestReadsGroupsReportsGroupConditions expects ReadsGroups to find exactly the conditions with node.groups.
func TestReadsGroupsReportsGroupConditions(t *testing.T) {
	for expr, want := range map[string]bool{`"a" in node.groups`: true, `node.name == "node.groups"`: false} {
		if w, err := Compile(expr); err != nil || w.ReadsGroups() != want {
			t.Errorf("%s: %v, %v", expr, w, err)
		}
	}
}

// BenchmarkWhere measures the evaluation of a where condition on a node.
func BenchmarkWhere(b *testing.B) {
	w, err := Compile(`node.labels.env == "prod" && node.facts.os == "linux"`)
	testenv.NoError(b, err)
	c := webNode()
	b.ReportAllocs()
	for b.Loop() {
		if !w.Match(c) {
			b.Fatal("no match")
		}
	}
}

// FuzzCompile compiles random texts as conditions, and expects an error or a usable condition. An error has a reason.
func FuzzCompile(f *testing.F) {
	for _, expr := range []string{
		``, `true`, `node.labels.env == "prod"`, `"web" in node.groups && node.facts.os != ""`, `node.labels.exists(k, k == "a")`,
		`has(node.labels.x) ? node.name.startsWith("a") : false`, `[1, 2][5] == 1`, `node.labels == {}`, `node`, `((((`, "\x00", `1 / 0 == 1`,
	} {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		w, err := Compile(expr)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		if w.Match(webNode()) != evaluateProgram(t, w.Expr, webNode()) {
			t.Errorf("%s: the needs and the program of the condition do not agree", expr)
		}
	})
}
