package where

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestIndexTermsAreExtractedFromConditions extracts index terms (such as required labels) from conditions, and
// expects the terms of a table.
func TestIndexTermsAreExtractedFromConditions(t *testing.T) {
	prod, web, env := IndexTerm{Label, "env", "prod"}, IndexTerm{Group, "", "web"}, IndexTerm{Of: HasLabel, Key: "env"}
	whole := map[string][]IndexTerm{
		`node.labels.env == "prod"`:                               {prod},
		`"prod" == node.labels["env"]`:                            {prod},
		`node.name == "web1" && ("web" in node.groups)`:           {{Name, "", "web1"}, web},
		`node.facts.os == "linux" && node.labels.env == "prod"`:   {{Fact, "os", "linux"}, prod},
		`"env" in node.labels && has(node.labels.env)`:            {env, env},
		`(node.labels.env == "prod" && "web" in node.groups)`:     {prod, web},
		`node.labels["a b"] == "prod" && node.facts["os"] == "x"`: {{Label, "a b", "prod"}, {Fact, "os", "x"}},
	}
	for expr, want := range map[string][]IndexTerm{
		`has(node.labels.env) && node.labels.env == "prod" && true`: {env, prod},
		`node.labels.env == "prod" || node.name == "web1"`:          nil,
		`!(node.labels.env == "prod")`:                              nil,
		`node.labels.env != "prod"`:                                 nil,
		`node.labels.env == ""`:                                     nil,
		`"" in node.groups`:                                         nil,
		`node.labels.env == node.name`:                              nil,
		`has(node.facts.env)`:                                       nil,
		`"os" in node.facts`:                                        nil,
		`node.labels[node.name] == "prod"`:                          nil,
		`["prod"].exists(v, node.labels.env == v)`:                  nil,
		`node.labels.env == "prod" ? "web" in node.groups : false`:  nil,
		`(node.labels.env == "prod") == ("web" in node.groups)`:     nil,
		`node.namespace == "team" && node.name.startsWith("db")`:    nil,
		`node.labels.env == "prod" && int(node.labels.cpus) > 4`:    {prod},
		`int(node.labels.cpus) > 4 && !("web" in node.groups)`:      nil,
		`"web" in node.groups && node.labels.env in ["prod", "qa"]`: {web},
	} {
		c, err := Compile(expr)
		testenv.NoError(t, err)
		if got := c.IndexTerms(); !slices.Equal(got, want) || c.compiled.onlyNeeds {
			t.Errorf("%s needs %v (and nothing else: %v), want %v", expr, got, c.compiled.onlyNeeds, want)
		}
	}
	for expr, want := range whole {
		c, err := Compile(expr)
		testenv.NoError(t, err)
		if got := c.IndexTerms(); !slices.Equal(got, want) || !c.compiled.onlyNeeds {
			t.Errorf("%s needs %v (and nothing else: %v), want %v", expr, got, c.compiled.onlyNeeds, want)
		}
	}
}

// TestIndexTermsMatchSameNodesAsProgram compares matches by index terms with full evaluations on random nodes.
func TestIndexTermsMatchSameNodesAsProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom([]string{"a", "b", "", "web1"})
		keys := rapid.SampledFrom([]string{"a", "b", "c"})
		term := rapid.Custom(func(t *rapid.T) string {
			key, word := keys.Draw(t, "key"), words.Draw(t, "word")
			return rapid.SampledFrom([]string{
				fmt.Sprintf("node.labels.%s == %q", key, word), fmt.Sprintf("%q == node.labels[%q]", word, key), fmt.Sprintf("node.facts.%s == %q", key, word),
				fmt.Sprintf("%q in node.labels", key), fmt.Sprintf("has(node.labels.%s)", key), fmt.Sprintf("%q in node.groups", word),
				fmt.Sprintf("node.name == %q", word), fmt.Sprintf("node.labels.%s != %q", key, word), fmt.Sprintf("[1][int(node.labels.%s)] == 1", key),
			}).Draw(t, "term")
		})
		expr := strings.Join(rapid.SliceOfN(term, 1, 3).Draw(t, "terms"), rapid.SampledFrom([]string{" && ", " && ", " || "}).Draw(t, "join"))
		c, err := Compile(expr)
		testenv.NoError(t, err)
		pairs := rapid.MapOf(keys, words)
		n := NewNode()
		n.Set("default", words.Draw(t, "name"), MakePairs(pairs.Draw(t, "labels")), MakePairs(pairs.Draw(t, "facts")))
		n.SetGroups(rapid.SliceOf(words).Draw(t, "groups"))
		holds := evaluateProgram(t, expr, n)
		if c.Match(n) != holds {
			t.Fatalf("%s: matches %v, the program says %v", expr, c.Match(n), holds)
		}
		for _, need := range c.IndexTerms() {
			if holds && !n.satisfies(need) {
				t.Fatalf("%s holds without %v", expr, need)
			}
		}
	})
}

// evaluateProgram evaluates a condition fully by its CEL program, for comparison with a match by index terms.
func evaluateProgram(t interface {
	Helper()
	Fatal(...any)
}, expr string, n *Node) bool {
	c, err := nodeConditions.Compile(expr)
	testenv.NoError(t, err)
	return c.Evaluate(n)
}

// TestEqualTextsShareOneCondition compiles equal texts, and expects one compiled condition in memory for all.
// The same holds after other conditions were freed.
func TestEqualTextsShareOneCondition(t *testing.T) {
	const expr = `node.labels.env == "prod" && node.name == "web1"`
	first, err := Compile(expr)
	testenv.NoError(t, err)
	for range 3 {
		if again, err := Compile(expr); err != nil || again != first {
			t.Errorf("the condition was compiled once more (%v)", err)
		}
		runtime.GC() // frees unused conditions
	}
	runtime.KeepAlive(first)
}
