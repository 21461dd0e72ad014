//go:build linux

package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// stageScenario is a scenario of results alone; target is what its file names.
func stageScenario(t *testing.T, target, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "alone.yaml")
	text := `scenario: muster.load/v1
title: Results alone
seed: 3
target: ` + target + `
agents:
  - {name: web, count: 10` + more + `, checks: [{name: app, count: 4, interval: 1s, changes: 0.1}]}
phases: [{ramp: 500ms}, {step: 1s, rate: 1, by: 1, to: 2}, {drain: 30s}]
objectives: {beyond-p99: 60s}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// One stage alone is a target like others: named in the file or by --target, it leaves the
// same report, which says what it is, and nothing else.
func TestLoadStage(t *testing.T) {
	t.Parallel()
	file := stageScenario(t, "stage:view", "")
	for stage, args := range map[string][]string{"view": nil, "journal": {"--target", "stage:journal"}, "spine": {"--target", "stage:spine"}, "planner": {"--target", "stage:planner"}} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			temp, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
			ran := harness.Run(t, []string{"TMPDIR=" + temp}, append([]string{"load", "run", file, "--out", out, "--max-lag", "1h"}, args...)...)
			label := "stage: " + stage + " alone, in the loader's process: CPU is of both"
			if ran.Code != 0 || !strings.HasPrefix(ran.Out, "Results alone ("+label+")\n") || !strings.Contains(ran.Out, "step ×2: ") || !strings.Contains(ran.Out, "  saturation ") {
				t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
			}
			rep, err := report.Read(filepath.Join(out, "run.json"))
			if err != nil {
				t.Fatal(err)
			}
			if b := rep.Balance; b.Sent != b.Acknowledged || b.Sent < 40 || b.Compared != 40 || rep.Stage != stage || !slices.Contains(rep.Label, label) || rep.Server.RSS != 0 {
				t.Errorf("ledger %+v, stage %q, label %q, server %+v", b, rep.Stage, rep.Label, rep.Server)
			}
			if e := rep.Environment; e == nil || len(e.Limits) == 0 || e.Fsync.Max <= 0 || e.FileSystem == "" {
				t.Errorf("what it ran on is not told: %+v", e)
			}
			if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !strings.Contains(string(page), "stage: "+stage+" alone") {
				t.Errorf("the page does not say that this is a stage: %v", err)
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestLoadStageRefusals(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{stageScenario(t, "stage:journal", ", tls: true")}, 12, "stage journal alone has no tls (mutual TLS)"},
		{[]string{stageScenario(t, "stage:view", ", churn: {restarts: 1/h}")}, 12, "stage view alone has no churn (reconnects, restarts, machines offline"},
		{[]string{"muster-mixed", "--target", "stage:spine"}, 12, "stage spine alone has no "},
		{[]string{stageScenario(t, "muster", ""), "--target", "stage:api"}, 2, "stage:session, stage:journal, stage:view, stage:spine, stage:reactions, stage:planner"},
		{[]string{stageScenario(t, "stage:api", "")}, 2, "session, journal, view, spine, reactions, planner"},
		{[]string{stageScenario(t, "stage:journal", ""), "--server", "127.0.0.1:1"}, 2, "--server is for a server"},
	} {
		ran := harness.Run(t, []string{"TMPDIR=" + temp}, append([]string{"load", "run", "--out", filepath.Join(temp, "report")}, c.args...)...)
		if ran.Code != c.code || !strings.Contains(ran.Errors, c.want) {
			t.Errorf("%v: code %d, want %d with %q\n%s", c.args, ran.Code, c.code, c.want, ran.Errors)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
