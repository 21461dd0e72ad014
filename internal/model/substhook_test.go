package model

import (
	"strings"
	"testing"
)

func TestAPropertyMayNotChooseTheServerOfAWebhook(t *testing.T) {
	for url, want := range map[string]string{
		"https://x/{{ .props.a }}?b={{ .props.c.d }}": "",
		"https://{{ .props.a }}/x":                    "not the server",
		"https://x.{{ .props.a }}.org/":               "not the server",
		"https://x:{{ .props.a | default \"1\" }}/":   "no address",
		"https://{{ .props.a }}@x/":                   "not the server",
		"{{ .props.a }}":                              "no address",
		"https://x/{{ .prop.a }}":                     "one variable",
	} {
		r := &Resource{APIVersion: APIVersion, Kind: "Handler", Metadata: Metadata{Name: "h", Namespace: "default"}, Spec: &HandlerSpec{Webhook: &Webhook{URL: url}}}
		err := Validate(r)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
