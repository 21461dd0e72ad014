package model

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// sensuEntity is the entity of the template tests, with a redacted label.
const sensuEntity = `{"name":"Web-01","namespace":"default","entity_class":"agent",
	"labels":{"warn":"80","empty":"","both":"label","a-b":"dash"},
	"annotations":{"both":"annotation","runbook/url":"https://example.com"},
	"subscriptions":["linux","entity:Web-01"],"system":{"os":"linux","network":{"interfaces":[{"name":"lo"},{"name":"eth0"}]}}}`

// redactedEntity is an entity with a redacted label.
const redactedEntity = `{"labels":{"password":"REDACTED","other":"x"}}`

// expandSensu parses a text with Sensu's tokens, and expands the tokens for a test entity. On failure it returns the
// error text.
func expandSensu(entity, text string) string {
	t, err := ParseSensuTemplate(text)
	if err == nil {
		text, err = t.Expand(func(name string) ([]byte, string, bool) { return []byte(entity), "", name == EntityProperty })
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

// sensuTokenExamples returns texts with Sensu's tokens and their expansion by sensu-agent 6.9.2. The entity is
// sensuEntity. The value is "error" if that agent refuses the text.
func sensuTokenExamples(t testing.TB) (examples map[string]string) {
	t.Helper()
	if err := json.Unmarshal(testenv.Value(os.ReadFile("testdata/sensu-tokens.json"))(t), &examples); err != nil {
		t.Fatal(err)
	}
	return examples
}

// TestTokensOfSensuExpand expands texts with Sensu's tokens, and expects the same results as from Sensu's own agent.
// TestSensuAgentAgreesOnTokens compares the same texts with a real agent.
func TestTokensOfSensuExpand(t *testing.T) {
	for text, want := range sensuTokenExamples(t) {
		if got := expandSensu(sensuEntity, text); got != want && !(strings.HasPrefix(want, "error") && strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`{{ .labels.password }}`:                   "error: token .labels.password reads a value",
		`{{ index .labels "password" }}`:           "error: token .labels.password reads a value",
		`{{ with .labels }}{{ .password }}{{end}}`: "error: token .labels.password reads a value",
		`{{ .labels.warn-x }}`:                     "error: bad character U+002D '-'",
		`{{ foo }}`:                                `error: function "foo" not defined`,
		`{{ if`:                                    "error: ",
	} {
		if got := expandSensu(redactedEntity, text); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestThresholdTokensExpand expands Sensu's tokens in thresholds, and expects numbers. A token whose value is not a
// number is an error.
func TestThresholdTokensExpand(t *testing.T) {
	lowest := 1.5
	c := &CheckDefinition{Sensu: true, Command: &Command{Shell: "x"}, Metrics: &Metrics{Format: "nagios", Tags: map[string]string{"host": "{{ .name }}"}},
		Thresholds: []Threshold{{Metric: "load", Critical: &Bounds{Min: &lowest, MaxToken: "{{ .labels.warn }}"}}}}
	values := func(string) ([]byte, string, bool) { return json.RawMessage(sensuEntity), "", true }
	template, err := c.Template()
	if err != nil {
		t.Fatal(err)
	}
	got, err := template.Expand(values)
	if err != nil || *got.Thresholds[0].Critical.Min != 1.5 || *got.Thresholds[0].Critical.Max != 80 || got.Tags["host"] != "Web-01" {
		t.Errorf("%+v, %v", got, err)
	}
	c.Thresholds[0].Critical.MaxToken = "{{ .labels.both }}"
	template, err = c.Template()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = template.Expand(values); err == nil || !strings.Contains(err.Error(), "is no number on this node") {
		t.Error(err)
	}
}

// FuzzParseSensuTemplate parses random texts and expects no panic, and that a text without braces expands to itself
func FuzzParseSensuTemplate(f *testing.F) {
	for text := range sensuTokenExamples(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := ParseSensuTemplate(text)
		if err != nil || strings.Contains(text, "{{") {
			return
		}
		if got, err := parsed.Expand(nil); err != nil || got != text {
			t.Errorf("%q, %v", got, err)
		}
	})
}
