package kind

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

func TestSecretsOfMutators(t *testing.T) {
	command := &model.Command{Shell: "mutate"}
	for name, c := range map[string]struct {
		spec model.MutatorSpec
		want string // in the error; empty: it is right
	}{
		"of a command":  {model.MutatorSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}, {Env: "OTHER", Secret: "shared/b"}}}, ""},
		"of another":    {model.MutatorSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "team/a"}}}, "spec.secrets[0].secret"},
		"in env too":    {model.MutatorSpec{Command: command, Env: map[string]string{"KEY": "x"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "KEY is set twice"},
		"of javascript": {model.MutatorSpec{Javascript: "return 1", Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "JavaScript reads no environment"},
	} {
		t.Run(name, func(t *testing.T) {
			err := All().Validate(&model.Resource{APIVersion: model.APIVersion, Kind: "Mutator", Metadata: model.Metadata{Name: "m", Namespace: "default"}, Spec: &c.spec})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	spec := &model.MutatorSpec{Command: command, Assets: []string{"tools"}, Env: map[string]string{"A": "plain"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "key"}}}
	within := spec.QualifyReferences("team")
	if spec.Secrets[0].Secret != "key" || spec.Assets[0] != "tools" || within.Assets[0] != "team/tools" {
		t.Errorf("%+v, within %+v", spec, within)
	}
	out, hidden, err := within.Reveal(func(s model.Secret) (string, error) { return "value of " + s.Named, nil })
	if err != nil || out.Env["KEY"] != "value of team/key" || len(hidden) != 2 || within.Env["KEY"] != "" {
		t.Errorf("%+v, %q, %v", out, hidden, err)
	}
	if _, _, err := within.Reveal(func(model.Secret) (string, error) { return "", errors.New("gone") }); err == nil || err.Error() != "spec.secrets[0]: gone" {
		t.Error(err)
	}
	if text, err := json.Marshal(All().Redact(&model.Resource{Kind: "Mutator", Spec: spec})); err != nil || strings.Contains(string(text), "plain") || !strings.Contains(string(text), `"secret":"key"`) {
		t.Errorf("%s, %v", text, err)
	}
}
