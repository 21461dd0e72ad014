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

// Each pipeline is sped up in turn: the others are timed beside it, and every message about a
// problem comes once, by a handler and by a route, also while people silence machines. Whatever else
// the server says of a problem is taken: none of its messages is given up.
func TestLoadMixed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "mixed.yaml"), filepath.Join(dir, "out")
	text := `scenario: muster.load/v1
seed: 3
agents:
  - {name: web, count: 20, checks: [{name: http, count: 2, interval: 1s, changes: 0.1, alert: route}, {name: disk, interval: 2s}]}
  - {name: db, count: 10, tls: true, checks: [{name: io, interval: 1s, status: {critical: 0.1}, changes: 0.1, alert: handler}]}
phases:
  - ramp: 500ms
  - {name: usual, steady: 3s}
  - {name: people, steady: 2s, faster: {operators: 4}}
  - {name: intent, steady: 2s, faster: {intent: 4}}
  - {name: alerts, steady: 2s, faster: {alerts: 4}}
  - drain: 20s
intent:
  - {at: 500ms, every: 2s, create: 1, change: 1, delete: 1, kind: check, class: web}
operators: {lists: 1, pages: 4/s, applies: 2/s, silences: 2/s, runs: 2/s, facts: 2/s}
objectives: {beyond-p99: 60s, list-p99: 60s, apply-p99: 60s, silence-p99: 60s, run-p99: 60s, holds-p99: 60s, tell-p99: 60s, history-behind: 60s}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := harness.Run(t, os.Environ(), "load", "run", file, "--max-lag", "1h", "--out", out)
	rep, err := report.Read(filepath.Join(out, "run.json"))
	if err != nil {
		t.Fatalf("code %d, %v\n%s%s", ran.Code, err, ran.Out, ran.Errors)
	}
	// On a machine that others keep busy one pipeline may starve another; nothing else may be wrong.
	starved := 0
	for _, p := range rep.Phases {
		starved += len(p.Starved)
	}
	if want := map[bool]int{false: 0, true: 20}[starved > 0]; ran.Code != want || len(rep.Late()) != starved {
		t.Fatalf("code %d, want %d; late is %q\n%s%s", ran.Code, want, rep.Late(), ran.Out, ran.Errors)
	}
	if told := rep.Told; told == nil || told.Due < 20 || told.Timed < 10 || told.Missing+told.Extra > 0 || told.Unclear > 0 || told.Latency.P50 <= 0 || len(told.Curve) == 0 {
		t.Errorf("messages: %+v", told)
	}
	log, err := os.ReadFile(filepath.Join(out, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "message given up") {
			t.Errorf("the server gave a message up: %s", line)
			break
		}
	}
	worked := map[string]report.Worked{}
	for _, w := range rep.Operators {
		worked[w.What] = w
	}
	for _, what := range []string{"list", "apply", "silence", "run", "fact"} { // on a slow machine fewer are answered
		if w := worked[what]; w.Requests < 3 || w.Failed > 0 || w.Latency.Max <= 0 {
			t.Errorf("%s: %+v", what, w)
		}
	}
	faster := map[string]float64{}
	for _, p := range rep.Phases {
		for pipeline, times := range p.Faster {
			faster[pipeline] += times
		}
		beside := map[string]bool{}
		for _, b := range p.Beside {
			beside[b.Figure] = true
		}
		if p.Kind == "steady" && (!beside["beyond-p99"] || !beside["held"]) {
			t.Errorf("%s: the results are not beside the others: %+v", p.Name, p.Beside)
		}
	}
	if len(faster) != 3 || faster["operators"] != 4 || faster["intent"] != 4 || faster["alerts"] != 4 {
		t.Errorf("sped up: %v", faster)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || !strings.Contains(string(page), "Who was told") || !strings.Contains(string(page), "operators ×4") {
		t.Errorf("the page does not show who was told, or what was sped up: %v", err)
	}
}
