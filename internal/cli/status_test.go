package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

func numbered(format string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(format, i+1))
	}
	return list
}

const nightChecks = `apiVersion: muster/v1
kind: Group
metadata: {name: web}
spec: {where: 'node.labels.role == "web"', properties: {load_warn: 5}}
---
apiVersion: muster/v1
kind: Group
metadata: {name: odd}
spec: {nodes: [web01, web03], properties: {load_warn: 7}}
---
apiVersion: muster/v1
kind: Handler
metadata: {name: pager}
spec: {webhook: {url: "https://pager.example/hook"}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: disk}
spec: {targets: {groups: [all]}, interval: 60s, command: check_disk, alert: {handlers: [pager]}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: load}
spec: {targets: {groups: [web]}, interval: 60s, command: "check_load -w {{ .props.load_warn }}"}
---
apiVersion: muster/v1
kind: Check
metadata: {name: replication}
spec: {targets: {nodes: [db01]}, interval: 60s, command: "check_repl --lag {{ .props.max_lag }}"}
`

// TestStatusOfManyFaults shows the worst first, on one screen of 80 columns.
func TestStatusOfManyFaults(t *testing.T) {
	rig, x := openTerminal(t)
	x.wide = 80
	web := numbered("web%02d", 50)
	rig.Nodes("default", map[string]string{"role": "web"}, web...)
	rig.Nodes("default", nil, "db01")
	rig.Apply(nightChecks)
	rig.Advance(50 * time.Minute)
	for i, node := range web {
		status, output := model.OK, "DISK OK - 40% free | '/'=60%;80;90"
		if i < 37 {
			status, output = model.Critical, "DISK CRITICAL - /var is full: 99% of 20 GiB | '/'=99%;80;90"
		}
		rig.Result("default", node, "disk", status, output)
	}
	rig.Result("default", "web50", "load", model.Warning, "LOAD WARNING - load 12.1")
	rig.Result("default", "db01", "replication", model.Unknown, `property "max_lag" is not set and has no default`)
	rig.Advance(5 * time.Minute)
	rig.Result("default", "db01", "disk", model.Critical, "DISK CRITICAL - /srv is full")
	for i, node := range web[40:47] {
		rig.Advance(time.Second)
		rig.Silent(node, "no sign of life for 2m")
		rig.Session(web[i], &v1.AgentSession{Version: "0.1.0", Stats: &v1.AgentStats{Spooled: uint64(100 * (i + 1)), OldestSeconds: float64(100 * i)}})
	}
	d := history.Delivery{Key: "p1/opened", Problem: "p1", Handler: history.HandlerRef{Namespace: "default", Name: "pager"}, Kind: "opened", Payload: []byte("{}"),
		Created: rig.Now().Add(-4 * time.Minute), State: history.Pending, NextAt: rig.Now()}
	if err := rig.History.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{d}, Places: map[model.Partition]history.Place{1: {At: journal.Position{Log: 1, Number: 1}}}}); err != nil {
		t.Fatal(err)
	}
	due, _, err := rig.History.Due(t.Context(), rig.Now(), 10, nil)
	if err != nil || len(due) != 1 {
		t.Fatalf("%d due, %v", len(due), err)
	}
	if err := rig.History.RecordAttempts(t.Context(), history.Outcome{ID: due[0].ID, Attempt: history.Attempt{At: rig.Now(), State: history.Pending, NextAt: rig.Now().Add(time.Minute), Error: "POST https://pager.example/hook: answered 503 Service Unavailable"}}); err != nil {
		t.Fatal(err)
	}
	rig.Pending = 2
	rig.Change = func(s *v1.Status) {
		s.Connected = 43
		s.Journal = v1.Journal{SizeBytes: 3 << 30, BudgetBytes: 4 << 30, FreeBytes: 800 << 20, QueuedBytes: 1 << 20}
		s.Reactions = v1.Reactions{Waiting: 1200, BehindSeconds: 95, Lagging: true}
		s.Warnings = append(s.Warnings, "namespace default met a limit 12 times, last by node web07: this node is at its limit of 100 results per second; spec.limits.nodeResultsPerSec: muster edit namespace default")
	}
	out, _ := x.run("", "status")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) > 40 {
		t.Errorf("%d lines are more than a screen", len(lines))
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if _, code := x.run("", "status --exit-code -n default"); code != 21 {
		t.Errorf("exit code %d", code)
	}
	x.golden("status_faults.golden")
	var s v1.Status
	if out, _ := x.run("", "status -o json"); json.Unmarshal([]byte(out), &s) != nil || s.Wrong[0].Nodes != 38 || s.Faulty != 3 || s.Unsent[0].Failing != 1 || len(s.SpoolingNow) != 3 {
		t.Errorf("as JSON:\n%s", out)
	}
}

