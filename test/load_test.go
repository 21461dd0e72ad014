//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// What bench/run.sh does, tiny: prepare, server, a run whose server is killed and started again in the middle while
// pages are asked for; the report says so.
func TestLoadRun(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.CLI("load", "prepare", "--data", s.Data, "--agents", "20", "--checks", "5", "--interval", "1s")
	s.Start()
	s.Client() // leaves a session for --pages
	dir := t.TempDir()
	out, pid := filepath.Join(dir, "run.json"), filepath.Join(dir, "pid")
	writeFile(t, pid, fmt.Appendln(nil, s.PID()))
	ran := harness.Run(t, s.Env(), "load", "run", "--server", s.Plain, "--admin", "http://"+s.Admin, "--server-pid", pid,
		"--agents", "10", "--fleet", "20", "--checks", "5", "--interval", "1s", "--duration", "3s", "--warmup", "1s", "--max-lag", "1h",
		"--pages", "5", "--goal", "rate=1", "--goal", "page-p99=60000", "--title", "tiny", "--out", out)
	ran.Expect(0, "nothing lost, nothing twice")
	rep, err := report.Read(out)
	testenv.NoError(t, err)
	b := rep.Balance
	assert(t, b.Sent == b.Acknowledged && b.Sent >= 100+30 && b.Compared == 100 && b.OK(), "ledger %+v", b)
	assert(t, rep.Disk != nil && rep.Disk.Written != 0 && rep.Disk.Journal != 0 && rep.Calls != nil && rep.Calls.Syncs != 0 && rep.Calls.ResultsPerCommit != 0,
		"disk %+v, calls %+v", rep.Disk, rep.Calls)
	if in := rep.Inside; in == nil || in.WireBytes <= 0 || in.JournalBytes <= 0 || in.Allocs <= 0 || in.AllocBytes <= 0 || in.LockWait < 0 || in.Goroutines <= 0 {
		t.Errorf("inside the server: %+v", in)
	}
	for _, p := range rep.Pages {
		assert(t, p.Failed == "" && p.Requests != 0 && p.Max > 0, "page %+v", p)
	}
	assert(t, len(rep.Pages) >= 10 && len(rep.Goals) == 2 && rep.Goals[0].Met && rep.Server.RSS != 0 && rep.AgentBytes != 0,
		"%d pages, goals %+v, server %+v, loader %.0f B per agent", len(rep.Pages), rep.Goals, rep.Server, rep.AgentBytes)
	expectJSONMembers(t, out, "schema began version command machine.cpu machine.cores machine.kernel machine.memory plan.agents plan.fleet valid verdict "+
		"balance.sent rate latencyMs.p99 beyondLingerMs.p99 generatorLagMs.p99 signalsPerFrame.mean server.cpuMicrosPerResult calls.framesPerRead disk.bytesPerDay samples")
	table := harness.Run(t, nil, "load", "table", out)
	expectTexts(t, table.Out, "## Asked and measured", ": tiny | acknowledged | at least 1.0 results/s |", "| OK |", "10 of 20 × 5", "## Written to disk")
	missed := harness.Run(t, s.Env(), "load", "run", "--server", s.Plain, "--agents", "2", "--checks", "5", "--interval", "1s", "--duration", "1s",
		"--warmup", "1ms", "--max-lag", "1h", "--goal", "rate=1000000", "--uncompared")
	assert(t, missed.Code != 0 && strings.Contains(missed.Errors, "asked at least 1,000,000 results/s") && strings.Contains(missed.Out, "  not compared: "),
		"a goal out of reach: code %d\n%s%s", missed.Code, missed.Out, missed.Errors)
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
	writeFile(t, again, "")
	run.AwaitExit(0)
	rep, err := report.Read(out)
	testenv.NoError(t, err)
	require(t, len(rep.Outages) != 0 && rep.Balance.Compared == 50,
		"outages %+v, ledger %+v", rep.Outages, rep.Balance)
	if o := rep.Outages[0]; !o.Command || o.Serving <= 0 || o.Acked <= 0 || o.Seconds <= 0 {
		t.Errorf("outage %+v: want the times until it served, acknowledged, and all were back", o)
	}
}

