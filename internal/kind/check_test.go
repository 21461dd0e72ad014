package kind

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// decodeInvalidSpec decodes a resource with the given YAML spec, and returns the validation errors.
func decodeInvalidSpec(kind, spec string) error {
	_, err := All().Read("a.yaml", []byte("kind: "+kind+"\nmetadata: {name: a}\nspec: "+spec+"\n"))
	return err
}

// validateSpec validates a resource with the given spec, and returns the errors.
func validateSpec(spec model.Spec) error {
	return All().Validate(&model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: model.Metadata{Name: "a", Namespace: "default"}, Spec: spec})
}

// assertValidationError fails the test unless the validation error contains the expected text. For an empty text it expects no
// error.
func assertValidationError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestPassiveCheckIsValidated sets command and schedule fields in a passive check, which never runs, and
// expects errors. External systems send the results of a passive check.
func TestPassiveCheckIsValidated(t *testing.T) {
	for yaml, want := range map[string]string{
		"passive: true, ttl: 5m, alert: {failAfter: 2}, severity: {critical: disaster}": "",
		"passive: true, command: 'true'":                                                "spec.command: a passive check does not run",
		"passive: true, interval: 60s":                                                  "spec.interval: a passive check",
		"passive: true, targets: {groups: [all]}":                                       "spec.targets: a passive check",
		"passive: true, proxy: {nodes: [x]}":                                            "spec.proxy: a passive check",
		"passive: true, metrics: {format: nagios}":                                      "spec.metrics: a passive check",
		"interval: 60s": "passive: true, if external systems send the results",
	} {
		assertValidationError(t, decodeInvalidSpec("Check", "{"+yaml+"}"), want)
	}
}

// TestCheckIsValidated validates faulty checks, and expects an error about each faulty field.
func TestCheckIsValidated(t *testing.T) {
	for yaml, want := range map[string]string{
		"targets: {where: 'node.labels.env == \"prod\" && \"web\" in node.groups'}\n  probe: {name: disk, args: {warn: \"20%\"}}": "",
		"command: 'mail-check'\n  stdin: |\n    hello\n    {{ .props.name }}":                                                     "",
		"probe: {name: load}\n  stdin: x":                                                                     "a probe reads no standard input",
		"command: 'true'\n  runbook: https://wiki.example.org/disk":                                           "",
		"command: 'true'\n  runbook: see the wiki":                                                            "spec.runbook: \"see the wiki\" is not a link",
		"command: 'true'\n  runbook: javascript:alert(1)":                                                     "is not a link",
		"command: 'true'\n  stdin: '{{ .name }}'":                                                             "spec.stdin: column 1",
		"command: 'true'\n  stdin: '(hidden)'":                                                                "spec.stdin: (hidden) is the placeholder",
		"command: x\n  hooks: [{name: top, when: [critical, non-ok, \"127\"], command: top -bn1}]":            "",
		"command: x\n  hooks: [{name: top, when: [bad], command: top}]":                                       "spec.hooks[0].when[0]: unknown result \"bad\"",
		"command: x\n  hooks: [{name: top, when: [2], command: top}]":                                         "quote it",
		"command: x\n  hooks: [{name: top, when: [\"256\"], command: top}]":                                   "unknown result",
		"command: x\n  hooks: [{name: top, when: [ok]}]":                                                      "spec.hooks[0].command: missing",
		"command: x\n  hooks: [{name: top, command: top}]":                                                    "the results that trigger the hook are missing",
		"command: x\n  hooks: [{name: top, when: [ok], command: top}, {name: top, when: [ok], command: top}]": "hook \"top\" occurs twice",
		"command: x\n  hooks: [{name: top, when: [ok], command: top, timeout: 2m}]":                           "spec.hooks[0].timeout",
		"command: x\n  hooks: [{name: top, when: [ok], command: 'a {{ .x }}'}]":                               "spec.hooks[0].command: column 3",
		"command: x\n  metrics: {format: csv}":                                                                "write nagios, graphite, influxdb, opentsdb, prometheus or none",
		"probe: {name: load}\n  metrics: {format: nagios, tags: {team: web}}":                                 "",
		"command: x\n  thresholds: [{metric: a, critical: {max: 0}}]":                                         "",
		"command: x\n  sensu: true\n  thresholds: [{metric: a, critical: {max: 0}}]":                          "need metrics",
		"command: x\n  metrics: {tags: {team: web}}":                                                          "",
		"command: x\n  metrics: {format: none}":                                                               "",
		"command: x\n  metrics: {format: none}\n  thresholds: [{metric: a, critical: {max: 0}}]":              "neither tags nor thresholds",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, critical: {max: 0}}]":            "",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a}]":                                "says nothing",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, warning: {}}]":                   "min or max is missing",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, warning: {min: 3, max: 2}}]":     "min 3 is larger than max 2",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, missing: ok}]":                   "invalid status",
		"command: x\n  schedule: {except: [{during: 'sat,sun'}, {window: shared/night}]}":                     "",
		"command: x\n  schedule: {except: [{}]}":                                                              "spec.schedule.except[0]: the time is missing",
		"command: x\n  schedule: {except: [{during: 'sat', window: night}]}":                                  "during and window exclude each other",
		"command: x\n  schedule: {except: [{cron: '* * * * *'}]}":                                             "cron",
	} {
		assertValidationError(t, decodeInvalidSpec("Check", "\n  interval: 60s\n  "+yaml), want)
	}
}

