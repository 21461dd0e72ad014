package intent_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// A handler's Secret is one that is there, whose value the server knows, for as long as it is named.
func TestHandlersNameSecretsOfTheServer(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	pager := func(secret string) model.Resource {
		r := handler("pager")
		r.Spec = &model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{Named: secret}}}
		return r
	}
	secret := func(spec model.SecretSpec) model.Resource {
		return model.Resource{Kind: "Secret", Metadata: model.Metadata{Name: "s"}, Spec: &spec}
	}
	served, local := secret(model.SecretSpec{File: "/etc/muster/s"}), secret(model.SecretSpec{AgentFile: "s"})
	for _, c := range []struct {
		apply []model.Resource
		want  string // in the refusal; empty: it is done
	}{
		{[]model.Resource{pager("s")}, `handler/pager: spec.slack.url.secret: secret "s" does not exist`},
		{[]model.Resource{pager("s"), local}, "the value of secret s is in the agent's file s, and handlers run on the server"},
		{[]model.Resource{pager("s"), served}, ""},
		{[]model.Resource{local}, "handler/pager: slack.url.secret: the value of secret s is in the agent's file s"},
		{[]model.Resource{secret(model.SecretSpec{Env: "S"})}, ""},
	} {
		_, err := w.Apply(ctx, ada, c.apply, intent.ApplyOptions{})
		if c.want == "" && err != nil || c.want != "" && (model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	gone := []intent.Key{{Kind: "Secret", Namespace: "default", Name: "s"}}
	if _, err := w.Delete(ctx, ada, gone, intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "handler/pager refers to secret/s in spec.slack.url.secret") {
		t.Errorf("got %v", err)
	}
	if _, err := w.Delete(ctx, ada, append(gone, intent.Key{Kind: "Handler", Namespace: "default", Name: "pager"}), intent.ApplyOptions{}); err != nil {
		t.Error(err)
	}
}

// So is a mutator's.
func TestMutatorsNameSecretsOfTheServer(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	mutator := model.Resource{Kind: "Mutator", Metadata: model.Metadata{Name: "m"},
		Spec: &model.MutatorSpec{Command: &model.Command{Shell: "true"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "s"}}}}
	secret := func(spec model.SecretSpec) model.Resource {
		return model.Resource{Kind: "Secret", Metadata: model.Metadata{Name: "s"}, Spec: &spec}
	}
	for _, c := range []struct {
		apply []model.Resource
		want  string // in the refusal; empty: it is done
	}{
		{[]model.Resource{mutator}, `mutator/m: spec.secrets[0].secret: secret "s" does not exist`},
		{[]model.Resource{mutator, secret(model.SecretSpec{AgentFile: "s"})}, "the value of secret s is in the agent's file s, and mutators run on the server"},
		{[]model.Resource{mutator, secret(model.SecretSpec{Env: "S"})}, ""},
		{[]model.Resource{secret(model.SecretSpec{AgentEnv: "S"})}, "mutator/m: secrets[0].secret: the value of secret s is in the agent's environment"},
	} {
		_, err := w.Apply(ctx, ada, c.apply, intent.ApplyOptions{})
		if c.want == "" && err != nil || c.want != "" && (model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
