package kind

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What is wrong with a handler of each kind, and where.
func TestHandlersAreLookedThrough(t *testing.T) {
	for yaml, want := range map[string]string{
		`pagerduty: {routingKey: {fromFile: /etc/muster/pd}}`: "",
		`pagerduty: {routingKey: "{{ .props.pd }}"}`:          "",
		`pagerduty: {}`: "spec.pagerduty.routingKey: missing",
		`pagerduty: {routingKey: {fromFile: pd}}`:                                                                    "no whole path",
		`pagerduty: {routingKey: {fromEnv: MUSTER_KEY}}`:                                                             "server's own settings",
		`pagerduty: {routingKey: {fromVault: x}}`:                                                                    "want a text, {secret: NAME}, {fromFile",
		`pagerduty: {routingKey: k, url: "ftp://x"}`:                                                                 "spec.pagerduty.url",
		"pagerduty: {routingKey: k}\n  slack: {url: \"https://x/y\"}":                                                "several ways to tell: pagerduty, slack",
		`opsgenie: {apiKey: k, region: asia}`:                                                                        "write us or eu",
		`opsgenie: {apiKey: k, responders: [ops]}`:                                                                   "spec.opsgenie.responders[0]",
		`alertmanager: {}`:                                                                                           "spec.alertmanager.urls: missing",
		`alertmanager: {urls: ["http://am:9093"], labels: {x: "{{ .props.a }}"}}`:                                    "no variable may stand here",
		`alertmanager: {urls: ["http://am:9093"], password: p}`:                                                      "nobody whose it is",
		`slack: {url: "https://{{ .props.host }}/x"}`:                                                                "not the server",
		`slack: {url: "https://hooks.slack.com/services/{{ .props.slack }}"}`:                                        "",
		`mattermost: {url: {fromEnv: MM}, channel: ops}`:                                                             "",
		`teams: {url: nonsense}`:                                                                                     "no address of a web server",
		`ntfy: {topic: t, token: a, username: b, password: c}`:                                                       "both username and token",
		`email: {server: "smtp:25", from: a@b.example, to: [c@d.example]}`:                                           "",
		`email: {server: "smtp", from: a@b.example, to: [c@d.example]}`:                                              "spec.email.server",
		`email: {server: "smtp:25", from: nobody, to: []}`:                                                           "spec.email.from",
		`email: {server: "smtp:25", from: a@b.example, to: [c@d.example], security: none, username: u, password: p}`: "over the network as it is",
		`tcp: {address: "x"}`:                                                                                        "spec.tcp.address",
		`stream: {address: "x:1", connections: 999}`:                                                                 "want 1 to 256",
		`udp: {address: "x:1"}`:                                                                                      "",
	} {
		list, err := All().Decode("h", []byte("kind: Handler\nmetadata: {name: h}\nspec:\n  "+yaml+"\n"))
		if err == nil {
			err = All().Validate(&list[0].Resource)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}

// A secret of a service that is written out is shown to nobody who may only look, and is
// not written over by what he saw; where it is read from is shown.
func TestSecretsOfServicesAreHidden(t *testing.T) {
	spec := &model.HandlerSpec{Ntfy: &model.Ntfy{Topic: model.Secret{Text: "s3cret"}, Token: model.Secret{FromFile: "/etc/muster/ntfy"}}}
	r := &model.Resource{APIVersion: model.APIVersion, Kind: "Handler", Metadata: model.Metadata{Name: "h", Namespace: "default"}, Spec: spec}
	seen := All().Redact(r)
	text, err := json.Marshal(seen)
	if err != nil || strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), "/etc/muster/ntfy") || spec.Ntfy.Topic.Text != "s3cret" {
		t.Errorf("%s %v", text, err)
	}
	if err := All().Validate(seen); err == nil || !strings.Contains(err.Error(), "spec.ntfy.topic") {
		t.Errorf("applied again: %v", err)
	}
	back, err := All().DecodeResource(text)
	if err != nil || back.Spec.(*model.HandlerSpec).Ntfy.Token.FromFile != "/etc/muster/ntfy" {
		t.Errorf("%v %+v", err, back)
	}
}
