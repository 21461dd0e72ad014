//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// Each size has a server of its own and leaves its report; it ends in one sentence. A size
// that a limit of the machine does not let begin is an answer.
func TestLoadSize(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds for each size")
	}
	t.Parallel()
	dir, temp := t.TempDir(), t.TempDir()
	file, out := filepath.Join(dir, "mine.yaml"), filepath.Join(dir, "out")
	text := `scenario: muster.load/v1
agents:
  - {name: web, count: 10, tls: true, checks: [{name: http, count: 2, interval: 1s}]}
  - {name: vault, count: 5, checks: [{name: dump, count: 900, interval: 1h, output: {bytes: 512KiB}}]}
phases: [{ramp: 5s}, {steady: 1h}]
faults: [{at: 10m, server: kill}]
objectives: {beyond-p99: 60s, serving: 1s}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, "load", "size", "-f", file, "--factors", "1,2,1000", "--seconds", "1", "--max-lag", "1h", "--out", out)
	if ran.Code != 0 {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	lines := strings.Split(strings.TrimSpace(ran.Out), "\n")
	sentence := lines[len(lines)-2]
	for _, want := range []string{"This machine carries 2× (30 agents, 42.5 results/s); at 1× the server uses ", " of memory, ", " fsyncs/s of disk, and ", " out of network; at 1000× (15,000 agents, 21,250 results/s) ", " first: "} {
		if !strings.Contains(sentence, want) {
			t.Errorf("%q is missing in: %s", want, sentence)
		}
	}
	if len(strings.Fields(lines[1])) < 11 || !strings.HasSuffix(lines[1], "carried") || !strings.HasSuffix(lines[2], "carried") || !strings.Contains(lines[3], "no: ") {
		t.Errorf("%s", ran.Out)
	}
	for _, size := range []string{"1x", "2x"} {
		rep, err := report.Read(filepath.Join(out, size, "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Network == nil || rep.Network.In <= 0 || rep.Network.Out <= 0 || rep.Disk.PerSecond <= 0 || rep.Disk.Syncs < rep.Calls.Syncs || rep.Calls.Syncs <= 0 || len(rep.Faults) > 0 {
			t.Errorf("%s: network %+v, disk %+v, calls %+v", size, rep.Network, rep.Disk, rep.Calls)
		}
	}
	if kept, err := os.ReadFile(filepath.Join(out, "size.txt")); err != nil || !strings.Contains(string(kept), sentence) {
		t.Errorf("%v %q", err, kept)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 || len(processesOf(t, temp)) > 0 {
		t.Errorf("left behind: %v, %v", left, processesOf(t, temp))
	}
	hasty, twice := filepath.Join(dir, "hasty.yaml"), filepath.Join(dir, "twice")
	if err := os.WriteFile(hasty, []byte(strings.Replace(text, "beyond-p99: 60s", "p99: 1ms", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ran = harness.Run(t, []string{"TMPDIR=" + temp}, "load", "size", "-f", hasty, "--factors", "1,2", "--seconds", "1", "--max-lag", "1h", "--out", twice)
	if ran.Code != 0 || !strings.Contains(ran.Out, "1× was played twice, and not carried either time.") {
		t.Errorf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	for _, size := range []string{"1x", "1x-again"} {
		if rep, err := report.Read(filepath.Join(twice, size, "run.json")); err != nil || rep.OK() {
			t.Errorf("%s: %v", size, err)
		}
	}
	for args, says := range map[string]string{
		"":                                 "there is no scenario to size",
		"-f " + file + " --factors 0,1":    "--factors 0: want numbers above 0",
		"-f " + file + " --server x:1":     "leave --server out",
		"muster-sizing -f " + file:         "two scenarios to size: muster-sizing, and -f",
		"-f " + file + " --seconds 100000": "--seconds 100000",
	} {
		if ran := harness.Run(t, nil, append([]string{"load", "size"}, strings.Fields(args)...)...); ran.Code != model.Invalid.Exit() || !strings.Contains(ran.Errors, says) {
			t.Errorf("%s: code %d\n%s", args, ran.Code, ran.Errors)
		}
	}
}