// TestStatus shows servers that watch nothing, are well, nearly well, just started, not ready, and down.
func TestStatus(t *testing.T) {
	rig, x := openTerminal(t)
	x.wide = 80
	rig.Change = func(s *v1.Status) { s.Connected = 0 }
	x.run("", "status")
	rig.Pending = 1
	x.run("", "status")
	rig.Pending = 0
	rig.Nodes("default", nil, "web01", "web02", "web03")
	rig.Mark("web01", true, false)
	x.run("", "status")
	rig.Apply(disk)
	if _, code := x.run("", "status --exit-code"); code != 0 {
		t.Errorf("nothing is wrong, exit code %d", code)
	}
	rig.Apply("kind: Namespace\nmetadata: {name: web}\n")
	x.run("", "status -n web")
	for _, node := range []string{"web01", "web02", "web03"} {
		rig.Mark(node, true, false)
		rig.Result("default", node, "disk", model.OK, "DISK OK")
	}
	rig.Change = func(s *v1.Status) { s.Connected = 3 }
	if _, code := x.run("", "status --exit-code"); code != 0 {
		t.Errorf("all is well, exit code %d", code)
	}
	rig.Change = func(s *v1.Status) { s.Started, s.Connected = rig.Now().Add(-40*time.Second), 1 }
	x.run("", "status")
	rig.Change = func(s *v1.Status) { s.Connected = 3 }
	rig.Session("web01", &v1.AgentSession{Stats: &v1.AgentStats{Spooled: 12, OldestSeconds: 100}})
	if _, code := x.run("", "status --exit-code"); code != 20 {
		t.Errorf("nearly well, exit code %d", code)
	}
	rig.Session("web01", nil)
	rig.Silent("web02", "no sign of life for 2m")
	if _, code := x.run("", "status --exit-code"); code != 21 {
		t.Errorf("a silent node, exit code %d", code)
	}
	rig.NotReady = []string{"the journal does not commit: no space left on device"}
	x.run("", "status")
	x.env["MUSTER_SERVER"] = "https://127.0.0.1:1"
	x.run("", "status")
	x.golden("status.golden")
}

// The status warns of problems that notify nobody, until a route does.
func TestStatusWarnsWithoutRoute(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", nil, "web01")
	rig.Apply(`
kind: Check
metadata: {name: disk}
spec: {targets: {nodes: [web01]}, interval: 60s, command: "true"}
`)
	status := func() string {
		x.text.Reset()
		x.run("", "status")
		return strings.Join(strings.Fields(x.text.String()), " ")
	}
	const nobody = "nobody is told of problems in namespace default"
	rig.Result("default", "web01", "disk", model.OK, "fine")
	if out := status(); strings.Contains(out, nobody) {
		t.Errorf("all is well:\n%s", out)
	}
	rig.Result("default", "web01", "disk", model.Critical, "full")
	if out := status(); !strings.Contains(out, nobody) || !strings.Contains(out, "muster explain route") {
		t.Errorf("nobody hears of it:\n%s", out)
	}
	rig.Apply(`
kind: Handler
metadata: {name: pager}
spec: {command: "true"}
---
kind: Route
metadata: {name: default}
spec: {steps: [{to: [pager]}]}
`)
	if out := status(); strings.Contains(out, nobody) {
		t.Errorf("the pager hears of it:\n%s", out)
	}
}
