package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// numberedNames returns n names that end in consecutive numbers, such as web01, web02.
func numberedNames(format string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(format, i+1))
	}
	return list
}

const nightChecks = `{kind: Group, metadata: {name: web}, spec: {where: 'node.labels.role == "web"', properties: {load_warn: 5}}}
---
{kind: Group, metadata: {name: odd}, spec: {nodes: [web01, web03], properties: {load_warn: 7}}}
---
{kind: Handler, metadata: {name: pager}, spec: {webhook: {url: "https://pager.example/hook"}}}
---
{kind: Check, metadata: {name: disk}, spec: {targets: {groups: [all]}, interval: 60s, command: check_disk, alert: {handlers: [pager]}}}
---
{kind: Check, metadata: {name: load}, spec: {targets: {groups: [web]}, interval: 60s, command: "check_load -w {{ .props.load_warn }}"}}
---
{kind: Check, metadata: {name: replication}, spec: {targets: {nodes: [db01]}, interval: 60s, command: "check_repl --lag {{ .props.max_lag }}"}}
`

// TestStatusOfManyFaults runs muster status with many problems and expects the worst first, on one screen of 80
// columns.
func TestStatusOfManyFaults(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	x.wide = 80
	web := numberedNames("web%02d", 50)
	rig.DeclareNodes("default", map[string]string{"role": "web"}, web...)
	rig.DeclareNodes("default", nil, "db01")
	rig.Apply(nightChecks)
	rig.Advance(50 * time.Minute)
	for i, node := range web {
		status, output := model.OK, "DISK OK - 40% free | '/'=60%;80;90"
		if i < 37 {
			status, output = model.Critical, "DISK CRITICAL - /var is full: 99% of 20 GiB | '/'=99%;80;90"
		}
		rig.RecordResult("default", node, "disk", status, output)
	}
	rig.RecordResult("default", "web50", "load", model.Warning, "LOAD WARNING - load 12.1")
	rig.RecordResult("default", "db01", "replication", model.Unknown, `property "max_lag" is not set and has no default`)
	rig.Advance(5 * time.Minute)
	rig.RecordResult("default", "db01", "disk", model.Critical, "DISK CRITICAL - /srv is full")
	for i, node := range web[40:47] {
		rig.Advance(time.Second)
		rig.RecordMissedKeepalive(node, "no heartbeat for 2m")
		rig.SetSession(web[i], &v1.AgentSession{Version: "0.1.0", Stats: &v1.AgentStats{Spooled: uint64(100 * (i + 1)), OldestSeconds: float64(100 * i)}})
	}
	recordFailedDelivery(t, rig, "p1", 4*time.Minute, time.Minute, "POST https://pager.example/hook: answered 503 Service Unavailable")
	rig.Pending = 2
	rig.ChangeStatus = func(s *v1.Status) {
		s.Connected = 43
		s.Journal = v1.Journal{SizeBytes: 3 << 30, BudgetBytes: 4 << 30, FreeBytes: 800 << 20, QueuedBytes: 1 << 20}
		s.Reactions = v1.Reactions{Waiting: 1200, BehindSeconds: 95, Late: true}
		s.Warnings = append(s.Warnings, "namespace default met a limit 12 times, last by node web07: this node is at its limit of 100 results per second; spec.limits.nodeResultsPerSec: muster edit namespace default")
	}
	out, _ := x.runCommandLine("", "status")
	if lines := strings.Count(out, "\n"); lines > 40 {
		t.Errorf("%d lines are more than a screen", lines)
	}
	x.assertWidth(out, 80, "")
	x.expectOutput("", "status --exit-code -n default", 21)
	x.assertTranscript("status_faults.golden")
	var s v1.Status
	if out, _ := x.runCommandLine("", "status -o json"); json.Unmarshal([]byte(out), &s) != nil || s.Wrong[0].Nodes != 38 || s.Faulty != 3 || s.Unsent[0].Failing != 1 || len(s.SpoolingNow) != 3 {
		t.Errorf("as JSON:\n%s", out)
	}
}

