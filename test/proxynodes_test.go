package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

const switches = `kind: Node
metadata: {name: switch1, labels: {kind: switch}}
spec: {proxy: true, properties: {address: 192.0.2.1}}
---
kind: Node
metadata: {name: switch2, labels: {kind: switch}}
spec: {proxy: true, properties: {address: 192.0.2.2}}
---
`

// One agent answers for things without one: each has its own event with its own properties,
// says who ran it, and opens its own problem; what is declared anew arrives, what is deleted
// goes with its events; the agent that is cut off tells later, once; no machine can become one.
func TestProxyNodes(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	api := s.Client()
	s.Apply(switches + `kind: Check
metadata: {name: ping}
spec:
  targets: {nodes: [poller]}
  proxy: {where: 'node.labels.kind == "switch"'}
  interval: 1s
  command: 'echo "$MUSTER_NODE at {{ .props.address }}"; test "$MUSTER_NODE" != switch2 || exit 2'
`)
	poller := s.NewAgent("poller")
	poller.Start()
	sees := func(node, output string, status model.Status) {
		t.Helper()
		harness.Until(t, 30*time.Second, node+" has an event", func() (string, bool) {
			e := eventOf(t, api, node, "ping")
			return fmt.Sprintf("%+v", e), e.Output == output && e.Status == status && e.RanBy == "poller" && (e.Problem != nil) == (status != model.OK)
		})
	}
	sees("switch1", "switch1 at 192.0.2.1", model.OK)
	sees("switch2", "switch2 at 192.0.2.2", model.Critical)
	if r := harness.Run(t, s.Env(), "describe", "event", "poller/ping"); r.Code == 0 {
		t.Errorf("who runs it has an event of its own:\n%s", r.Out)
	}
	if out := s.CLI("describe", "event", "switch2/ping"); !strings.Contains(out, ", by poller") {
		t.Errorf("who ran it is not said:\n%s", out)
	}
	if out := s.CLI("get", "nodes"); !strings.Contains(out, "proxy") {
		t.Errorf("a proxy node looks like any other:\n%s", out)
	}
	if r := harness.Run(t, s.Env(), "get", "events", "--node", "switch1"); strings.Contains(r.Out, "keepalive") {
		t.Errorf("a keepalive is waited for:\n%s", r.Out)
	}

	s.Apply("kind: Node\nmetadata: {name: switch3, labels: {kind: switch}}\nspec: {proxy: true, properties: {address: 192.0.2.3}}\n")
	sees("switch3", "switch3 at 192.0.2.3", model.OK)
	s.CLI("delete", "node", "switch3", "--yes")
	harness.Until(t, 20*time.Second, "the event goes with the node", func() (string, bool) {
		r := harness.Run(t, s.Env(), "get", "events", "-A")
		return r.Out, r.Code == 0 && !strings.Contains(r.Out, "switch3")
	})

	// What the agent spooled while the server was away comes in once.
	before := eventOf(t, api, "switch1", "ping")
	s.Stop()
	s.Start()
	s.WaitReady(30 * time.Second)
	api = s.Client()
	harness.Until(t, 30*time.Second, "results go on, and none is lost", func() (string, bool) {
		e := eventOf(t, api, "switch1", "ping")
		return fmt.Sprintf("%+v", e), e.Results > before.Results+3 && e.Lost == 0 && e.RanBy == "poller"
	})
	e := eventOf(t, api, "switch1", "ping")
	if took := e.Received.Sub(before.Received); e.Results-before.Results > uint64(took/time.Second)+3 {
		t.Errorf("%d results in %s of a check that runs once a second", e.Results-before.Results, took)
	}

	// A machine that says it is one is another node; what has a machine is none.
	s.NewAgent("switch1").Start()
	harness.Until(t, 30*time.Second, "the machine is a node of its own", func() (string, bool) {
		out := s.CLI("get", "nodes")
		return out, strings.Contains(out, "switch1-2")
	})
	path := filepath.Join(t.TempDir(), "poller.yaml")
	if err := os.WriteFile(path, []byte("kind: Node\nmetadata: {name: poller}\nspec: {proxy: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := harness.Run(t, s.Env(), "apply", "-f", path, "--yes"); r.Code == 0 || !strings.Contains(r.Errors, "it cannot be a proxy node") {
		t.Errorf("a machine became a proxy node: %d\n%s%s", r.Code, r.Out, r.Errors)
	}
}