// expectJSONMembers looks for members of a JSON file by their paths.
func expectJSONMembers(t *testing.T, path, members string) {
	t.Helper()
	data := readFile(t, path)
	var root map[string]any
	decodeJSON(t, data, &root)
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

// Each size has a server of its own and leaves its report; it ends in one sentence. A size that a limit of the
// machine does not let begin is an answer.
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
	writeFile(t, file, text)
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, "load", "size", "-f", file, "--factors", "1,2,1000", "--seconds", "1", "--max-lag", "1h", "--out", out)
	ran.Expect(0)
	lines := strings.Split(strings.TrimSpace(ran.Out), "\n")
	sentence := lines[len(lines)-2]
	expectTexts(t, sentence, "This machine carries 2× (30 agents, 42.5 results/s); at 1× the server uses ", " of memory, ", " fsyncs/s of disk, and ", " out of network; at 1000× (15,000 agents, 21,250 results/s) ", " first: ")
	assert(t, len(strings.Fields(lines[1])) >= 11 && strings.HasSuffix(lines[1], "carried") && strings.HasSuffix(lines[2], "carried") && strings.Contains(lines[3], "no: "),
		"%s", ran.Out)
	for _, size := range []string{"1x", "2x"} {
		rep := readReport(t, filepath.Join(out, size))
		assert(t, rep.Network != nil && rep.Network.In > 0 && rep.Network.Out > 0 && rep.Disk.PerSecond > 0 && rep.Disk.Syncs >= rep.Calls.Syncs && rep.Calls.Syncs > 0 && len(rep.Faults) == 0,
			"%s: network %+v, disk %+v, calls %+v", size, rep.Network, rep.Disk, rep.Calls)
	}
	if kept, err := os.ReadFile(filepath.Join(out, "size.txt")); err != nil || !strings.Contains(string(kept), sentence) {
		t.Errorf("%v %q", err, kept)
	}
	expectNothingLeft(t, temp)
	hasty, twice := filepath.Join(dir, "hasty.yaml"), filepath.Join(dir, "twice")
	writeFile(t, hasty, strings.Replace(text, "beyond-p99: 60s", "p99: 1ms", 1))
	ran = harness.Run(t, []string{"TMPDIR=" + temp}, "load", "size", "-f", hasty, "--factors", "1,2", "--seconds", "1", "--max-lag", "1h", "--out", twice)
	ran.Expect(0, "1× was played twice, and not carried either time.")
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
		harness.Run(t, nil, append([]string{"load", "size"}, strings.Fields(args)...)...).Expect(model.Invalid.Exit(), says)
	}
}

// stageScenario is a scenario of results alone; target is what its file names.
func stageScenario(t *testing.T, target, more string) string {
	t.Helper()
	return tempFile(t, "alone.yaml", `scenario: muster.load/v1
title: Results alone
seed: 3
target: `+target+`
agents:
  - {name: web, count: 10`+more+`, checks: [{name: app, count: 4, interval: 1s, changes: 0.1}]}
phases: [{ramp: 500ms}, {step: 1s, rate: 1, by: 1, to: 2}, {drain: 30s}]
objectives: {beyond-p99: 60s}
`)
}

// One stage alone is a target like others: named in the file or by --target, it leaves the same report, which says
// what it is, and nothing else.
func TestLoadStage(t *testing.T) {
	t.Parallel()
	file := stageScenario(t, "stage:view", "")
	for stage, args := range map[string][]string{"view": nil, "journal": {"--target", "stage:journal"}, "spine": {"--target", "stage:spine"}, "planner": {"--target", "stage:planner"}} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			temp, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
			ran := harness.Run(t, []string{"TMPDIR=" + temp}, append([]string{"load", "run", file, "--out", out, "--max-lag", "1h"}, args...)...)
			label := "stage: " + stage + " alone, in the loader's process: CPU is of both"
			require(t, ran.Code == 0 && strings.HasPrefix(ran.Out, "Results alone ("+label+")\n") && strings.Contains(ran.Out, "step ×2: ") && strings.Contains(ran.Out, "  saturation "),
				"code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
			rep := readReport(t, out)
			if b := rep.Balance; b.Sent != b.Acknowledged || b.Sent < 40 || b.Compared != 40 || rep.Stage != stage || !slices.Contains(rep.Label, label) || rep.Server.RSS != 0 {
				t.Errorf("ledger %+v, stage %q, label %q, server %+v", b, rep.Stage, rep.Label, rep.Server)
			}
			if e := rep.Environment; e == nil || len(e.Limits) == 0 || e.Fsync.Max <= 0 || e.FileSystem == "" {
				t.Errorf("what it ran on is not told: %+v", e)
			}
			if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !strings.Contains(string(page), "stage: "+stage+" alone") {
				t.Errorf("the page does not say that this is a stage: %v", err)
			}
			left, _ := os.ReadDir(temp)
			assert(t, len(left) == 0, "left behind: %v", left)
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
		ran.Expect(c.code, c.want)
	}
	left, _ := os.ReadDir(temp)
	assert(t, len(left) == 0, "left behind: %v", left)
}
