package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestSecretsOfHandlers(t *testing.T) {
	command := &Command{Shell: "page"}
	for name, c := range map[string]struct {
		spec HandlerSpec
		want string // in the error; empty: it is right
	}{
		"named":            {HandlerSpec{Slack: &Slack{URL: Secret{Named: "slack"}}}, ""},
		"of shared":        {HandlerSpec{PagerDuty: &PagerDuty{RoutingKey: Secret{Named: "shared/pager"}}}, ""},
		"of another":       {HandlerSpec{Slack: &Slack{URL: Secret{Named: "team/slack"}}}, "spec.slack.url.secret"},
		"no name":          {HandlerSpec{Slack: &Slack{URL: Secret{Named: "Slack!"}}}, "spec.slack.url.secret"},
		"two places":       {HandlerSpec{Slack: &Slack{URL: Secret{Named: "slack", FromEnv: "SLACK"}}}, "more than one place"},
		"a token":          {HandlerSpec{Webhook: &Webhook{URL: "https://hook", Token: Secret{Named: "hook"}}}, ""},
		"token and header": {HandlerSpec{Webhook: &Webhook{URL: "https://hook", Token: Secret{Named: "hook"}, Headers: map[string]string{"authorization": "x"}}}, "both token and a header"},
		"of a command":     {HandlerSpec{Command: command, Secrets: []CommandSecret{{"KEY", "pager"}, {"OTHER", "shared/pager"}}}, ""},
		"twice":            {HandlerSpec{Command: command, Secrets: []CommandSecret{{"KEY", "a"}, {"KEY", "b"}}}, "KEY is set twice"},
		"in env too":       {HandlerSpec{Command: command, Env: map[string]string{"KEY": "x"}, Secrets: []CommandSecret{{"KEY", "a"}}}, "KEY is set twice"},
		"our own":          {HandlerSpec{Command: command, Secrets: []CommandSecret{{"MUSTER_IDEMPOTENCY_KEY", "a"}}}, "not for secrets"},
		"no secret":        {HandlerSpec{Command: command, Secrets: []CommandSecret{{"KEY", ""}}}, "write the name of a Secret"},
		"assets":           {HandlerSpec{Command: command, Assets: []string{"tools", "shared/more"}}, ""},
		"asset of another": {HandlerSpec{Command: command, Assets: []string{"team/tools"}}, "spec.assets"},
		"asset of a probe": {HandlerSpec{Slack: &Slack{URL: Secret{Named: "slack"}}, Assets: []string{"tools"}}, "only a command needs programs"},
		"no command":       {HandlerSpec{Slack: &Slack{URL: Secret{Named: "slack"}}, Secrets: []CommandSecret{{"KEY", "a"}}}, "only a command has an environment"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(&Resource{APIVersion: APIVersion, Kind: "Handler", Metadata: Metadata{Name: "h", Namespace: "default"}, Spec: &c.spec})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSecretsOfHandlersAreRevealed(t *testing.T) {
	var spec HandlerSpec
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
	spec.Within("team")
	read := func(s Secret) (string, error) { return "value of " + s.Named, nil }
	out, hidden, err := spec.Reveal(read)
	if err != nil || out.Opsgenie.APIKey.Text != "value of team/ops" || out.Opsgenie.Callback.Text != "value of shared/back" || out.Env["KEY"] != "value of team/key" || out.Env["A"] != "b" {
		t.Fatalf("%+v %+v, %v", out, out.Opsgenie, err)
	}
	if len(hidden) != 4 || spec.Env["KEY"] != "" || spec.Opsgenie.APIKey.Text != "" {
		t.Errorf("%q; %+v", hidden, spec)
	}
	if _, _, err := spec.Reveal(func(Secret) (string, error) { return "", errors.New("gone") }); err == nil || err.Error() != "spec.opsgenie.apiKey: gone" {
		t.Error(err)
	}
	text, err := json.Marshal(Redacted(&Resource{Kind: "Handler", Spec: &spec}))
	if err != nil || !strings.Contains(string(text), `{"secret":"team/ops"}`) {
		t.Errorf("%s, %v", text, err)
	}
}
