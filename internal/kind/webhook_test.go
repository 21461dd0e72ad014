package kind

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
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
		r := &model.Resource{APIVersion: model.APIVersion, Kind: "Handler", Metadata: model.Metadata{Name: "h", Namespace: "default"}, Spec: &model.HandlerSpec{Webhook: &model.Webhook{URL: url}}}
		err := All().Validate(r)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
