//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// waiverPolicy holds a node to two files with a directive that enforces and runs by itself once an hour.
const waiverPolicy = `
kind: Technique
metadata: {name: files}
spec:
  methods:
    - {component: motd, fileContent: {path: %[1]q, content: "no unauthorised use\n"}}
    - {component: issue, filePresent: {path: %[2]q}}
---
{kind: Directive, metadata: {name: files}, spec: {technique: files, mode: enforce, interval: 1h}}
---
{kind: Policy, metadata: {name: baseline}, spec: {directives: [files], targets: {groups: [all]}}}
`

// waiver excuses the component motd until a time.
const waiver = `{kind: Waiver, metadata: {name: old-motd}, spec: {directive: files, components: [motd], targets: {nodes: [db1]},
	reason: the landlord writes this file, owner: facility team, expires: %q}}`

// TestWaiverExpires excuses a directive's component by a Waiver, and expects no repair or problem before the
// expiry. The component is not compliant; percentages do not change until the Waiver expires, also after kill
// -9. At its end the problem opens by itself, and history has the state before.
func TestWaiverExpires(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	folder := t.TempDir()
	motd, issue := filepath.Join(folder, "motd"), filepath.Join(folder, "issue")
	testenv.NoError(t, os.WriteFile(motd, []byte("welcome\n"), 0o644))
	expires := time.Now().Add(45 * time.Second).Truncate(time.Second).UTC()
	s.Apply(`{kind: Node, metadata: {name: db1}, spec: {groups: [all]}}`)
	s.Apply(fmt.Sprintf(waiverPolicy, motd, issue) + "---\n" + fmt.Sprintf(waiver, expires.Format(time.RFC3339)))
	s.StartAgent("db1", "--policy-enforce")
	s.AwaitOutput("get compliance", "db1", "files", "enforce", "100.00 %", "repaired (1 of 2)")
	if data, err := os.ReadFile(motd); err != nil || string(data) != "welcome\n" {
		t.Errorf("a waived file was repaired: %q, %v", data, err)
	}
	if _, err := os.Stat(issue); err != nil {
		t.Errorf("the component beside it was not repaired: %v", err)
	}
	harness.Run(t, s.Env(), "describe", "compliance", "db1/files").Expect(0,
		"old-motd covers motd, by facility team: the landlord writes this file; expires", `motd  waived by old-motd: `+motd+`: line 1 is "welcome", not "no unauthorised use"`, "issue  repaired")
	harness.Run(t, s.Env(), "get", "waivers").Expect(0, "old-motd", "files: motd", "facility team", "the landlord writes this file")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "node").Expect(0, "100.00 %", "1 repaired, 1 waived")
	harness.Run(t, s.Env(), "why", "db1/files").Expect(0, "old-motd covers motd, by facility team")
	waived := time.Now().UTC().Format(time.RFC3339Nano)
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	harness.Run(t, s.Env(), "report", "compliance").Expect(0, "100.00 %", "1 repaired, 1 waived")
	if list, err := s.Client().Problems.List(t.Context(), "", "db1", "files:compliance", true, 0, ""); err != nil || len(list.Items) != 0 || time.Now().After(expires) {
		t.Errorf("problems before the end of the waiver: %v %+v", err, list.Items)
	}

	// The directive enforces again, so the end of the waiver repairs the file.
	harness.Until(t, 60*time.Second, "the waiver ends and the file is repaired", func() (string, bool) {
		data, err := os.ReadFile(motd)
		return fmt.Sprint(string(data), err), err == nil && string(data) == "no unauthorised use\n"
	})
	if late := time.Since(expires); late < 0 || late > 20*time.Second {
		t.Errorf("the waiver ended %s after its end", late)
	}
	s.AwaitOutput("get compliance", "100.00 %", "repaired (1 of 2)")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "directive", "--at", waived).Expect(0, "100.00 %", "1 repaired, 1 waived")
	harness.Run(t, s.Env(), "get", "waivers").Expect(0, "expired")

	// A waiver ends a problem, and its end opens one.
	testenv.NoError(t, os.WriteFile(motd, []byte("welcome\n"), 0o644))
	s.Apply(`{kind: Directive, metadata: {name: files}, spec: {technique: files, mode: audit, interval: 1h}}`)
	s.AwaitOutput("get problems --open", "db1", "files:compliance")
	expires = time.Now().Add(20 * time.Second).Truncate(time.Second).UTC()
	s.Apply(fmt.Sprintf(waiver, expires.Format(time.RFC3339)))
	s.AwaitOutput("get problems --open", "no open problems")
	s.AwaitOutput("get problems --open", "db1", "files:compliance")
	list, err := s.Client().Problems.List(t.Context(), "", "db1", "files:compliance", true, 0, "")
	require(t, err == nil && len(list.Items) == 1, "problems: %v %+v", err, list.Items)
	if late := list.Items[0].Opened.Sub(expires); late < 0 || late > 20*time.Second {
		t.Errorf("the problem opened %s after the end of the waiver", late)
	}

	harness.Run(t, s.Env(), "describe", "compliance", "db1/files").Expect(0, `motd  non-compliant: `+motd+`: line 1 is "welcome", not "no unauthorised use"`)

	far := filepath.Join(folder, "far.yaml")
	testenv.NoError(t, os.WriteFile(far, []byte(fmt.Sprintf(waiver, time.Now().AddDate(2, 0, 0).UTC().Format(time.RFC3339))), 0o600))
	harness.Run(t, s.Env(), "apply", "-f", far).Expect(2, "at most 366 days are allowed")
}
