package intent_test

import (
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestChangesThatDiscloseSecretsAreRefused expects a refusal of each change that would disclose a secret of the
// server. After such a change, a stored check would send the secret to machines that can join by themselves. The test
// expects no other refusal.
func TestChangesThatDiscloseSecretsAreRefused(t *testing.T) {
	w := newTestService(t)
	resource := func(kind, name string, spec model.Spec) model.Resource {
		return model.Resource{Kind: kind, Metadata: model.Metadata{Name: name}, Spec: spec}
	}
	apply := func(rs ...model.Resource) error {
		_, err := w.Apply(t.Context(), ada, rs, intent.ApplyOptions{})
		return err
	}
	group := func(name string, trusted bool, where string) model.Resource {
		return resource("Group", name, &model.GroupSpec{Trusted: trusted, Where: where})
	}
	check := func(name, group, secret string) model.Resource {
		return resource("Check", name, &model.CheckSpec{Command: &model.Command{Shell: "true"}, Interval: model.Duration(60e9),
			Targets: &model.Targets{Groups: []string{group}}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: secret}}})
	}
	const db, web = `node.labels.role == "db"`, `node.labels.role == "web"`
	served, local := resource("Secret", "served", &model.SecretSpec{File: "/etc/key"}), resource("Secret", "local", &model.SecretSpec{AgentFile: "key"})
	technique := resource("Technique", "word", &model.TechniqueSpec{Parameters: []model.Parameter{{Name: "word", Type: model.SecretParameter}},
		Methods: []model.Method{{Component: "file", FileContent: &model.FileContentMethod{Path: "/word", Content: "{{ .params.word }}"}}}})
	directive := resource("Directive", "word", &model.DirectiveSpec{Technique: "word", Parameters: map[string]model.ParameterValue{"word": model.TextValue("served")}})
	policy := resource("Policy", "word", &model.PolicySpec{Directives: []string{"word"}, Targets: &model.Targets{Groups: []string{"policed"}}})
	testenv.NoError(t, apply(served, local, group("policed", true, db), technique, directive, policy, group("vault", true, db), group("open", false, web), check("a", "vault", "served"), check("b", "open", "local")))
	for _, c := range []struct {
		name    string
		r       model.Resource
		refused bool
	}{
		{"an open group with another condition", group("open", false, db), false},
		{"a trusted group with another condition", group("vault", true, web), false},
		{"a trusted group that opens", group("vault", false, db), true},
		{"a new open group", group("more", false, db), false},
		{"a served secret in another file", resource("Secret", "served", &model.SecretSpec{File: "/etc/other"}), false},
		{"a secret of the agents that the server sends", resource("Secret", "local", &model.SecretSpec{File: "/etc/key"}), true},
	} {
		if err := apply(c.r); (model.ClassOf(err) == model.Invalid) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, name := range []string{"vault", "policed"} {
		if err := apply(group(name, false, db)); model.ClassOf(err) != model.Invalid {
			t.Errorf("group %s opens: %v", name, err)
		}
		testenv.Value(w.Delete(t.Context(), ada, []intent.Key{{Kind: "Group", Namespace: "default", Name: name}}, intent.ApplyOptions{}))(t)
		if err := apply(group(name, false, db)); model.ClassOf(err) != model.Invalid {
			t.Errorf("group %s was deleted and is created as an open one: %v", name, err)
		}
		testenv.NoError(t, apply(group(name, true, db)))
	}
}
