package kind

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestHandlerIsValidated validates faulty handlers of each service, and expects an error about each faulty field.
func TestHandlerIsValidated(t *testing.T) {
	for yaml, want := range map[string]string{
		`pagerduty: {routingKey: {fromFile: /etc/muster/pd}}`: "",
		`pagerduty: {routingKey: "{{ .props.pd }}"}`:          "",
		`pagerduty: {}`: "spec.pagerduty.routingKey: missing",
		`pagerduty: {routingKey: {fromFile: pd}}`:                                                                    "is not an absolute path",
		`pagerduty: {routingKey: {fromEnv: MUSTER_KEY}}`:                                                             "server's own settings",
		`pagerduty: {routingKey: {fromVault: x}}`:                                                                    "expected text, {secret: NAME}",
		`pagerduty: {routingKey: k, url: "ftp://x"}`:                                                                 "spec.pagerduty.url",
		"pagerduty: {routingKey: k}\n  slack: {url: \"https://x/y\"}":                                                "expected one notification method, got pagerduty, slack",
		`opsgenie: {apiKey: k, region: asia}`:                                                                        "write us or eu",
		`opsgenie: {apiKey: k, responders: [ops]}`:                                                                   "spec.opsgenie.responders[0]",
		`alertmanager: {}`:                                                                                           "spec.alertmanager.urls: missing",
		`alertmanager: {urls: ["http://am:9093"], labels: {x: "{{ .props.a }}"}}`:                                    "variables are not allowed here",
		`alertmanager: {urls: ["http://am:9093"], password: p}`:                                                      "a password needs a user name",
		`slack: {url: "https://{{ .props.host }}/x"}`:                                                                "not the server",
		`slack: {url: "https://hooks.slack.com/services/{{ .props.slack }}"}`:                                        "",
		`mattermost: {url: {fromEnv: MM}, channel: ops}`:                                                             "",
		`teams: {url: nonsense}`:                                                                                     "is not the address of a web server",
		`ntfy: {topic: t, token: a, username: b, password: c}`:                                                       "username and token exclude each other",
		`email: {server: "smtp:25", from: a@b.example, to: [c@d.example]}`:                                           "",
		`email: {server: "smtp", from: a@b.example, to: [c@d.example]}`:                                              "spec.email.server",
		`email: {server: "smtp:25", from: nobody, to: []}`:                                                           "spec.email.from",
		`email: {server: "smtp:25", from: a@b.example, to: [c@d.example], security: none, username: u, password: p}`: "the connection would send the password unencrypted",
		`tcp: {address: "x"}`:                                                                                        "spec.tcp.address",
		`stream: {address: "x:1", connections: 999}`:                                                                 "expected 1 to 256",
		`udp: {address: "x:1"}`:                                                                                      "",
	} {
		assertValidationError(t, decodeInvalidSpec("Handler", "\n  "+yaml), want)
	}
}

// Secrets in handler services are redacted in output. An apply of the placeholder as a value is refused.
func TestServiceSecretsAreRedacted(t *testing.T) {
	spec := &model.HandlerSpec{Ntfy: &model.Ntfy{Topic: model.Secret{Text: "s3cret"}, Token: model.Secret{FromFile: "/etc/muster/ntfy"}}}
	seen := redactSpec(spec)
	text, err := json.Marshal(seen)
	if err != nil || strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), "/etc/muster/ntfy") || spec.Ntfy.Topic.Text != "s3cret" {
		t.Errorf("%s %v", text, err)
	}
	assertValidationError(t, All().Validate(seen), "spec.ntfy.topic")
	back, err := All().DecodeResource(text)
	if err != nil || back.Spec.(*model.HandlerSpec).Ntfy.Token.FromFile != "/etc/muster/ntfy" {
		t.Errorf("%v %+v", err, back)
	}
}

// TestHandlerSecretsAreValidated validates handlers with wrong references to Secrets, and expects errors. A Secret of
// another namespace is refused.
func TestHandlerSecretsAreValidated(t *testing.T) {
	command := &model.Command{Shell: "page"}
	for name, c := range map[string]struct {
		spec model.HandlerSpec
		want string // in the error; empty: it is right
	}{
		"named":            {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{SecretName: "slack"}}}, ""},
		"of shared":        {model.HandlerSpec{PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{SecretName: "shared/pager"}}}, ""},
		"of another":       {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{SecretName: "team/slack"}}}, "spec.slack.url.secret"},
		"no name":          {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{SecretName: "Slack!"}}}, "spec.slack.url.secret"},
		"two places":       {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{SecretName: "slack", FromEnv: "SLACK"}}}, "more than one source"},
		"a token":          {model.HandlerSpec{Webhook: &model.Webhook{URL: "https://hook", Token: model.Secret{SecretName: "hook"}}}, ""},
		"token and header": {model.HandlerSpec{Webhook: &model.Webhook{URL: "https://hook", Token: model.Secret{SecretName: "hook"}, Headers: map[string]string{"authorization": "x"}}}, "token and the header"},
		"of a command":     {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "pager"}, {Env: "OTHER", Secret: "shared/pager"}}}, ""},
		"twice":            {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}, {Env: "KEY", Secret: "b"}}}, "KEY is set twice"},
		"in env too":       {model.HandlerSpec{Command: command, Env: map[string]string{"KEY": "x"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "KEY is set twice"},
		"our own":          {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "MUSTER_IDEMPOTENCY_KEY", Secret: "a"}}}, "cannot hold a secret"},
		"no secret":        {model.HandlerSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: ""}}}, "write the name of a Secret"},
		"assets":           {model.HandlerSpec{Command: command, Assets: []string{"tools", "shared/more"}}, ""},
		"asset of another": {model.HandlerSpec{Command: command, Assets: []string{"team/tools"}}, "spec.assets"},
		"asset of a probe": {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{SecretName: "slack"}}, Assets: []string{"tools"}}, "only a command needs assets"},
		"no command":       {model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{SecretName: "slack"}}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "only a command has an environment"},
	} {
		t.Run(name, func(t *testing.T) { assertValidationError(t, validateSpec(&c.spec), c.want) })
	}
}