// TestStatusInFiveServerStates runs muster status in five states of the server, and compares the output with
// expected text. The server has no nodes, is healthy, has just started, is not ready, or is stopped.
func TestStatusInFiveServerStates(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	x.wide = 80
	rig.ChangeStatus = func(s *v1.Status) { s.Connected = 0 }
	x.runCommandLine("", "status")
	rig.Pending = 1
	x.runCommandLine("", "status")
	rig.Pending = 0
	rig.DeclareNodes("default", nil, "web01", "web02", "web03")
	rig.RecordSession("web01", true, false)
	x.runCommandLine("", "status")
	rig.Apply(disk)
	x.expectOutput("", "status --exit-code", 0)
	rig.Apply("kind: Namespace\nmetadata: {name: web}\n")
	x.runCommandLine("", "status -n web")
	for _, node := range []string{"web01", "web02", "web03"} {
		rig.RecordSession(node, true, false)
		rig.RecordResult("default", node, "disk", model.OK, "DISK OK")
	}
	rig.ChangeStatus = func(s *v1.Status) { s.Connected = 3 }
	x.expectOutput("", "status --exit-code", 0)
	rig.ChangeStatus = func(s *v1.Status) { s.Started, s.Connected = rig.Now().Add(-40*time.Second), 1 }
	x.runCommandLine("", "status")
	rig.ChangeStatus = func(s *v1.Status) { s.Connected = 3 }
	rig.SetSession("web01", &v1.AgentSession{Stats: &v1.AgentStats{Spooled: 12, OldestSeconds: 100}})
	x.expectOutput("", "status --exit-code", 20)
	rig.SetSession("web01", nil)
	rig.RecordMissedKeepalive("web02", "no heartbeat for 2m")
	x.expectOutput("", "status --exit-code", 21)
	rig.NotReady = []string{"the journal does not commit: no space left on device"}
	x.runCommandLine("", "status")
	x.env["MUSTER_SERVER"] = "https://127.0.0.1:1"
	x.runCommandLine("", "status")
	x.assertTranscript("status.golden")
}

// TestStatusWarnsWithoutRoute expects a warning in muster status while open problems match no route.
func TestStatusWarnsWithoutRoute(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	rig.Apply(`
{kind: Check, metadata: {name: disk}, spec: {targets: {nodes: [web01]}, interval: 60s, command: "true"}}
`)
	status := func() string {
		x.text.Reset()
		x.runCommandLine("", "status")
		return strings.Join(strings.Fields(x.text.String()), " ")
	}
	const nobody = "no handler is notified of 1 open problem (web01/disk)"
	rig.RecordResult("default", "web01", "disk", model.OK, "fine")
	if out := status(); strings.Contains(out, nobody) {
		t.Errorf("a warning without a problem:\n%s", out)
	}
	rig.RecordResult("default", "web01", "disk", model.Critical, "full")
	if out := status(); !strings.Contains(out, nobody) || !strings.Contains(out, "muster handler create") {
		t.Errorf("the warning is missing:\n%s", out)
	}
	rig.Apply(`
{kind: Handler, metadata: {name: pager}, spec: {command: "true"}}
---
{kind: Route, metadata: {name: default}, spec: {steps: [{to: [pager]}]}}
`)
	if out := status(); strings.Contains(out, nobody) {
		t.Errorf("a warning despite the route:\n%s", out)
	}
}

// TestStatusCountsHandledProblemsSeparately expects muster status to count acknowledged, silenced and similar
// problems separately from other problems. Acknowledged, silenced and maintained problems are handled.
func TestStatusCountsHandledProblemsSeparately(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	x.wide = 100
	rig.DeclareNodes("default", nil, "web01", "web02", "web03", "web04", "web05")
	rig.Apply(`
{kind: Handler, metadata: {name: pager}, spec: {command: "true"}}
---
{kind: Route, metadata: {name: default}, spec: {steps: [{to: [pager]}]}}
---
{kind: Check, metadata: {name: disk}, spec: {targets: {groups: [all]}, interval: 60s, command: "true"}}
---
{kind: Check, metadata: {name: load}, spec: {targets: {groups: [all]}, interval: 60s, command: "true", alert: {failAfter: 5}}}
---
{kind: Silence, metadata: {name: moving}, spec: {targets: {nodes: [web02]}, reason: "racks"}}
---
{kind: Window, metadata: {name: patches}, spec: {spans: [{during: "mon-sun"}], maintenance: {targets: {nodes: [web03]}}}}
`)
	rig.Advance(time.Hour)
	for _, node := range []string{"web01", "web02", "web03"} {
		rig.RecordResult("default", node, "disk", model.Critical, "full")
	}
	rig.RecordResult("default", "web01", "load", model.Critical, "high once")
	rig.ChangeStatus = func(s *v1.Status) { s.Connected = 5 }
	x.runCommandLine("", "event ack web01/disk -m mine")
	x.expectOutput("", "status --exit-code", 0)
	rig.RecordResult("default", "web05", "disk", model.Warning, "filling")
	x.expectOutput("", "status --exit-code", 20)
	rig.ConnectNodes("default", "web04")
	rig.Advance(5 * time.Minute)
	rig.RecordMissedKeepalive("web04", "no heartbeat for 2m")
	x.expectOutput("", "status --exit-code", 21)
	x.assertTranscript("status_handled.golden")
	var s v1.Status
	out, _ := x.runCommandLine("", "status -o json")
	testenv.NoError(t, json.Unmarshal([]byte(out), &s))
	if sum := s.Silent + s.Unhandled.NotOK() + s.Handled.Sum(); sum != s.Problems || s.Problems != 5 || s.NoProblem != 1 || s.Handled != (v1.Handled{Acknowledged: 1, Silenced: 1, Maintenance: 1}) {
		t.Errorf("%d of %d problems: %+v, %+v, %d without a problem", sum, s.Problems, s.Unhandled, s.Handled, s.NoProblem)
	}
	if s.SilentNow[0].Node != "web04" || rig.Now().Sub(s.SilentNow[0].LastHeartbeat) < 5*time.Minute {
		t.Errorf("%+v", s.SilentNow)
	}
}

