//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestLoadRun sends load to an already running server, and expects a report with all measurements.
func TestLoadRun(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	fleet := harness.Fleet{Agents: 10, Checks: 5, Interval: time.Second}
	s.Prepare(fleet)
	s.Start()
	dir := t.TempDir()
	out, pid := filepath.Join(dir, "tiny"), filepath.Join(dir, "pid")
	writeFile(t, pid, fmt.Appendln(nil, s.PID()))
	run := func(duration string, more ...string) harness.Result {
		file := fleet.WriteScenario(t, "--duration", duration, "--warmup", "1s")
		return harness.Run(t, s.Env(), append([]string{"load", "run", file, "--server", s.Listen, "--server-plain", s.Plain, "--data", s.Data, "--max-lag", "1h"}, more...)...)
	}
	run("3s", "--admin", "http://"+s.Admin, "--server-pid", pid, "--goal", "rate=1", "--title", "tiny", "--out", out).Expect(0, "nothing lost, nothing twice")
	rep := testenv.Value(report.Read(filepath.Join(out, "run.json")))(t)
	b := rep.Balance
	assert(t, b.Sent == b.Acknowledged && b.Sent >= 100 && b.Compared == 50 && b.OK(), "ledger %+v", b)
	assert(t, rep.Disk != nil && rep.Disk.Written != 0 && rep.Disk.Journal != 0 && rep.Calls != nil && rep.Calls.Syncs != 0 && rep.Calls.ResultsPerCommit != 0,
		"disk %+v, calls %+v", rep.Disk, rep.Calls)
	if in := rep.Inside; in == nil || in.WireBytes <= 0 || in.JournalBytes <= 0 || in.Allocs <= 0 || in.AllocBytes <= 0 || in.Goroutines <= 0 {
		t.Errorf("inside the server: %+v", in)
	}
	assert(t, len(rep.Goals) == 1 && rep.Goals[0].Met && rep.Server.RSS != 0 && rep.AgentBytes != 0,
		"goals %+v, server %+v, loader %.0f B per agent", rep.Goals, rep.Server, rep.AgentBytes)
	expectJSONMembers(t, filepath.Join(out, "run.json"), "schema began version command machine.cpu machine.cores machine.kernel machine.memory plan.agents valid verdict "+
		"balance.sent rate latencyMs.p99 beyondLingerMs.p99 generatorLagMs.p99 signalsPerFrame.mean server.cpuMicrosPerResult calls.framesPerRead disk.bytesPerDay samples")
	table := harness.Run(t, nil, "load", "table", filepath.Join(out, "run.json"))
	expectTexts(t, table.Out, "## Asked and measured", "| tiny | acknowledged | at least 1 results/s |", "| OK |", "10 × 5", "## Figures")
	missed := run("2s", "--goal", "rate=1000000", "--uncompared", "--out", filepath.Join(dir, "missed"))
	assert(t, missed.Code != 0 && strings.Contains(missed.Errors, "asked at least 1,000,000 results/s") && strings.Contains(missed.Out, " not compared: "),
		"a goal out of reach: code %d\n%s%s", missed.Code, missed.Out, missed.Errors)
}

// expectJSONMembers fails the test for each missing object member in a JSON file. The members are given as
// paths.
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