// TestHandlerSecretsAreRevealed replaces the Secret references in a handler and expects the values of the Secrets.
func TestHandlerSecretsAreRevealed(t *testing.T) {
	var spec model.HandlerSpec
	testenv.NoError(t, json.Unmarshal([]byte(`{"opsgenie":{"apiKey":{"secret":"ops"},"callback":{"secret":"shared/back"}},"command":"page","env":{"A":"b"},"secrets":[{"env":"KEY","secret":"key"}]}`), &spec))
	var named []string
	for _, one := range model.NamedSecrets(&spec) {
		named = append(named, one.Field+"="+one.Ref)
	}
	if got := strings.Join(named, " "); got != "opsgenie.apiKey.secret=ops opsgenie.callback.secret=shared/back secrets[0].secret=key" {
		t.Error(got)
	}
	spec.QualifyReferences("team")
	read := func(s model.Secret) (string, error) { return "value of " + s.SecretName, nil }
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
	text, err := json.Marshal(redactSpec(&spec))
	if err != nil || !strings.Contains(string(text), `{"secret":"team/ops"}`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestPropertyCannotChangeWebhookHost expects that properties in a webhook address may change its path, never its
// host
func TestPropertyCannotChangeWebhookHost(t *testing.T) {
	for url, want := range map[string]string{
		"https://x/{{ .props.a }}?b={{ .props.c.d }}": "",
		"https://{{ .props.a }}/x":                    "not the server",
		"https://x.{{ .props.a }}.org/":               "not the server",
		"https://x:{{ .props.a | default \"1\" }}/":   "is not the address of a web server",
		"https://{{ .props.a }}@x/":                   "not the server",
		"{{ .props.a }}":                              "is not the address of a web server",
		"https://x/{{ .prop.a }}":                     "the only variable is",
	} {
		assertValidationError(t, validateSpec(&model.HandlerSpec{Webhook: &model.Webhook{URL: url}}), want)
	}
}

// TestRedactionHidesSecrets redacts handlers, checks and assets, and expects copies in which secret values are hidden.
// The originals stay unchanged.
func TestRedactionHidesSecrets(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"https://hooks.example/services/T0/B1/s3cret", "https://hooks.example/(hidden)"},
		{"https://hooks.example:8443?token=s3cret", "https://hooks.example:8443/(hidden)"},
		{"https://hooks.example#s3cret", "https://hooks.example/(hidden)"},
		{"https://ann:s3cret@hooks.example/", "https://hooks.example/"},
		{"https://ann:s3@cret@hooks.example/x", "https://hooks.example/(hidden)"},
		{"https://hooks.example", "https://hooks.example"},
		{"s3cret", "(hidden)"},
	} {
		spec := &model.HandlerSpec{Webhook: &model.Webhook{URL: c.url, Headers: map[string]string{"Authorization": "s3cret"}}, Env: map[string]string{"KEY": "s3cret"}}
		before, _ := json.Marshal(spec)
		out := redactSpec(spec)
		text, _ := json.Marshal(out)
		if strings.Contains(string(text), "s3cret") {
			t.Errorf("%s: %s", c.url, text)
		}
		if got := out.Spec.(*model.HandlerSpec).Webhook.URL; got != c.want {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
		if after, _ := json.Marshal(spec); string(after) != string(before) {
			t.Errorf("the original was changed: %s", after)
		}
	}
	check := redactSpec(&model.CheckSpec{Command: &model.Command{Shell: "true"}, Interval: 60e9, Env: map[string]string{"PASSWORD": "s3cret"}, Stdin: "s3cret"})
	if got := check.Spec.(*model.CheckSpec); got.Env["PASSWORD"] != model.RedactedText || got.Stdin != model.RedactedText {
		t.Errorf("environment and standard input of a check: %+v", got)
	}
	asset := redactSpec(&model.AssetSpec{Builds: []model.AssetBuild{
		{SHA512: strings.Repeat("a", 128), URL: "https://files.example/a.tar.gz?token=s3cret"},
		{SHA512: strings.Repeat("b", 128), URL: "https://files.example/b.tar.gz", OS: "linux"},
	}})
	if got := asset.Spec.(*model.AssetSpec).Builds; got[0].URL != "https://files.example/a.tar.gz?(hidden)" || got[1].URL != "https://files.example/b.tar.gz" {
		t.Errorf("addresses of archives: %+v", got)
	}
	hook := redactSpec(&model.HandlerSpec{Webhook: &model.Webhook{URL: "https://x/y", Headers: map[string]string{"A": "b"}}})
	// A reader of the redacted resource must not write the placeholder over the real value.
	assertValidationError(t, All().Validate(check), "spec.env.PASSWORD")
	assertValidationError(t, All().Validate(asset), "spec.builds[0].url")
	assertValidationError(t, All().Validate(hook), "spec.webhook.url")
	assertValidationError(t, All().Validate(hook), "spec.webhook.headers.A")
}

// redactSpec returns a test resource with the given spec, with secrets redacted.
func redactSpec(spec model.Spec) *model.Resource {
	return All().Redact(&model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: model.Metadata{Name: "a", Namespace: "default"}, Spec: spec})
}
