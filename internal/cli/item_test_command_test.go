package cli

import (
	"strings"
	"testing"
)

const itemTestFile = `
kind: Template
metadata: {name: nginx}
spec:
  macros: {"{$MAX}": "5"}
  items:
    - {key: status, type: text, trapper: true, steps: [{trim: " "}]}
    - {key: requests, type: float, from: status, steps: [{jsonPath: $.requests}, {changePerSecond: [], onFail: {error: no requests}}]}
    - {key: hourly, formula: "3600*last(//requests)", unit: requests}
    - {key: daily, formula: "24*last(//hourly)"}
    - {key: up, type: boolean, from: status, steps: [{jsonPath: $.up, onFail: {value: "0"}}]}
  discovery:
    - key: pages
      from: status
      steps: [{jsonPath: $.pages}]
      paths: {"{#PAGE}": $.name}
      filter: {conditions: [{macro: "{#KIND}", notMatches: "^old$"}]}
      items:
        - {key: "page.load[{#PAGE}]", interval: 5m}
        - {key: "page.hits[{#PAGE}]", from: status, steps: [{jsonPath: "$.hits['{#PAGE}']"}]}
      triggers: [{name: "{#PAGE} is busy", expression: "last(//page.hits[{#PAGE}])>{$MAX}"}]
      overrides: [{name: root, filter: {conditions: [{macro: "{#PAGE}", matches: "^/$"}]}, triggers: [{severity: disaster}]}]
  triggers:
    - {name: busy, expression: "last(//requests)>{$MAX}", recovery: "last(//requests)<1"}
    - {name: down, expression: "last(//up)=0"}
`

// TestItemTestShowsEachStep passes values through an item with dependent items and triggers, and expects each step
// with its output. Failures must show their reasons, and triggers with a value their results.
func TestItemTestShowsEachStep(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--item", "status", "--value", ` {"requests": 60, "up": true} `, "--value", `{"requests": 660}`}, 0, []string{
			"step 1", `trim: "{\"requests\": 60, \"up\": true}"`, `jsonPath $.requests: "60"`, "changePerSecond: no value", "no value: a step discarded it",
			`jsonPath $.up: "true"`, "down: false  (last(//up)=0)", "changePerSecond: 10", "hourly (float)", "36000", "daily (float)", "864000", "busy: true  (last(//requests)>{$MAX})", "recovery", "false  (last(//requests)<1)",
			"no data matches the specified path", `onFail: "0"`, "down: true",
		}},
		{[]string{"--item", "status", "--value", `{"requests": 0}`, "--value", `{"requests": 660}`, "--macro", "{$MAX}=50"}, 0, []string{"busy: false"}},
		{[]string{"--item", "status", "--value", `{"pages": [{"name": "/", "{#KIND}": "new"}, {"name": "/a", "{#KIND}": "old"}]}`, "--value", `{"pages": []}`}, 0, []string{
			"left out", "{#KIND}=old {#PAGE}=/a  (by the filter)", "entity", "{#PAGE}=/", "page.load[/]  every 5m", "page.hits[/]  from status",
			"/ is busy  last(//page.hits[/])>{$MAX}  (disaster)", "{#PAGE}=/  (lost)",
		}},
		{[]string{"--item", "pages", "--value", `{"pages": 5}`}, 0, []string{"unsupported: no list of entities"}},
		{[]string{"--item", "requests", "--value", "broken"}, 0, []string{"jsonPath $.requests: failed: ", "unsupported: "}},
		{[]string{"--item", "nosuch", "--value", "1"}, 3, []string{"the template has no item nosuch", "daily, hourly, pages, requests, status, up"}},
		{[]string{"--item", "status"}, 2, []string{"the item or a value is missing"}},
		{[]string{"--item", "status", "--value", "1", "--template", "other"}, 3, []string{"the files do not contain the requested Template"}},
		{[]string{"--item", "status", "--value", "1", "--macro", "MAX=5"}, 2, []string{"is not {$NAME}=VALUE"}},
	} {
		code, stdout, stderr := runCommandLine(t, itemTestFile, append([]string{"item", "test", "-f", "-"}, c.args...)...)
		if code != c.code {
			t.Errorf("%v: code %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("%v: no %q in\n%s%s", c.args, want, stdout, stderr)
			}
		}
	}
}
