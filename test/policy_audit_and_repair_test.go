//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// motdPolicy holds the nodes of a group to one file, and tells a webhook through a route.
const motdPolicy = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
---
{kind: Route, metadata: {name: compliance}, spec: {groupWait: 0s, steps: [{to: [hook]}]}}
---
kind: Technique
metadata: {name: motd}
spec:
  parameters: [{name: text, default: "no unauthorised use"}]
  methods:
    - {component: content, fileContent: {path: %q, content: "{{ .params.text }}: {{ .props.site | default \"here\" }}\n"}}
    - {component: mode, filePermissions: {path: %[2]q, mode: "0644"}}
    - {component: after a repair, when: 'changed("content")', command: {check: "true"}}
---
{kind: Directive, metadata: {name: motd, labels: {cis: 5.1.20}}, spec: {technique: motd, mode: %[3]s, interval: 10s}}
---
{kind: Policy, metadata: {name: baseline}, spec: {directives: [motd], targets: {groups: [all]}, alert: {route: compliance}}}
`

// TestPolicyAuditsNotifiesAndRepairs declares a policy that a file violates, and expects a notification and
// then a repair. The compliance stays the same after kill -9, and a directive that enforces repairs the file.
// An agent that does not allow changes audits all the same.
func TestPolicyAuditsNotifiesAndRepairs(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	hook := newWebhook(t, 0)
	file := filepath.Join(t.TempDir(), "motd")
	testenv.NoError(t, os.WriteFile(file, []byte("welcome\n"), 0o600))
	s.StartAgent("db1", "--policy-enforce")
	s.Apply(fmt.Sprintf(motdPolicy, hook.URL, file, "audit"))
	s.AwaitOutput("get compliance", "db1", "motd", "audit", "33.33 %", "non-compliant (2 of 3)")
	s.AwaitOutput("describe compliance db1/motd", `content  non-compliant: `+file+`: line 1 is "welcome", not "no unauthorised use: here"`, "mode  non-compliant: "+file+" has mode 0600, not 0644", "after a repair  not applicable")
	s.AwaitOutput("get problems", "db1", "motd:compliance")
	s.AwaitOutput("get problems db1/motd", "motd:compliance")
	s.AwaitOutput("get history db1/motd", "motd:compliance", "the first result")
	if data, err := os.ReadFile(file); err != nil || string(data) != "welcome\n" {
		t.Fatalf("the audit changed the file: %q, %v", data, err)
	}
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "motd:compliance", true, 0, "")
	require(t, err == nil && len(problems.Items) == 1, "problems: %v %+v", err, problems.Items)
	harness.Until(t, 40*time.Second, "the problem is notified", func() (string, bool) {
		kinds := hook.kindsOf(problems.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 1
	})

	compliance := func() v1.Compliance {
		l, err := s.Client().Compliance(t.Context(), v1.ComplianceFilter{Node: "db1", Namespace: "default", Details: true}, 10, "")
		require(t, err == nil && len(l.Items) == 1, "compliance: %v %+v", err, l.Items)
		one := l.Items[0]
		one.Run, one.DurationMs = time.Time{}, 0 // the agent goes on
		return one
	}
	before := compliance()
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	if after := compliance(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("after kill -9 %+v, before %+v", after, before)
	}
	for _, by := range []string{"policy", "directive", "node", "group"} {
		harness.Run(t, s.Env(), "report", "compliance", "--by", by).Expect(0, "33.33 %", "2 non-compliant", "all: 33.33 % of 3 components on 1 node")
	}
	for _, list := range []string{"get directives -l cis=5.1.20", `get directives --where metadata.labels.cis=="5.1.20"`, "get compliance --directive-labels cis=5.1.20", "report compliance --by directive --directive-labels cis"} {
		harness.Run(t, s.Env(), strings.Fields(list)...).Expect(0, "motd")
	}
	harness.Run(t, s.Env(), "get", "compliance", "--directive-labels", "cis=9").Expect(0, "no directives match")
	harness.Run(t, s.Env(), "report", "compliance", "--directive-labels", "!cis").Expect(0, "no node has a directive with these labels")
	harness.Run(t, s.Env(), "why", "db1/motd").Expect(0, "policy baseline is assigned to this node", "directive motd is assigned to this node", "is notified")
	harness.Run(t, s.Env(), "why", "db1/motd:compliance").Expect(0, "CRITICAL")
	harness.Run(t, s.Env(), "describe", "event", "db1/motd:compliance").Expect(0, "1 of 3 components compliant")
	harness.Run(t, s.Env(), "explain", "technique.methods.fileContent").Expect(0, "exactly this content")
	harness.Run(t, s.Env(), "get", "policies").Expect(0, "baseline")

	drifted := time.Now().UTC().Format(time.RFC3339)

	s.Apply(fmt.Sprintf(motdPolicy, hook.URL, file, "enforce"))
	s.AwaitOutput("get compliance db1/motd", "enforce", "100.00 %")
	if data, err := os.ReadFile(file); err != nil || string(data) != "no unauthorised use: here\n" {
		t.Errorf("the file was not repaired: %q, %v", data, err)
	}
	harness.Until(t, 40*time.Second, "the end of the problem is notified", func() (string, bool) {
		kinds := hook.kindsOf(problems.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 2
	})

	// History has the runs before the repair, and the repair.
	harness.Run(t, s.Env(), "get", "compliance", "db1/motd", "--at", drifted).Expect(0, "audit", "33.33 %", "non-compliant (2 of 3)")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "directive", "--at", drifted).Expect(0, "33.33 %", "2 non-compliant", "1 not applicable")
	byComponent := []string{"report", "compliance", "--by", "component", "--at", drifted, "--directive", "motd", "--directive-labels"}
	harness.Run(t, s.Env(), append(byComponent, "cis=5.1.20")...).Expect(0, "1 non-compliant", "1 not applicable", "33.33 % of 3 components on 1 node")
	harness.Run(t, s.Env(), append(byComponent, "!cis")...).Expect(0, "no node has a directive with these labels")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "node", "--at", drifted, "--directive-labels", "cis!=5.1.20").Expect(0, "no node has a directive with these labels")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "day", "--directive-labels", "cis=9", "-o", "csv").Expect(0, ",0,")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "day", "-o", "csv").Expect(0, time.Now().UTC().Format(time.DateOnly)+",3,100.00,")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "day", "-o", "parquet").Expect(0, "PAR1", "remediation seconds")
	harness.Run(t, s.Env(), "get", "compliance", "--at", "9d").Expect(3, "the history has no runs of policy directives at", "ask for a time from")

	// The second node forbids changes.
	s.StartAgent("db2")
	s.AwaitOutput("get compliance --node db2", "audit", "compliant (2 of 3)")
	s.AwaitOutput("describe compliance db2/motd", "the directive enforces, but the agent only audits: start the agent with --policy-enforce")
	if err := os.WriteFile(file, []byte("drift\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, 40*time.Second, "the drift is repaired", func() (string, bool) {
		data, err := os.ReadFile(file)
		return fmt.Sprint(string(data), err), err == nil && !strings.Contains(string(data), "drift")
	})
	// Audit of the node wins over the directive, and a fixed mode of the namespace over both.
	s.Apply(`{kind: Node, metadata: {name: db1}, spec: {groups: [all], policyMode: audit}}`)
	s.AwaitOutput("describe compliance db1/motd", "the directive enforces, but the node has the mode audit")
	s.Apply(`{kind: Namespace, metadata: {name: default}, spec: {policyMode: {mode: enforce, fixed: true}}}`)
	s.AwaitOutput("get compliance db1/motd", "enforce")
	// A second directive of the technique with a better priority overrides the first one.
	s.Apply(`
{kind: Directive, metadata: {name: other}, spec: {technique: motd, priority: 1, parameters: {text: other}, interval: 10s}}
---
{kind: Policy, metadata: {name: second}, spec: {directives: [other], targets: {nodes: [db2]}}}
`)
	s.AwaitOutput("get compliance db2/motd", "overridden")
	s.AwaitOutput("get compliance db2/other", "non-compliant")
	harness.Run(t, s.Env(), "describe", "compliance", "db2/motd").Expect(0, "overridden", "directive other of the same technique runs in its place")
	harness.Run(t, s.Env(), "why", "db2/motd").Expect(0, "directive motd is overridden on this node: directive other of the same technique runs, for its priority is 1, before 5")
	harness.Run(t, s.Env(), "describe", "directive", "motd").Expect(0, "holds 1 node; directive other overrides it on 1 node")
	harness.Run(t, s.Env(), "get", "compliance", "db2/nothing").Expect(3, "directive nothing is not assigned to node db2")
}

// TestOneShotDirectiveRunsOncePerNode declares a one-shot directive, and expects one run in spite of restarts. A node whose time was over shows as no report, and muster run runs the
// directive again. A directive with an interval runs on request, too.
func TestOneShotDirectiveRunsOncePerNode(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	file := filepath.Join(t.TempDir(), "runs")
	agent := s.NewAgent("db1", "--policy-enforce")
	agent.Start()
	s.Apply(`
{kind: Technique, metadata: {name: count}, spec: {multiInstance: true, parameters: [{name: line}], methods: [{component: count, command: {apply: "echo {{ .params.line }} >>` + file + `"}}]}}
---
{kind: Directive, metadata: {name: migrate}, spec: {technique: count, mode: enforce, parameters: {line: migrate}, oneShot: {}}}
---
{kind: Directive, metadata: {name: missed}, spec: {technique: count, mode: enforce, parameters: {line: missed}, oneShot: {from: 2026-01-01T00:00:00Z, until: 2026-01-02T00:00:00Z}}}
---
{kind: Directive, metadata: {name: weekly}, spec: {technique: count, mode: enforce, parameters: {line: weekly}, cron: "0 3 29 2 *"}}
---
{kind: Policy, metadata: {name: all}, spec: {directives: [migrate, missed, weekly], targets: {groups: [all]}}}
`)
	expect := func(want string) {
		t.Helper()
		if data, err := os.ReadFile(file); err != nil || strings.Join(strings.Fields(string(data)), " ") != want {
			t.Fatalf("runs %q, %v; want %q", data, err, want)
		}
	}
	s.AwaitOutput("get compliance db1/migrate", "enforce", "100.00 %", "repaired")
	s.AwaitOutput("describe compliance db1/missed", "pending", "ended before its last change")
	harness.Run(t, s.Env(), "describe", "directive", "missed").Expect(0, "once from 2026-01-01T00:00:00Z until 2026-01-02T00:00:00Z")
	agent.Stop()
	agent.Start()
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	awaitConnected(t, s, 1)
	s.AwaitOutput("get compliance db1/migrate", "enforce", "100.00 %", "repaired")
	expect("migrate")

	harness.Run(t, s.Env(), "run", "--directive", "weekly").Expect(0, "db1", "1 of 1 component compliant", "count: repaired")
	s.AwaitOutput("get compliance db1/weekly", "enforce", "100.00 %", "repaired")
	harness.Run(t, s.Env(), "run", "--directive", "migrate", "--on", "db1").Expect(0, "count: repaired")
	expect("migrate weekly migrate")
	harness.Run(t, s.Env(), "run", "--directive", "unknown", "--on", "db1").Expect(model.NotFound.Exit(), "unknown")
	harness.Run(t, s.Env(), "run", "--directive", "migrate", "disk").Expect(model.Invalid.Exit(), "--directive excludes a check")
}
