//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// What bench/run.sh does, tiny: prepare, server, a run whose server is killed and
// started again in the middle while pages are asked for; the report says so.
func TestLoadRun(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.CLI("load", "prepare", "--data", s.Data, "--agents", "20", "--checks", "5", "--interval", "1s")
	s.Start()
	s.Client() // leaves a session for --pages
	dir := t.TempDir()
	out, pid := filepath.Join(dir, "run.json"), filepath.Join(dir, "pid")
	if err := os.WriteFile(pid, fmt.Appendln(nil, s.PID()), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := harness.Run(t, s.Env(), "load", "run", "--server", s.Plain, "--admin", "http://"+s.Admin, "--server-pid", pid,
		"--agents", "10", "--fleet", "20", "--checks", "5", "--interval", "1s", "--duration", "3s", "--warmup", "1s", "--max-lag", "1h",
		"--pages", "5", "--goal", "rate=1", "--goal", "page-p99=60000", "--title", "tiny", "--out", out)
	if ran.Code != 0 || !strings.Contains(ran.Out, "nothing lost, nothing twice") {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	rep, err := report.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	b := rep.Balance
	if b.Sent != b.Acknowledged || b.Sent < 100+30 || b.Compared != 100 || !b.OK() {
		t.Errorf("ledger %+v", b)
	}
	if rep.Disk == nil || rep.Disk.Written == 0 || rep.Disk.Journal == 0 || rep.Calls == nil || rep.Calls.Syncs == 0 || rep.Calls.ResultsPerCommit == 0 {
		t.Errorf("disk %+v, calls %+v", rep.Disk, rep.Calls)
	}
	if in := rep.Inside; in == nil || in.WireBytes <= 0 || in.JournalBytes <= 0 || in.Allocs <= 0 || in.AllocBytes <= 0 || in.LockWait < 0 || in.Goroutines <= 0 {
		t.Errorf("inside the server: %+v", in)
	}
	for _, p := range rep.Pages {
		if p.Failed != "" || p.Requests == 0 || p.Max <= 0 {
			t.Errorf("page %+v", p)
		}
	}
	if len(rep.Pages) < 10 || len(rep.Goals) != 2 || !rep.Goals[0].Met || rep.Server.RSS == 0 || rep.AgentBytes == 0 {
		t.Errorf("%d pages, goals %+v, server %+v, loader %.0f B per agent", len(rep.Pages), rep.Goals, rep.Server, rep.AgentBytes)
	}
	expectJSONMembers(t, out, "schema began version command machine.cpu machine.cores machine.kernel machine.memory plan.agents plan.fleet valid verdict "+
		"balance.sent rate latencyMs.p99 beyondLingerMs.p99 generatorLagMs.p99 signalsPerFrame.mean server.cpuMicrosPerResult calls.framesPerRead disk.bytesPerDay samples")
	table := harness.Run(t, nil, "load", "table", out)
	for _, want := range []string{"## Asked and measured", ": tiny | acknowledged | at least 1.0 results/s |", "| OK |", "10 of 20 × 5", "## Written to disk"} {
		if !strings.Contains(table.Out, want) {
			t.Errorf("the table lacks %q:\n%s", want, table.Out)
		}
	}
	missed := harness.Run(t, s.Env(), "load", "run", "--server", s.Plain, "--agents", "2", "--checks", "5", "--interval", "1s", "--duration", "1s",
		"--warmup", "1ms", "--max-lag", "1h", "--goal", "rate=1000000", "--uncompared")
	if missed.Code == 0 || !strings.Contains(missed.Errors, "asked at least 1,000,000 results/s") || !strings.Contains(missed.Out, "  not compared: ") {
		t.Errorf("a goal out of reach: code %d\n%s%s", missed.Code, missed.Out, missed.Errors)
	}
}

// The server is killed and started again in the middle of a run, by its command.
func TestLoadRunAcrossRestart(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.CLI("load", "prepare", "--data", s.Data, "--agents", "10", "--checks", "5", "--interval", "1s")
	s.Start()
	dir := t.TempDir()
	out, asked, again := filepath.Join(dir, "run.json"), filepath.Join(dir, "asked"), filepath.Join(dir, "again")
	run := harness.Launch(t, s.Env(), "load", "run", "--server", s.Plain, "--admin", "http://"+s.Admin, "--agents", "10", "--checks", "5", "--interval", "1s",
		"--duration", "5s", "--warmup", "1s", "--max-lag", "1h", "--out", out,
		"--halfway", fmt.Sprintf("touch %s; until [ -e %s ]; do sleep 0.05; done", asked, again))
	harness.Until(t, time.Minute, "the middle of the run", func() (string, bool) {
		_, err := os.Stat(asked)
		return fmt.Sprint(err), err == nil
	})
	s.Kill()
	s.Launch()
	if err := os.WriteFile(again, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run.Wait(2 * time.Minute); code != 0 {
		t.Fatalf("code %d", code)
	}
	rep, err := report.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Outages) == 0 || rep.Balance.Compared != 50 {
		t.Fatalf("outages %+v, ledger %+v", rep.Outages, rep.Balance)
	}
	if o := rep.Outages[0]; !o.Command || o.Serving <= 0 || o.Acked <= 0 || o.Seconds <= 0 {
		t.Errorf("outage %+v: want the times until it served, acknowledged, and all were back", o)
	}
}

// expectJSONMembers looks for members of a JSON file by their paths.
func expectJSONMembers(t *testing.T, path, members string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	for _, member := range strings.Fields(members) {
		at := any(root)
		for name := range strings.SplitSeq(member, ".") {
			object, _ := at.(map[string]any)
			value, ok := object[name]
			if !ok {
				t.Errorf("the report has no %s", member)
				break
			}
			at = value
		}
	}
}

// What was SCALE=20, a twentieth, is refused: --scale 20 is twenty times as much.
func TestScaleIsAFactor(t *testing.T) {
	t.Parallel()
	run := exec.Command("bash", filepath.Join(harness.Root(), "bench", "run.sh"), "rate-1k")
	run.Env = append(os.Environ(), "SCALE=20", "OUT="+t.TempDir())
	if out, err := run.CombinedOutput(); err == nil || run.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "SCALE is DIVIDE now") {
		t.Errorf("%v\n%s", err, out)
	}
}
