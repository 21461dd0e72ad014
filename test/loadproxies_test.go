//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// Simulated agents run checks about proxy nodes, all of them or in turn. One that hangs is
// taken over in the documented time, no interval is without a run, alerts are those of the
// proxy nodes, and the ledger holds.
func TestLoadProxies(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for turns of several intervals")
	}
	t.Parallel()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "turns.yaml"), filepath.Join(dir, "report")
	text := `scenario: muster.load/v1
title: Things without an agent
seed: 3
proxies:
  - {name: switch, count: 10, labels: {vendor: acme}}
agents:
  - name: poller
    count: 8
    checks:
      - {name: ping, count: 4, interval: 4s, timeout: 1s, proxy: {groups: [switch]}, roundRobin: true, changes: 0.05}
      - {name: snmp, interval: 4s, proxy: {groups: [switch]}}
      - {name: disk, interval: 2s}
phases:
  - ramp: 1s
  - {steady: 14s, warmup: 1s}
  - drain: 30s
faults:
  - {at: 2s, for: 9s, hang: {count: 2}}
  - {at: 2s, for: 5s, fail: {check: ping-002, count: 3}}
  - {at: 3s, cut: {count: 2}}
objectives: {takeover-max: 60s}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := harness.Run(t, []string{"TMPDIR=" + dir}, "load", "run", file, "--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
	if ran.Code != 0 || !strings.Contains(ran.Out, "nothing lost, nothing twice") || !strings.Contains(ran.Out, "\n  turns            ") {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	rep, err := report.Read(filepath.Join(out, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	x := rep.Turns
	if x.Due < 4*10*3 || x.Due > 4*10*4 || x.Missed != 0 || x.Ran+x.Passed+x.Unjudged != x.Due || x.Ran < x.Due*8/10 {
		t.Errorf("turns: %s", x)
	}
	if x.Taken == 0 || rep.Figures()["takeover-max"] != x.Took.Max {
		t.Errorf("nobody took over: %s, %v", x, rep.Figures())
	}
	if b := rep.Balance; b.Compared != 4*10+10+8 || b.Sent != b.Acknowledged {
		t.Errorf("ledger: %s", b)
	}
	if f := rep.Faults[1]; f.Places != 3 || f.Alerts == 0 || f.Missing+f.Extra > 0 {
		t.Errorf("alerts: %+v", f)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || !strings.Contains(string(page), "Whose turn it was") {
		t.Errorf("the page has no turns: %v", err)
	}
}
