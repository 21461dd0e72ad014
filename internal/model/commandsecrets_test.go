package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestSecretsOfMutators(t *testing.T) {
	command := &Command{Shell: "mutate"}
	for name, c := range map[string]struct {
		spec MutatorSpec
		want string // in the error; empty: it is right
	}{
		"of a command":  {MutatorSpec{Command: command, Secrets: []CommandSecret{{"KEY", "a"}, {"OTHER", "shared/b"}}}, ""},
		"of another":    {MutatorSpec{Command: command, Secrets: []CommandSecret{{"KEY", "team/a"}}}, "spec.secrets[0].secret"},
		"in env too":    {MutatorSpec{Command: command, Env: map[string]string{"KEY": "x"}, Secrets: []CommandSecret{{"KEY", "a"}}}, "KEY is set twice"},
		"of javascript": {MutatorSpec{Javascript: "return 1", Secrets: []CommandSecret{{"KEY", "a"}}}, "JavaScript reads no environment"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(&Resource{APIVersion: APIVersion, Kind: "Mutator", Metadata: Metadata{Name: "m", Namespace: "default"}, Spec: &c.spec})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	spec := &MutatorSpec{Command: command, Assets: []string{"tools"}, Env: map[string]string{"A": "plain"}, Secrets: []CommandSecret{{"KEY", "key"}}}
	within := spec.Within("team")
	if spec.Secrets[0].Secret != "key" || spec.Assets[0] != "tools" || within.Assets[0] != "team/tools" {
		t.Errorf("%+v, within %+v", spec, within)
	}
	out, hidden, err := within.Reveal(func(s Secret) (string, error) { return "value of " + s.Named, nil })
	if err != nil || out.Env["KEY"] != "value of team/key" || len(hidden) != 2 || within.Env["KEY"] != "" {
		t.Errorf("%+v, %q, %v", out, hidden, err)
	}
	if _, _, err := within.Reveal(func(Secret) (string, error) { return "", errors.New("gone") }); err == nil || err.Error() != "spec.secrets[0]: gone" {
		t.Error(err)
	}
	if text, err := json.Marshal(Redacted(&Resource{Kind: "Mutator", Spec: spec})); err != nil || strings.Contains(string(text), "plain") || !strings.Contains(string(text), `"secret":"key"`) {
		t.Errorf("%s, %v", text, err)
	}
}
