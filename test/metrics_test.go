//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// metricsTemplate has items of an agent, a trigger that is true at once, and a key that no agent knows.
const metricsTemplate = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
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
  triggers:
    - {name: machine is up, expression: "min(//system.uptime,#3)>0", severity: high, alert: {handlers: [hook]}}
    - {name: "any / of [all]: up", expression: "last(//system.uptime)>0", severity: warning}
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
	s.AwaitOutput("get items", "nosuch.key[x]", "unsupported: unknown key nosuch.key", "net.if.in[lo]")
	s.AwaitOutput("get problems", "db1", "linux:machine is up")
	s.Kill() // the verdict is in the journal, or is computed again from the values
	s.Launch()
	s.WaitReady(40 * time.Second)
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "linux:machine is up", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1, "problems: %v %+v", err, problems.Items)
	harness.Until(t, 40*time.Second, "one message about the problem", func() (string, bool) {
		kinds := hook.kindsOf(problems.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 1
	})
	harness.Run(t, s.Env(), "why", "db1/linux:machine is up").Expect(0, "CRITICAL", "delivered")
	s.AwaitOutput("describe item db1/system.uptime", "machine is up: PROBLEM")

	// What tables print as names of triggers and items is taken by the commands.
	for _, trigger := range []string{"linux:machine is up", "linux:any / of [all]: up"} {
		s.AwaitOutput("get problems", trigger)
		for _, name := range []string{"db1/" + trigger, "default/db1/" + trigger} {
			for _, command := range []string{"describe event", "why", "get event", "get event -A", "get history -A", "event ack", "event unack", "event notify", "report availability", "route test", "silence --for 1h -m x --dry-run"} {
				harness.Run(t, s.Env(), append(strings.Fields(command), name)...).Expect(0)
			}
			harness.Run(t, s.Env(), "get", "history", name).Expect(0, "the first result")
		}
		for _, list := range []string{"events", "problems", "history"} {
			harness.Run(t, s.Env(), "get", list, "--check", trigger, "-A").Expect(0, trigger)
		}
		harness.Run(t, s.Env(), "silence", "db1/"+trigger, "--for", "1h", "-m", "moving").Expect(0, "silences "+trigger+" on 1 node", "open now: 1 problem")
		harness.Run(t, s.Env(), "describe", "event", "db1/"+trigger).Expect(0, "silenced by")
	}
	harness.Run(t, s.Env(), "silence", "db1/nosuch:x", "--for", "1h", "-m", "x").Expect(3, "template/nosuch does not exist")
	harness.Run(t, s.Env(), "describe", "event", "db1/linux:nosuch").Expect(3, `template linux has no trigger "nosuch"`)
	harness.Run(t, s.Env(), "describe", "event", "db1/nosuch:x").Expect(3, `template "nosuch" does not exist`)
	for _, item := range []string{"db1/net.if.in[lo]", "default/db1/net.if.in[lo]"} {
		for _, command := range []string{"get item", "get item -A", "describe item", "describe item -A"} {
			harness.Run(t, s.Env(), append(strings.Fields(command), item)...).Expect(0, "net.if.in[lo]")
		}
	}
}
