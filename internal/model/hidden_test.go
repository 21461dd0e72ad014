package model

import (
	"encoding/json"
	"strings"
	"testing"
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
		spec := &HandlerSpec{Webhook: &Webhook{URL: c.url, Headers: map[string]string{"Authorization": "s3cret"}}, Env: map[string]string{"KEY": "s3cret"}}
		before, _ := json.Marshal(spec)
		out := Redacted(&Resource{Kind: "Handler", Spec: spec})
		text, _ := json.Marshal(out)
		if strings.Contains(string(text), "s3cret") {
			t.Errorf("%s: %s", c.url, text)
		}
		if got := out.Spec.(*HandlerSpec).Webhook.URL; got != c.want {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
		if after, _ := json.Marshal(spec); string(after) != string(before) {
			t.Errorf("the original was changed: %s", after)
		}
	}
	check := &CheckSpec{Command: &Command{Shell: "true"}, Interval: 60e9, Env: map[string]string{"PASSWORD": "s3cret"}, Stdin: "s3cret"}
	out := Redacted(&Resource{APIVersion: APIVersion, Kind: "Check", Metadata: Metadata{Name: "c", Namespace: "default"}, Spec: check})
	if got := out.Spec.(*CheckSpec); got.Env["PASSWORD"] != Hidden || got.Stdin != Hidden {
		t.Errorf("environment and standard input of a check: %+v", got)
	}
	// Who could not see it must not write it over the real one.
	if err := Validate(out); err == nil || !strings.Contains(err.Error(), "spec.env.PASSWORD") {
		t.Errorf("applied again: %v", err)
	}
	asset := Redacted(&Resource{APIVersion: APIVersion, Kind: "Asset", Metadata: Metadata{Name: "a", Namespace: "default"},
		Spec: &AssetSpec{Builds: []AssetBuild{{SHA512: strings.Repeat("a", 128), URL: "https://files.example/a.tar.gz?token=s3cret"}, {SHA512: strings.Repeat("b", 128), URL: "https://files.example/b.tar.gz", OS: "linux"}}}})
	if got := asset.Spec.(*AssetSpec).Builds; got[0].URL != "https://files.example/a.tar.gz?(hidden)" || got[1].URL != "https://files.example/b.tar.gz" {
		t.Errorf("addresses of archives: %+v", got)
	}
	if err := Validate(asset); err == nil || !strings.Contains(err.Error(), "spec.builds[0].url") {
		t.Errorf("applied again: %v", err)
	}
	hook := Redacted(&Resource{APIVersion: APIVersion, Kind: "Handler", Metadata: Metadata{Name: "h", Namespace: "default"},
		Spec: &HandlerSpec{Webhook: &Webhook{URL: "https://x/y", Headers: map[string]string{"A": "b"}}}})
	if err := Validate(hook); err == nil || !strings.Contains(err.Error(), "spec.webhook.url") || !strings.Contains(err.Error(), "spec.webhook.headers.A") {
		t.Errorf("applied again: %v", err)
	}
}
