package cli_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestRouteTest shows the router's decision: no default route for a check with pipelines of Sensu, and
// dependencies and the rate of a route.
func TestRouteTest(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", nil, "web01")
	rig.Apply(`
kind: Handler
metadata: {name: pager}
spec: {command: "true"}
---
kind: Route
metadata: {name: default}
spec: {rate: {messages: 20}, steps: [{to: [pager]}]}
---
kind: Pipeline
metadata: {name: alerts}
spec: {workflows: [{name: all, handler: pager}]}
---
kind: Check
metadata: {name: database}
spec: {targets: {nodes: [web01]}, interval: 60s, command: "true"}
---
kind: Check
metadata: {name: shop}
spec: {targets: {nodes: [web01]}, interval: 60s, command: "true", dependsOn: [database]}
---
kind: Check
metadata: {name: kept}
spec: {targets: {nodes: [web01]}, interval: 60s, command: "true", pipelines: [alerts]}
`)
	says := func(check string, want ...string) string {
		t.Helper()
		x.text.Reset()
		x.run("", "route test web01/"+check)
		for _, text := range want {
			if !strings.Contains(strings.Join(strings.Fields(x.text.String()), " "), text) {
				t.Errorf("no %q in\n%s", text, x.text.String())
			}
		}
		return x.text.String()
	}
	if out := says("kept", "nobody but whom pipelines pass it on to", "muster why: alerts"); strings.Contains(out, "pager") {
		t.Errorf("the router tells nobody:\n%s", out)
	}
	out := says("shop", "no other route matches", "while this dependency fails: default/web01/database", "at most 20 messages in 1h")
	if strings.Contains(out, "it depends on") {
		t.Errorf("it is well:\n%s", out)
	}
	rig.Result("default", "web01", "database", model.Critical, "gone")
	says("shop", "held, without a known end", "it depends on default/web01/database")
}
