//go:build linux

package test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// A scenario with people at work: a server of its own, pages, watches, resources written;
// checks and groups that come, change and go, and are held by every agent concerned.
func TestLoadPeople(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "people.yaml"), filepath.Join(dir, "out")
	text := `scenario: muster.load/v1
seed: 3
agents:
  - {name: web, count: 30, checks: [{name: http, count: 2, interval: 2s, changes: 0.1}]}
  - {name: db, count: 10, tls: true, checks: [{name: io, interval: 1s, status: {critical: 0.5}}]}
phases: [{ramp: 500ms}, {steady: 9s, warmup: 1s}, {drain: 20s}]
intent:
  - {at: 500ms, every: 1s, create: 2, change: 1, delete: 1, kind: check, class: web}
  - {at: 1s, every: 2s, create: 1, change: 1, delete: 1, kind: group}
operators: {lists: 2, pages: 2/s, watches: 2, applies: 1/s} # so few that a slow machine answers them all
objectives: {holds-p99: 60s, list-p99: 60s, apply-p99: 60s, watch-p99: 60s}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := harness.Run(t, os.Environ(), "load", "run", file, "--max-lag", "1h", "--out", out)
	if ran.Code != 0 {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	rep, err := report.Read(filepath.Join(out, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	worked := map[string]report.Worked{}
	for _, w := range rep.Operators {
		worked[w.What] = w
	}
	for _, what := range []string{"list", "watch", "apply"} {
		if w := worked[what]; w.Requests < 5 || w.Failed > 0 || w.Latency.Max <= 0 {
			t.Errorf("%s: %+v", what, w)
		}
	}
	shown := map[string]float64{} // by the seconds
	for i := range rep.Samples {
		maps.Copy(shown, rep.Samples[i].Figures())
	}
	for _, figure := range []string{"p99", "beyond-p99", "list-p99", "apply-p99", "watch-p99", "holds-p99"} {
		if shown[figure] <= 0 {
			t.Errorf("no second shows %s: %v", figure, shown)
		}
	}
	if len(rep.Changes) != 2 || len(rep.Goals) != 4 || len(rep.Label) != 1 || !strings.HasPrefix(rep.Label[0], "the generator was allowed to be 1h0m0s late") {
		t.Fatalf("changes %+v, goals %+v, labels %v", rep.Changes, rep.Goals, rep.Label)
	}
	for i, least := range []int{2 * 30, 40} { // on a slow machine fewer changes fit
		if h := rep.Changes[i]; h.Agents < least || h.Never > 0 || h.Holds.Max <= 0 || h.Answered.Max <= 0 {
			t.Errorf("%s: %+v", h.What, h)
		}
	}
}

// What a scenario waits for, and what is wrong with a file, are told with exit codes of
// their own before anything starts.
func TestLoadRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(file, []byte("scenario: muster.load/v1\nagents: [{name: web, count: 5, cheks: []}]\nphases: [{steady: 1m}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"load run glaber-400000-values-quick", model.Unsupported.Exit(), "values (measured values): comes with the metrics pipeline"},
		{"load run " + file, model.Invalid.Exit(), "mine.yaml:2:32: agents[0].cheks: unknown field; did you mean checks?"},
		{"load lint " + file, model.Invalid.Exit(), "mine.yaml:2:32: agents[0].cheks: unknown field; did you mean checks?"},
		{"load run sensu-4000x40x5", model.NotFound.Exit(), "did you mean sensu-4000x40x5s?"},
		{"load show muster-overload-soak", model.Invalid.Exit(), "muster-overload has no soak form"},
	} {
		ran := harness.Run(t, append(os.Environ(), "TMPDIR="+dir), strings.Fields(c.args)...)
		if ran.Code != c.code || !strings.Contains(ran.Errors, c.says) {
			t.Errorf("%s: code %d, want %d\n%s%s", c.args, ran.Code, c.code, ran.Out, ran.Errors)
		}
	}
}