// TestDescribeNode expects muster describe node to show the reasons for groups, labels and properties. The output must
// fit in 80 columns.
func TestDescribeNode(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.Apply(`
{kind: Group, metadata: {name: web}, spec: {properties: {proxy: {host: proxy.example.com, port: 3128}, disk_warn: 20%}}}
---
{kind: Group, metadata: {name: prod}, spec: {where: 'node.labels.env == "prod"', properties: {pool: large}}}
---
{kind: Group, metadata: {name: big}, spec: {where: int(node.facts.cpus) >= 8, properties: {pool: huge}}}
---
{kind: Group, metadata: {name: canary}, spec: {selfJoin: true}}
---
{kind: Group, metadata: {name: payment}, spec: {trusted: true, where: node.labels.role == "payment"}}
---
{kind: Group, metadata: {name: all-web}, spec: {groups: [web, canary]}}
---
{kind: Property, metadata: {name: proxy}, spec: {scope: global, value: {port: 8080, tls: true}}}
---
{kind: Property, metadata: {name: site}, spec: {value: fra}}
---
{kind: Check, metadata: {name: pool}, spec: {targets: {groups: [web]}, interval: 60s, command: 'check_pool {{ .props.pool }} {{ .props.proxy.host }}'}}
`)
	rig.JoinNodeWith("web01", map[string]string{"env": "prod"}, model.NodeSpec{
		JoinGrant:   &model.JoinGrant{Token: "4f1cba9876543210", Groups: []string{"web"}, Labels: map[string]string{"env": "test", "cell": "c7"}, Lifecycle: &model.Lifecycle{Ephemeral: true}},
		AgentGroups: []string{"canary", "nowhere", "payment", "web"},
		AgentLabels: map[string]string{"env": "staging", "role": "payment", "rack": "r7"},
		Properties:  map[string]json.RawMessage{"disk_warn": []byte(`"10%"`)},
		Facts: map[string]string{
			"hostname": "web01", "fqdn": "web01.example.com", "os": "linux", "arch": "arm64", "distribution": "debian", "distributionVersion": "12",
			"distributionName": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0-28-cloud-arm64", "cpus": "8", "memory": "16677531648",
			"addresses": "192.0.2.7,192.0.2.8,198.51.100.23,2001:db8::7,2001:db8:85a3::8a2e:370:7334", "virtualisation": "kvm", "cloud": "aws",
			"cloudInstance": "i-0abcd1234ef567890", "cloudRegion": "eu-central-1", "cloudZone": "eu-central-1b", "cloudType": "m7g.2xlarge",
			"agentVersion": "1.2.0", "rack": "unknown", "ofTomorrow": "yes",
		},
	})
	x.wide = 80
	out, _ := x.runCommandLine("", "describe node web01")
	x.assertWidth(out, 80, "  ")
	x.assertTranscript("describe_node.golden")
}

// TestRouteTestShowsMatchingRoutes runs muster route test and expects the matching routes with their dependencies and
// rate limit.
func TestRouteTestShowsMatchingRoutes(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	rig.Apply(`
{kind: Handler, metadata: {name: pager}, spec: {command: "true"}}
---
{kind: Route, metadata: {name: default}, spec: {rate: {messages: 20}, steps: [{to: [pager]}]}}
---
{kind: Pipeline, metadata: {name: alerts}, spec: {workflows: [{name: all, handler: pager}]}}
---
{kind: Check, metadata: {name: database}, spec: {targets: {nodes: [web01]}, interval: 60s, command: "true"}}
---
{kind: Check, metadata: {name: shop}, spec: {targets: {nodes: [web01]}, interval: 60s, command: "true", dependsOn: [database]}}
---
{kind: Check, metadata: {name: kept}, spec: {targets: {nodes: [web01]}, interval: 60s, command: "true", pipelines: [alerts]}}
`)
	expectRoute := func(check string, want ...string) string {
		t.Helper()
		x.text.Reset()
		x.runCommandLine("", "route test web01/"+check)
		for _, text := range want {
			if !strings.Contains(strings.Join(strings.Fields(x.text.String()), " "), text) {
				t.Errorf("no %q in\n%s", text, x.text.String())
			}
		}
		return x.text.String()
	}
	if out := expectRoute("kept", "only the handlers of pipelines:", "muster why shows its pipelines, which decide separately: alerts"); strings.Contains(out, "pager") {
		t.Errorf("the router names a handler for a check with pipelines:\n%s", out)
	}
	out := expectRoute("shop", "no other route matches", "while this dependency fails: default/web01/database", "at most 20 messages in 1h")
	if strings.Contains(out, "it depends on") {
		t.Errorf("held by a dependency that is OK:\n%s", out)
	}
	rig.RecordResult("default", "web01", "database", model.Critical, "gone")
	expectRoute("shop", "held, without a known end", "it depends on default/web01/database")
}
