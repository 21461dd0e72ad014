package kind

import (
	"strings"
	"testing"
)

func TestWhatIsKeptFromSensuIsChecked(t *testing.T) {
	for _, c := range []struct{ kind, spec, want string }{
		{"Filter", `{action: allow, expressions: ["event.check.status == 2"]}`, ""},
		{"Filter", `{action: deny, expressions: ["true"], when: {spans: [{during: "mon-fri 09:00-17:00"}], timeZone: Europe/Paris}}`, ""},
		{"Filter", `{action: maybe, expressions: ["("]}`, `"maybe" is not known`},
		{"Filter", `{action: allow, expressions: ["("]}`, "spec.expressions[0]: "},
		{"Filter", `{action: allow}`, "spec.expressions: says nothing"},
		{"Filter", `{action: allow, expressions: ["true"], when: {}}`, "spec.when: says no time"},
		{"Filter", `{action: allow, expressions: ["true"], when: {window: night, spans: [{during: sat}]}}`, "both spans and window"},
		{"Mutator", `{command: jq .check}`, ""},
		{"Mutator", `{javascript: "return 'x'", timeout: 5s}`, ""},
		{"Filter", `{action: allow, expressions: ["often(event)"], assets: [scripts, shared/more]}`, ""},
		{"Filter", `{action: allow, expressions: ["often(event)"], assets: [other/scripts]}`, "of another namespace"},
		{"Mutator", `{javascript: "return words(event)", assets: [scripts]}`, ""},
		{"Mutator", `{command: shorten, assets: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]}`, "more than 16"},
		{"Mutator", `{}`, "spec: says nothing to do"},
		{"Mutator", `{command: "jq", javascript: "return 1"}`, "both command and javascript"},
		{"Hook", `{command: ps aux, timeout: 30s, stdin: true}`, ""},
		{"Hook", `{timeout: 2m}`, "spec.command: missing"},
		{"Pipeline", `{workflows: [{name: a, filters: [is_incident, shared/x], mutator: only_check_output, handler: slack}]}`, ""},
		{"Pipeline", `{workflows: [{name: a, handler: slack}, {name: a}]}`, `a second workflow "a"`},
		{"Pipeline", `{workflows: [{name: a}]}`, "handler: missing"},
		{"Pipeline", `{workflows: [{name: a, filters: [other/x], handler: b}]}`, "of another namespace"},
		{"Check", `{command: "true", interval: 60s, pipelines: [alerts], hooks: [{hook: shared/look, when: [critical]}]}`, ""},
		{"Check", `{command: "true", interval: 60s, hooks: [{hook: look, when: [critical], command: ps}]}`, "says command and timeout already"},
		{"Check", `{command: "true", interval: 60s, hooks: [{hook: look, when: [ok]}, {name: look, when: [ok], command: ps}]}`, `a second hook "look"`},
	} {
		list, err := All().Read("a.yaml", []byte("kind: "+c.kind+"\nmetadata: {name: a}\nspec: "+c.spec+"\n"))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.kind, c.spec, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: %v, want %q", c.kind, c.spec, err, c.want)
		case c.want == "":
			if k, _ := All().Of(c.kind); k.FromSensu(list[0].Spec) == "" {
				t.Errorf("%s %s is not marked", c.kind, c.spec)
			}
		}
	}
}
