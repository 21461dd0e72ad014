//go:build linux

package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// metricsTemplate has items of an agent, a trigger that is true at once, and a key that no agent knows.
const metricsTemplate = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
---
{kind: Property, metadata: {name: uptime}, spec: {property: "{$UPTIME}", scope: global, value: 0}}
---
kind: Template
metadata: {name: linux}
spec:
  targets: {groups: [all]}
  items:
    - {key: system.uptime, type: unsigned, interval: 1s, unit: s}
    - {key: "vm.memory.size[pavailable]", interval: 1s, unit: "%%"}
    - {key: "net.if.in[lo]", interval: 1s, unit: bps, steps: [{changePerSecond: []}, {multiplier: "8"}]}
    - {key: "nosuch.key[x]", interval: 1s}
    - {key: agent.ping, interval: 1s, valueMap: state}
    - {key: "net.if.out[{$IF}]", interval: 1s}
    - {key: backup.age, trapper: true}
    - {key: ups.walk, type: text, notCollected: SNMP}
    - {key: ups.load, from: ups.walk}
  valueMaps: [{name: state, mappings: [{value: "1", text: up}]}]
  macros: {"{$UPTIME}": "1000000000"}
  triggers:
    - {name: machine is up, expression: "min(//system.uptime,#3)>{$UPTIME}", severity: high, alert: {handlers: [hook]}}
`

// TestTemplateValuesOpenProblem applies a Template, kills the server while values come, and finds the values, one problem of
// the trigger and one message about it.
func TestTemplateValuesOpenProblem(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	hook := newWebhook(t, 0)
	s.StartAgent("db1")
	s.Apply(fmt.Sprintf(metricsTemplate, hook.URL))
	s.AwaitOutput("get items", "system.uptime")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("get items", "nosuch.key[x]", "unsupported: unknown key nosuch.key", "net.if.in[lo]", "up (1)", "unsupported: the macro {$IF} has no value here",
		"no value yet: others send it", "ups.load", "not collected: SNMP")
	s.AwaitOutput("get problems", "db1", "linux:machine is up")
	s.Kill() // the verdict is in the journal, or is computed again from the values
	s.Launch()
	s.WaitReady(40 * time.Second)
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1, "problems: %v %+v", err, problems.Items)
	harness.Until(t, 40*time.Second, "one message about the problem", func() (string, bool) {
		kinds := hook.kindsOf(problems.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 1
	})
	harness.Run(t, s.Env(), "why", "db1/linux:machine is up").Expect(0, "CRITICAL", "delivered")
	s.AwaitOutput("describe item db1/system.uptime", "machine is up: PROBLEM")
}