// A load scenario can run in several sizes, each with its own server and report. The last line // sums up. A size
// that a limit of the machine forbids is an answer, not an error.
func TestLoadRunsInSeveralSizes(t *testing.T) {
	skipIfShort(t, "it takes some seconds for each size")
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
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, "load", "size", file, "--factors", "1,2,1000", "--seconds", "1", "--max-lag", "1h", "--out", out)
	ran.Expect(0)
	lines := strings.Split(strings.TrimSpace(ran.Out), "\n")
	sentence := lines[len(lines)-2]
	expectTexts(t, sentence, "This machine carries 2× (30 agents, 42.5 results/s); at 1× the server uses ", " of memory, ", " fsyncs/s of disk, and ", " out of network; at 1000× (15,000 agents, 21,250 results/s) ", " the limit is ")
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
	expectNoFilesOrProcesses(t, temp)
	hasty, twice := filepath.Join(dir, "hasty.yaml"), filepath.Join(dir, "twice")
	writeFile(t, hasty, strings.Replace(text, "beyond-p99: 60s", "p99: 1ms", 1))
	ran = harness.Run(t, []string{"TMPDIR=" + temp}, "load", "size", hasty, "--factors", "1,2", "--seconds", "1", "--max-lag", "1h", "--out", twice)
	ran.Expect(0, "1× was played twice: the first run failed (")
	for _, size := range []string{"1x", "1x-again"} {
		rep, err := report.Read(filepath.Join(twice, size, "run.json"))
		assert(t, err == nil && !rep.OK(), "%s: %v", size, err)
	}
	for args, says := range map[string]string{
		"":                         "the argument NAME|FILE is missing",
		file + " --factors 0,1":    "--factors 0: want numbers above 0",
		file + " --server x:1":     "leave --server out",
		file + " " + file:          "unexpected argument",
		file + " --seconds 100000": "--seconds 100000",
	} {
		harness.Run(t, nil, append([]string{"load", "size"}, strings.Fields(args)...)...).Expect(model.Invalid.Exit(), says)
	}
}

// TestLoadCompare compares load runs, and expects exit code 20 for a slower run. For lost results the code is
// 21.
func TestLoadCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, change := range map[string]func(*report.Report){"old": func(*report.Report) {}, "slow": func(r *report.Report) { r.BeyondLinger.P99 *= 2 }, "lossy": func(r *report.Report) { r.Balance.Missing = 1 }} {
		for i := range compare.Enough {
			rep := testenv.Value(report.Read("../bench/results/sensu-4000x40x5s.json"))(t)
			rep.Samples, rep.Server.MicrosPerItem = nil, rep.Server.MicrosPerItem*(1+float64(i)/100)
			change(rep)
			testenv.NoError(t, rep.Save(filepath.Join(dir, name, fmt.Sprint(i), "run.json")))
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, x := range []struct {
		args []string
		code int
		says string // expected on the first line
	}{
		{[]string{at("old"), at("slow")}, 20, "Regression in slow: beyond-p99 +100 %"},
		{[]string{at("old"), at("slow"), "--gate", "count,relative"}, 0, "Regression in slow: beyond-p99 +100 %"},
		{[]string{at("slow"), at("old")}, 0, "No regression"},
		{[]string{at("old"), at("lossy"), "--gate", "relative"}, 21, "Regression in lossy: imbalance 0 → 1"},
		{[]string{at("old/0"), at("slow/0")}, 0, "No verdict: 1 run of "},
	} {
		ran := harness.Run(t, nil, append([]string{"load", "compare"}, x.args...)...)
		first, _, _ := strings.Cut(ran.Out, "\n")
		assert(t, ran.Code == x.code && strings.Contains(first, x.says) && (x.code != 0) == strings.HasPrefix(ran.Errors, "muster: regression: "),
			"%q ended with %d:\n%s%s", x.args, ran.Code, ran.Out, ran.Errors)
	}
	var got struct {
		Schema      string
		Comparisons []compare.Comparison
	}
	ran := harness.Run(t, nil, "load", "compare", at("old"), at("slow"), at("lossy"), "-o", "json")
	if err := json.Unmarshal([]byte(ran.Out), &got); err != nil || ran.Code != 21 || got.Schema != "muster.load.compare/1" || len(got.Comparisons) != 2 || got.Comparisons[1].Rows[0].Figure != "imbalance" {
		t.Errorf("%v, code %d\n%s", err, ran.Code, ran.Errors)
	}
}

// briefScenario writes a short load scenario, and returns its path.
func briefScenario(t *testing.T) string {
	t.Helper()
	return tempFile(t, "brief.yaml", `scenario: muster.load/v1
title: A brief fleet
agents:
  - {name: web, count: 20, linger: 100ms, checks: [{name: app, count: 10, interval: 1s, changes: 0.1}]}
phases:
  - ramp: 1s
  - steady: 2s
  - drain: 30s
`)
}

// The load tester runs against two servers alternately and compares the finished runs, also after Ctrl-C. The same
// program costs the same.
func TestLoadCompareInterleaved(t *testing.T) {
	t.Parallel()
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "turns")
	run := harness.Launch(t, []string{"TMPDIR=" + temp}, "load", "compare", "--interleave", briefScenario(t), "--runs", "9", "--max-lag", "1h", "--out", out,
		"--a", "old: --journal-reserve=1MiB", "--b", "new: "+harness.Binary()+" --journal-reserve=1MiB")
	harness.Until(t, 2*time.Minute, "the third run of the comparison plays", func() (string, bool) {
		log := run.Log()
		return log, strings.Contains(log, "leg 3 of 18: new, run 2 of 9") && strings.Count(log, "preparing ") >= 3
	})
	run.Signal(syscall.SIGINT)
	if code := run.Wait(time.Minute); code != 130 && code != 22 { // 22: the run had already measured results
		t.Errorf("Ctrl-C: code %d", code)
	}
	log := run.Log()
	for _, want := range []string{"leg 1 of 18: old, run 1 of 9; at most ", "leg 2 of 18: new, run 1 of 9; at most ", `No verdict: \d runs? of old beside \d runs? of new`, "wire-bytes"} {
		assert(t, regexp.MustCompile(want).MatchString(log), "it does not say %q:\n%s", want, log)
	}
	figures := map[string]map[string]float64{}
	for _, side := range []string{"old", "new"} {
		rep := readReport(t, filepath.Join(out, side, "1"))
		assert(t, rep.Balance.OK() && rep.Balance.Compared == 200 && rep.Environment.Server["flags"] == "--journal-reserve=1MiB",
			"%s: ledger %+v, server %v", side, rep.Balance, rep.Environment.Server)
		figures[side] = rep.Figures()
		_, err := os.Stat(filepath.Join(out, side, "1", "profiles"))
		assert(t, err != nil, "%s: profiles were taken, and what they cost was counted", side)
	}
	for _, name := range []string{"wire-bytes", "journal-bytes"} {
		a, b := figures["old"][name], figures["new"][name]
		assert(t, a > 0 && b >= 0.7*a && b <= 1.4*a, "%s: %g and %g of the same program", name, a, b)
	}
	expectNoFilesOrProcesses(t, temp)
	again := harness.Run(t, nil, "load", "compare", filepath.Join(out, "old"), filepath.Join(out, "new"))
	assert(t, again.Code == 0 && regexp.MustCompile(`\d runs? of old`).MatchString(again.Out),
		"code %d\n%s%s", again.Code, again.Out, again.Errors)
}

