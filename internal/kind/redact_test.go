package kind

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

func TestRedacted(t *testing.T) {
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
		out := All().Redact(&model.Resource{Kind: "Handler", Spec: spec})
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
	check := &model.CheckSpec{Command: &model.Command{Shell: "true"}, Interval: 60e9, Env: map[string]string{"PASSWORD": "s3cret"}, Stdin: "s3cret"}
	out := All().Redact(&model.Resource{APIVersion: model.APIVersion, Kind: "Check", Metadata: model.Metadata{Name: "c", Namespace: "default"}, Spec: check})
	if got := out.Spec.(*model.CheckSpec); got.Env["PASSWORD"] != model.RedactedText || got.Stdin != model.RedactedText {
		t.Errorf("environment and standard input of a check: %+v", got)
	}
	// Who could not see it must not write it over the real one.
	if err := All().Validate(out); err == nil || !strings.Contains(err.Error(), "spec.env.PASSWORD") {
		t.Errorf("applied again: %v", err)
	}
	asset := All().Redact(&model.Resource{APIVersion: model.APIVersion, Kind: "Asset", Metadata: model.Metadata{Name: "a", Namespace: "default"},
		Spec: &model.AssetSpec{Builds: []model.AssetBuild{{SHA512: strings.Repeat("a", 128), URL: "https://files.example/a.tar.gz?token=s3cret"}, {SHA512: strings.Repeat("b", 128), URL: "https://files.example/b.tar.gz", OS: "linux"}}}})
	if got := asset.Spec.(*model.AssetSpec).Builds; got[0].URL != "https://files.example/a.tar.gz?(hidden)" || got[1].URL != "https://files.example/b.tar.gz" {
		t.Errorf("addresses of archives: %+v", got)
	}
	if err := All().Validate(asset); err == nil || !strings.Contains(err.Error(), "spec.builds[0].url") {
		t.Errorf("applied again: %v", err)
	}
	hook := All().Redact(&model.Resource{APIVersion: model.APIVersion, Kind: "Handler", Metadata: model.Metadata{Name: "h", Namespace: "default"},
		Spec: &model.HandlerSpec{Webhook: &model.Webhook{URL: "https://x/y", Headers: map[string]string{"A": "b"}}}})
	if err := All().Validate(hook); err == nil || !strings.Contains(err.Error(), "spec.webhook.url") || !strings.Contains(err.Error(), "spec.webhook.headers.A") {
		t.Errorf("applied again: %v", err)
	}
}
