package kind

import (
	"strings"
	"testing"
)

// What nobody runs says nothing of how to run it.
func TestPassiveChecksAreLookedThrough(t *testing.T) {
	for yaml, want := range map[string]string{
		"passive: true, ttl: 5m, alert: {failAfter: 2}, severity: {critical: disaster}": "",
		"passive: true, command: 'true'":                                                "spec.command: nobody runs a passive check",
		"passive: true, interval: 60s":                                                  "spec.interval: nobody runs",
		"passive: true, targets: {groups: [all]}":                                       "spec.targets: nobody runs",
		"passive: true, proxy: {nodes: [x]}":                                            "spec.proxy: nobody runs",
		"passive: true, metrics: {format: nagios}":                                      "spec.metrics: nobody runs",
		"interval: 60s": "or passive: true, if its results come from outside",
	} {
		list, err := All().Decode("c", []byte("kind: Check\nmetadata: {name: c}\nspec: {"+yaml+"}\n"))
		if err == nil {
			err = All().Validate(&list[0].Resource)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}

// What is wrong with a check, and where.
func TestChecksAreLookedThrough(t *testing.T) {
	for yaml, want := range map[string]string{
		"command: 'mail-check'\n  stdin: |\n    hello\n    {{ .props.name }}":                                 "",
		"probe: {name: load}\n  stdin: x":                                                                     "a probe reads no standard input",
		"command: 'true'\n  stdin: '{{ .name }}'":                                                             "spec.stdin: column 1",
		"command: 'true'\n  stdin: '(hidden)'":                                                                "spec.stdin: (hidden) stands for",
		"command: x\n  hooks: [{name: top, when: [critical, non-ok, \"127\"], command: top -bn1}]":            "",
		"command: x\n  hooks: [{name: top, when: [bad], command: top}]":                                       "spec.hooks[0].when[0]: \"bad\" is no result",
		"command: x\n  hooks: [{name: top, when: [2], command: top}]":                                         "quote it",
		"command: x\n  hooks: [{name: top, when: [\"256\"], command: top}]":                                   "is no result",
		"command: x\n  hooks: [{name: top, when: [ok]}]":                                                      "spec.hooks[0].command: missing",
		"command: x\n  hooks: [{name: top, command: top}]":                                                    "does not say after which results",
		"command: x\n  hooks: [{name: top, when: [ok], command: top}, {name: top, when: [ok], command: top}]": "a second hook \"top\"",
		"command: x\n  hooks: [{name: top, when: [ok], command: top, timeout: 2m}]":                           "spec.hooks[0].timeout",
		"command: x\n  hooks: [{name: top, when: [ok], command: 'a {{ .x }}'}]":                               "spec.hooks[0].command: column 3",
		"command: x\n  metrics: {format: csv}":                                                                "write nagios, graphite, influxdb, opentsdb, prometheus",
		"probe: {name: load}\n  metrics: {format: nagios, tags: {team: web}}":                                 "",
		"command: x\n  thresholds: [{metric: a, critical: {max: 0}}]":                                         "there are no metrics",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, critical: {max: 0}}]":            "",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a}]":                                "says nothing",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, warning: {}}]":                   "names no bound",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, warning: {min: 3, max: 2}}]":     "min 3 is larger than max 2",
		"command: x\n  metrics: {format: nagios}\n  thresholds: [{metric: a, missing: ok}]":                   "no status to raise to",
		"command: x\n  schedule: {except: [{during: 'sat,sun'}, {window: shared/night}]}":                     "",
		"command: x\n  schedule: {except: [{}]}":                                                              "spec.schedule.except[0]: does not say when",
		"command: x\n  schedule: {except: [{during: 'sat', window: night}]}":                                  "both during and window",
		"command: x\n  schedule: {except: [{cron: '* * * * *'}]}":                                             "cron",
	} {
		list, err := All().Decode("c", []byte("kind: Check\nmetadata: {name: c}\nspec:\n  interval: 60s\n  "+yaml+"\n"))
		if err == nil {
			err = All().Validate(&list[0].Resource)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}
