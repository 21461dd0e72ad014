package kind

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

func TestSecretsOfHandlers(t *testing.T) {
	command := &model.Command{Shell: "page"}
	for name, c := range map[string]struct {
		spec model.HandlerSpec
		want string // in the error; empty: it is right
	}{
		"named":            {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{Named: "slack"}}}, ""},
		"of shared":        {model.HandlerSpec{PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{Named: "shared/pager"}}}, ""},
		"of another":       {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{Named: "team/slack"}}}, "spec.slack.url.secret"},
		"no name":          {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{Named: "Slack!"}}}, "spec.slack.url.secret"},
		"two places":       {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{Named: "slack", FromEnv: "SLACK"}}}, "more than one place"},
		"a token":          {model.HandlerSpec{Webhook: &model.Webhook{URL: "https://hook", Token: model.Secret{Named: "hook"}}}, ""},
		"token and header": {model.HandlerSpec{Webhook: &model.Webhook{URL: "https://hook", Token: model.Secret{Named: "hook"}, Headers: map[string]string{"authorization": "x"}}}, "both token and a header"},
		"of a command":     {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "pager"}, {Env: "OTHER", Secret: "shared/pager"}}}, ""},
		"twice":            {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}, {Env: "KEY", Secret: "b"}}}, "KEY is set twice"},
		"in env too":       {model.HandlerSpec{Command: command, Env: map[string]string{"KEY": "x"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "KEY is set twice"},
		"our own":          {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "MUSTER_IDEMPOTENCY_KEY", Secret: "a"}}}, "not for secrets"},
		"no secret":        {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: ""}}}, "write the name of a Secret"},
		"assets":           {model.HandlerSpec{Command: command, Assets: []string{"tools", "shared/more"}}, ""},
		"asset of another": {model.HandlerSpec{Command: command, Assets: []string{"team/tools"}}, "spec.assets"},
		"asset of a probe": {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{Named: "slack"}}, Assets: []string{"tools"}}, "only a command needs programs"},
		"no command":       {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{Named: "slack"}}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "only a command has an environment"},
	} {
		t.Run(name, func(t *testing.T) {
			err := All().Validate(&model.Resource{APIVersion: model.APIVersion, Kind: "Handler", Metadata: model.Metadata{Name: "h", Namespace: "default"}, Spec: &c.spec})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSecretsOfHandlersAreRevealed(t *testing.T) {
	var spec model.HandlerSpec
	if err := json.Unmarshal([]byte(`{"opsgenie":{"apiKey":{"secret":"ops"},"callback":{"secret":"shared/back"}},"command":"page","env":{"A":"b"},"secrets":[{"env":"KEY","secret":"key"}]}`), &spec); err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, one := range spec.NamedSecrets() {
		named = append(named, one.Field+"="+one.Ref)
	}
	if got := strings.Join(named, " "); got != "opsgenie.apiKey.secret=ops opsgenie.callback.secret=shared/back secrets[0].secret=key" {
		t.Error(got)
	}
	spec.QualifyReferences("team")
	read := func(s model.Secret) (string, error) { return "value of " + s.Named, nil }
	out, hidden, err := spec.Reveal(read)
	if err != nil || out.Opsgenie.APIKey.Text != "value of team/ops" || out.Opsgenie.Callback.Text != "value of shared/back" || out.Env["KEY"] != "value of team/key" || out.Env["A"] != "b" {
		t.Fatalf("%+v %+v, %v", out, out.Opsgenie, err)
	}
	if len(hidden) != 4 || spec.Env["KEY"] != "" || spec.Opsgenie.APIKey.Text != "" {
		t.Errorf("%q; %+v", hidden, spec)
	}
	if _, _, err := spec.Reveal(func(model.Secret) (string, error) { return "", errors.New("gone") }); err == nil || err.Error() != "spec.opsgenie.apiKey: gone" {
		t.Error(err)
	}
	text, err := json.Marshal(All().Redact(&model.Resource{Kind: "Handler", Spec: &spec}))
	if err != nil || !strings.Contains(string(text), `{"secret":"team/ops"}`) {
		t.Errorf("%s, %v", text, err)
	}
}