// TestLoadCheck records a baseline, and expects the load check to accept an equal and reject a slower server.
func TestLoadCheck(t *testing.T) {
	t.Parallel()
	skipIfShort(t, "six short load runs")
	dir, file := t.TempDir(), briefScenario(t)
	base := filepath.Join(dir, "baseline", "brief-1.json")
	check := func(more ...string) harness.Result {
		args := append([]string{"load", "check", file, "--baseline", filepath.Dir(base), "--out", filepath.Join(dir, "out"), "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB"}, more...)
		return harness.Run(t, []string{"TMPDIR=" + t.TempDir()}, args...)
	}
	if ran := check(); ran.Code != 3 || !strings.Contains(ran.Errors, "there is no baseline of brief") {
		t.Fatalf("without a baseline: code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	if ran := check("--write"); ran.Code != 0 {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	// The cost of so few results a second varies: the test moves the baseline instead.
	move := func(factor float64) {
		rep := testenv.Value(report.Read(base))(t)
		rep.Inside.Allocs *= factor
		rep.Inside.AllocBytes *= 100
		rep.Inside.WireBytes, rep.Inside.JournalBytes = 1000, 1000
		rep.Calls.Syncs, rep.Calls.Reads, rep.Calls.Writes, rep.Server.Cores = 1e6, 1e6, 1e6, 100
		testenv.NoError(t, rep.Save(base))
	}
	move(100)
	if ran := check(); ran.Code != 0 || !strings.Contains(ran.Out, "informs") {
		t.Errorf("below the baseline: code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	move(0.0001)
	check().Expect(20, "brief: allocs (allocations of the server) grew by ")
	info, err := os.Stat(filepath.Join(dir, "out", "brief-3", "run.json"))
	assert(t, err == nil && info.Size() != 0, "the third run: %v", err)
}