// TestCronFlawNamesItsField validates wrong cron expressions, and expects the error to name the wrong part.
func TestCronFlawNamesItsField(t *testing.T) {
	for cron, want := range map[string]string{
		"61 * * * *":   `: invalid "61" for minute`,
		"0 25 * * *":   `: invalid "25" for hour`,
		"0 0 32 * *":   `: invalid "32" for day of the month`,
		"0 0 * JANU *": `: invalid "JANU" for month`,
		"0 0 * * 9":    `: invalid "9" for weekday`,
	} {
		if text, hint := explainWrongCron(strings.Fields(cron)); text != want || hint == "" {
			t.Errorf("%s: %q, %q", cron, text, hint)
		}
	}
}

// TestRoundRobinIsValidated validates round-robin checks, and expects errors about time zone and TTL. A cron
// expression needs a time zone, and a TTL needs proxy nodes.
func TestRoundRobinIsValidated(t *testing.T) {
	for spec, want := range map[string]string{
		"{command: a, interval: 10s, roundRobin: true}":                               "",
		"{command: a, interval: 10s, roundRobin: true, ttl: 1m, proxy: {nodes: [a]}}": "",
		"{command: a, cron: '* * * * *', roundRobin: true}":                           "the server schedules round-robin checks",
		"{command: a, cron: '* * * * *', timeZone: UTC, roundRobin: true}":            "",
		"{command: a, interval: 10s, roundRobin: true, ttl: 1m}":                      "in round robin only one node",
		"{command: a, cron: '* * * * *', ttl: 1m, roundRobin: false}":                 "",
	} {
		assertValidationError(t, decodeInvalidSpec("Check", spec), want)
	}
}

// TestEffectCountsReferences expects the description of a resource's effect to count all users of the resource.
// The users are other resources.
func TestEffectCountsReferences(t *testing.T) {
	handler, every := &model.HandlerSpec{}, &model.HandlerSpec{Stream: &model.Stream{Results: model.AllResults}}
	for want, of := range map[string]struct {
		spec model.Spec
		l    ResourceUsage
	}{
		"used by nothing yet":                                {handler, ResourceUsage{Nodes: 3}},
		"used by 1 node":                                     {handler, ResourceUsage{NotifiedNodes: 1}},
		"used by 2 routes":                                   {handler, ResourceUsage{Routes: 2}},
		"used by 2 checks and 3 nodes":                       {handler, ResourceUsage{Nodes: 9, Checks: 2, NotifiedNodes: 3}},
		"used by 2 checks and 1 namespace":                   {handler, ResourceUsage{Checks: 2, Namespaces: 1}},
		"used by 1 check, 1 route, 1 pipeline and 2 nodes":   {handler, ResourceUsage{Checks: 1, Routes: 1, Pipelines: 1, NotifiedNodes: 2}},
		"receives every result":                              {every, ResourceUsage{}},
		"receives every result; used by 1 route":             {every, ResourceUsage{Routes: 1}},
		"used by 1 node; Sensu kind":                         {&model.PipelineSpec{}, ResourceUsage{NotifiedNodes: 1}},
		"used by nothing yet; Sensu kind":                    {&model.HookSpec{}, ResourceUsage{}},
		"used by 1 check on 3 nodes and 1 handler":           {&model.SecretSpec{}, ResourceUsage{Nodes: 3, Checks: 1, Handlers: 1}},
		"used by 1 mutator":                                  {&model.SecretSpec{}, ResourceUsage{Mutators: 1}},
		"used by 2 checks on 1 node, 1 handler and 1 filter": {&model.AssetSpec{}, ResourceUsage{Nodes: 1, Checks: 2, Handlers: 1, Filters: 1}},
	} {
		r := &model.Resource{Kind: of.spec.Kind(), Spec: of.spec}
		if got, _ := All().Effect(r, of.l, false); got != want {
			t.Errorf("%+v: %q, want %q", of, got, want)
		}
	}
}

