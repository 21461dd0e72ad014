//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// taggedTemplate has a route for a tag, and a Template with a trigger that is true at once and has this tag.
const taggedTemplate = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
---
kind: Route
metadata: {name: availability}
spec: {match: {labels: {scope: availability}}, groupBy: ["label:service"], groupWait: 0s, steps: [{to: [hook]}]}
---
kind: Template
metadata: {name: linux}
spec:
  targets: {groups: [all]}
  tags: {service: shop}
  macros: {"{$UPTIME}": "1"}
  items: [{key: system.uptime, type: unsigned, interval: 1s, unit: s, tags: {component: os}}]
  triggers:
    - name: machine is up
      expression: "last(//system.uptime)>{$UPTIME}"
      tags: {scope: %s, host: "{HOST.NAME}"}
      operationalData: "up for {ITEM.LASTVALUE1}"
      description: "{HOST.NAME} is up for more than {$UPTIME} s."
    - {name: plain, expression: "last(//system.uptime)>0"}
`

// TestTagsOfTriggersAreLabels expects lists, routes, silences and messages to know the tags of a trigger as labels. An edit changes the labels of the open problem; a kill of the server keeps them.
func TestTagsOfTriggersAreLabels(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	hook := newWebhook(t, 0)
	s.StartAgent("db1")
	s.Apply(fmt.Sprintf(taggedTemplate, hook.URL, "availability"))
	const labels = "component=os,host=db1,scope=availability,service=shop"
	s.AwaitOutput("get events -l scope=availability,service", "linux:machine is up", "up for ")
	for command, want := range map[string][]string{
		"describe event": {labels, "db1 is up for more than 1 s.", "up for "},
		"why":            {"label scope=availability", "db1 is up for more than 1 s."},
		"route test":     {"availability", "hook"},
	} {
		harness.Run(t, s.Env(), append(strings.Fields(command), "db1/linux:machine is up")...).Expect(0, want...)
	}
	for _, command := range []string{"get events -l scope=availability", "get problems -l component=os,scope", "get events --where event.labels.host==\"db1\""} {
		if out := harness.Run(t, s.Env(), strings.Fields(command)...).Expect(0, "machine is up"); strings.Contains(fmt.Sprint(out), "plain") && !strings.Contains(command, "component") {
			t.Errorf("%s: %v", command, out)
		}
	}
	harness.Run(t, s.Env(), "get", "events", "-l", "scope=capacity").Expect(0)
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "linux:machine is up", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1, "problems: %v %+v", err, problems.Items)
	harness.Until(t, 40*time.Second, "a message about the problem by the route", func() (string, bool) {
		kinds := hook.kindsOf(problems.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 1
	})
	hook.mu.Lock()
	for _, body := range hook.bodies {
		assert(t, strings.Contains(body, `"scope":"availability"`) && strings.Contains(body, "db1 is up for more than 1 s.") && strings.Contains(body, "up for "), "message %s", body)
	}
	hook.mu.Unlock()

	s.Apply(fmt.Sprintf(taggedTemplate, hook.URL, "capacity")) // the problem stays open
	s.AwaitOutput("get problems -l scope=capacity", problems.Items[0].ID[:8])
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("get problems -l scope=capacity,service=shop", problems.Items[0].ID[:8])
	harness.Run(t, s.Env(), "silence", "-l", "scope=capacity", "--for", "1h", "-m", "moving").Expect(0, "open now: 1 problem")
	harness.Run(t, s.Env(), "describe", "event", "db1/linux:machine is up").Expect(0, "silenced by", "scope=capacity")
}
