//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

const switches = `{kind: Node, metadata: {name: switch1, labels: {kind: switch}},
  spec: {proxy: true, properties: {address: 192.0.2.1}}}
---
{kind: Node, metadata: {name: switch2, labels: {kind: switch}},
  spec: {proxy: true, properties: {address: 192.0.2.2}}}
---
`

// Each proxy node that an agent checks has events and problems of its own. Nodes come and go with their declarations,
// spooled results arrive once, and no machine becomes a proxy node.
func TestProxyNodesHaveEvents(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	api := s.API
	s.Apply(switches + `{kind: Check, metadata: {name: ping},
  spec: {targets: {nodes: [poller]}, proxy: {where: node.labels.kind == "switch"}, interval: 1s, command: 'echo "$MUSTER_NODE at {{ .props.address }}"; test "$MUSTER_NODE" != switch2 || exit 2'}}
`)
	s.StartAgent("poller")
	sees := func(node, output string, status model.Status) {
		t.Helper()
		awaitEvent(t, api, node, "ping", node+" has an event", func(e v1.Event) bool {
			return e.Output == output && e.Status == status && e.RanBy == "poller" && (e.Problem != nil) == (status != model.OK)
		})
	}
	sees("switch1", "switch1 at 192.0.2.1", model.OK)
	sees("switch2", "switch2 at 192.0.2.2", model.Critical)
	s.Try("describe", "event", "poller/ping").Expect(harness.AnyFailure)
	s.Try("describe", "event", "switch2/ping").Expect(0, ", by poller")
	s.Try("get", "nodes").Expect(0, "proxy")
	s.Try("get", "events", "--node", "switch1").Expect(harness.AnyCode).ExpectNot("keepalive")

	s.Apply("kind: Node\nmetadata: {name: switch3, labels: {kind: switch}}\nspec: {proxy: true, properties: {address: 192.0.2.3}}\n")
	sees("switch3", "switch3 at 192.0.2.3", model.OK)
	s.CLI("delete", "node", "switch3", "--yes")
	harness.Until(t, 20*time.Second, "the event goes with the node", func() (string, bool) {
		r := harness.Run(t, s.Env(), "get", "events", "-A")
		return r.Out, r.Code == 0 && !strings.Contains(r.Out, "switch3")
	})

	// Results that the agent spooled while the server was down arrive once.
	before := getEvent(t, api, "switch1", "ping")
	s.Stop()
	s.Start()
	s.WaitReady(30 * time.Second)
	api = s.Client()
	awaitEvent(t, api, "switch1", "ping", "results go on, and none is lost", func(e v1.Event) bool { return e.Results > before.Results+3 && e.Lost == 0 && e.RanBy == "poller" })
	e := getEvent(t, api, "switch1", "ping")
	if took := e.Received.Sub(before.Received); e.Results-before.Results > uint64(took/time.Second)+3 {
		t.Errorf("%d results in %s of a check that runs once a second", e.Results-before.Results, took)
	}

	// A machine with a proxy node's name becomes another node; a node with a machine cannot become a proxy node.
	s.StartAgent("switch1")
	s.AwaitOutput("get nodes", "switch1-2")
	path := tempFile(t, "poller.yaml", "kind: Node\nmetadata: {name: poller}\nspec: {proxy: true}\n")
	s.Try("apply", "-f", path, "--yes").Expect(harness.AnyFailure, "so the node cannot become a proxy node")
}

// TestRoundRobinTakesOverHangingAgents suspends one of two agents in a round-robin check, and expects runs on
// the other agent. Without any agent the event says so.
func TestRoundRobinTakesOverHangingAgents(t *testing.T) {
	skipIfShort(t, "waits for turns of several intervals")
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s", "--reconnect-grace", "1s")
	ran := filepath.Join(t.TempDir(), "ran")
	s.Apply(switches + fmt.Sprintf(`{kind: Check, metadata: {name: ping},
  spec: {targets: {nodes: [poller1, poller2]}, proxy: {where: node.labels.kind == "switch"}, roundRobin: true, interval: 2s, timeout: 1s, command: 'echo "$MUSTER_NODE" >>%s; echo "{{ .props.address }} answers"'}}
`, ran))
	one, two := s.NewAgent("poller1"), s.NewAgent("poller2")
	one.Start()
	two.Start()
	runs := func() int {
		data, _ := os.ReadFile(ran)
		return strings.Count(string(data), "\n")
	}
	// by waits until the last results of both switches are of these pollers only, and all
	// of them were seen.
	by := func(why string, pollers ...string) {
		t.Helper()
		seen := map[string]bool{}
		harness.Until(t, 40*time.Second, why, func() (string, bool) {
			for _, node := range []string{"switch1", "switch2"} {
				if e := getEvent(t, s.API, node, "ping"); e.Status == model.OK && strings.HasSuffix(e.Output, " answers") {
					seen[node+" by "+e.RanBy] = true
				}
			}
			for _, p := range pollers {
				if !seen["switch1 by "+p] && !seen["switch2 by "+p] {
					return fmt.Sprint(seen), false
				}
			}
			return fmt.Sprint(seen), true
		})
	}
	by("both take turns", "poller1", "poller2")
	before, began := runs(), time.Now()
	harness.Until(t, 40*time.Second, "six more runs", func() (string, bool) { return fmt.Sprint(runs()), runs() >= before+6 })
	n, most := runs()-before, 2*(int(time.Since(began)/(2*time.Second))+2)
	assert(t, n <= most, "%d runs of two switches in %s, at most %d: each agent runs it by itself", n, time.Since(began), most)

	// A hanging agent keeps its session, and the other agent gets its turns.
	one.Signal(syscall.SIGSTOP)
	was := [2]uint64{getEvent(t, s.API, "switch1", "ping").Results, getEvent(t, s.API, "switch2", "ping").Results}
	harness.Until(t, 40*time.Second, "the other agent takes the turns of the hanging one", func() (string, bool) {
		a, b := getEvent(t, s.API, "switch1", "ping"), getEvent(t, s.API, "switch2", "ping")
		return fmt.Sprintf("%+v\n%+v", a, b), a.RanBy == "poller2" && b.RanBy == "poller2" && a.Results >= was[0]+3 && b.Results >= was[1]+3
	})
	one.Signal(syscall.SIGCONT)
	by("it comes back", "poller1")

	// The other agent gets the turns of a dead agent.
	two.Kill()
	was = [2]uint64{getEvent(t, s.API, "switch1", "ping").Results, getEvent(t, s.API, "switch2", "ping").Results}
	harness.Until(t, 40*time.Second, "the other agent takes the turns of the dead one", func() (string, bool) {
		a, b := getEvent(t, s.API, "switch1", "ping"), getEvent(t, s.API, "switch2", "ping")
		return fmt.Sprintf("%+v\n%+v", a, b), a.RanBy == "poller1" && b.RanBy == "poller1" && a.Results >= was[0]+3 && b.Results >= was[1]+3
	})
	one.Kill()
	awaitEvent(t, s.API, "switch1", "ping", "nobody is there", func(e v1.Event) bool {
		return e.Status == model.Unknown && e.Output == "no member of ping's targets is connected" && e.RanBy == ""
	})
	s.Try("status").Expect(0, "check ping: no member of ping's targets is connected")
	two.Start()
	by("and then somebody is", "poller2")
}