// TestMutatorSecretsAreValidatedAndRevealed validates a mutator's references to Secrets, and expects errors for wrong
// references. After Reveal, the values of the Secrets take their place.
func TestMutatorSecretsAreValidatedAndRevealed(t *testing.T) {
	command := &model.Command{Shell: "mutate"}
	for _, c := range map[string]struct {
		spec model.MutatorSpec
		want string // in the error; empty: it is right
	}{
		"of a command":  {model.MutatorSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}, {Env: "OTHER", Secret: "shared/b"}}}, ""},
		"of another":    {model.MutatorSpec{Command: command, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "team/a"}}}, "spec.secrets[0].secret"},
		"in env too":    {model.MutatorSpec{Command: command, Env: map[string]string{"KEY": "x"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "KEY is set twice"},
		"of javascript": {model.MutatorSpec{Javascript: "return 1", Secrets: []model.CommandSecret{{Env: "KEY", Secret: "a"}}}, "JavaScript reads no environment"},
	} {
		assertValidationError(t, validateSpec(&c.spec), c.want)
	}
	spec := &model.MutatorSpec{Command: command, Assets: []string{"tools"}, Env: map[string]string{"A": "plain"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "key"}}}
	within := spec.QualifyReferences("team")
	if spec.Secrets[0].Secret != "key" || spec.Assets[0] != "tools" || within.Assets[0] != "team/tools" {
		t.Errorf("%+v, within %+v", spec, within)
	}
	out, hidden, err := within.Reveal(func(s model.Secret) (string, error) { return "value of " + s.SecretName, nil })
	if err != nil || out.Env["KEY"] != "value of team/key" || len(hidden) != 2 || within.Env["KEY"] != "" {
		t.Errorf("%+v, %q, %v", out, hidden, err)
	}
	if _, _, err := within.Reveal(func(model.Secret) (string, error) { return "", errors.New("gone") }); err == nil || err.Error() != "spec.secrets[0]: gone" {
		t.Error(err)
	}
	if text, err := json.Marshal(redactSpec(spec)); err != nil || strings.Contains(string(text), "plain") || !strings.Contains(string(text), `"secret":"key"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestSensuKindsAreValidated validates faulty filters, mutators, hooks and pipelines, and expects errors.
func TestSensuKindsAreValidated(t *testing.T) {
	for _, c := range []struct{ kind, spec, want string }{
		{"Filter", `{action: allow, expressions: ["event.check.status == 2"]}`, ""},
		{"Filter", `{action: deny, expressions: ["true"], when: {spans: [{during: "mon-fri 09:00-17:00"}], timeZone: Europe/Paris}}`, ""},
		{"Filter", `{action: maybe, expressions: ["("]}`, `unknown value "maybe"`},
		{"Filter", `{action: allow, expressions: ["("]}`, "spec.expressions[0]: "},
		{"Filter", `{action: allow}`, "spec.expressions: says nothing"},
		{"Filter", `{action: allow, expressions: ["true"], when: {}}`, "spec.when: the time is missing"},
		{"Filter", `{action: allow, expressions: ["true"], when: {window: night, spans: [{during: sat}]}}`, "spans and window exclude each other"},
		{"Mutator", `{command: jq .check}`, ""},
		{"Mutator", `{javascript: "return 'x'", timeout: 5s}`, ""},
		{"Filter", `{action: allow, expressions: ["often(event)"], assets: [scripts, shared/more]}`, ""},
		{"Filter", `{action: allow, expressions: ["often(event)"], assets: [other/scripts]}`, "belongs to another namespace"},
		{"Mutator", `{javascript: "return words(event)", assets: [scripts]}`, ""},
		{"Mutator", `{command: shorten, assets: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]}`, "more than 16"},
		{"Mutator", `{}`, "spec: the action is missing"},
		{"Mutator", `{command: "jq", javascript: "return 1"}`, "command and javascript exclude each other"},
		{"Hook", `{command: ps aux, timeout: 30s, stdin: true}`, ""},
		{"Hook", `{timeout: 2m}`, "spec.command: missing"},
		{"Pipeline", `{workflows: [{name: a, filters: [is_incident, shared/x], mutator: only_check_output, handler: slack}]}`, ""},
		{"Pipeline", `{workflows: [{name: a, handler: slack}, {name: a}]}`, `workflow "a" occurs twice`},
		{"Pipeline", `{workflows: [{name: a}]}`, "handler: the name is missing"},
		{"Pipeline", `{workflows: [{name: a, filters: [other/x], handler: b}]}`, "belongs to another namespace"},
		{"Check", `{command: "true", interval: 60s, pipelines: [alerts], hooks: [{hook: shared/look, when: [critical]}]}`, ""},
		{"Check", `{command: "true", interval: 60s, hooks: [{hook: look, when: [critical], command: ps}]}`, "the Hook already has command and timeout"},
		{"Check", `{command: "true", interval: 60s, hooks: [{hook: look, when: [ok]}, {name: look, when: [ok], command: ps}]}`, `hook "look" occurs twice`},
	} {
		list, err := All().Read("a.yaml", []byte("kind: "+c.kind+"\nmetadata: {name: a}\nspec: "+c.spec+"\n"))
		assertValidationError(t, err, c.want)
		if err == nil {
			if k, _ := All().Lookup(c.kind); k.FromSensu(list[0].Spec) == "" {
				t.Errorf("%s %s is not marked as a kind of Sensu", c.kind, c.spec)
			}
		}
	}
}
