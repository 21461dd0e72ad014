//go:build linux

package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// tinyScenario writes a load scenario that takes a few seconds, and returns its path. Its agents connect with and
// without TLS.
func tinyScenario(t *testing.T, more string) string {
	t.Helper()
	return tempFile(t, "tiny.yaml", `scenario: muster.load/v1
title: A tiny fleet
seed: 3
agents:
  - {name: web, count: 3, checks: [{name: app, count: 2, interval: 1s, changes: 0.1}]}
  - {name: safe, count: 2, tls: true, checks: [{name: disk, interval: 1s}]}
phases:
  - ramp: 1s
  - steady: 5s
  - drain: 30s
`+more)
}

// processesWithFolder returns the command lines of running processes with a folder in their arguments.
func processesWithFolder(t *testing.T, dir string) (list []string) {
	t.Helper()
	files := testenv.Value(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, f := range files {
		if words, err := os.ReadFile(f); err == nil && bytes.Contains(words, []byte(dir)) {
			list = append(list, string(bytes.ReplaceAll(words, []byte{0}, []byte(" "))))
		}
	}
	return list
}

// runLoad runs a load scenario with its own server and reads the report. It fails the test if files or processes
// remain. Objectives that the machine is too slow for do not count.
func runLoad(t *testing.T, file string, more ...string) (ran harness.Result, rep *report.Report, out string) {
	t.Helper()
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
	ran = harness.Run(t, []string{"TMPDIR=" + temp}, loadRunArguments(file, out, more...)...)
	rep, err := report.Read(filepath.Join(out, "run.json"))
	require(t, err == nil, "%v: code %d\n%s%s", err, ran.Code, ran.Out, ran.Errors)
	expectNoFilesOrProcesses(t, temp)
	return ran, rep, out
}

// loadRunArguments returns the command line of a load run for a scenario, as arguments.
func loadRunArguments(file, out string, more ...string) []string {
	return append([]string{"load", "run", file, "--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB"}, more...)
}

// loadRun is a load run that the test has started. It has the folders of the run.
type loadRun struct {
	*harness.Process
	temp, out string
}

// startLoadRun starts a load run with a server of its own.
func startLoadRun(t *testing.T, file string, more ...string) *loadRun {
	t.Helper()
	r := &loadRun{temp: t.TempDir(), out: filepath.Join(t.TempDir(), "report")}
	r.Process = harness.Launch(t, []string{"TMPDIR=" + r.temp}, loadRunArguments(file, r.out, more...)...)
	return r
}

// awaitSecond waits until the run has measured for a second.
func (r *loadRun) awaitSecond(t *testing.T) {
	t.Helper()
	harness.Until(t, time.Minute, "the observation log has a second", func() (string, bool) {
		lines, _ := os.ReadFile(filepath.Join(r.out, "observed.jsonl"))
		return r.Log(), bytes.Contains(lines, []byte(`"sample":{`)) && strings.Contains(r.Log(), "acknowledged/s")
	})
}

// expectNoFilesOrProcesses fails the test if files or processes of a load run remain. It looks for files in the temporary
// folder of the run, and for processes that use this folder.
func expectNoFilesOrProcesses(t *testing.T, temp string) {
	t.Helper()
	left, _ := os.ReadDir(temp)
	running := processesWithFolder(t, temp)
	assert(t, len(left) == 0 && len(running) == 0, "files or processes remain: %v, %v", left, running)
}

// expectNoReport fails the test if a folder contains any part of a load report.
func expectNoReport(t *testing.T, out string) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(out, "r*"))
	assert(t, len(left) == 0, "a report: %v", left)
}

// awaitNoProcess waits until no process of a load run's server is left.
func awaitNoProcess(t *testing.T, temp string) {
	t.Helper()
	awaitEqual(t, "processes of the run's server", 0, func() int { return len(processesWithFolder(t, temp)) })
}

// A load run of a scenario starts its own server and leaves only a report folder.
func TestLoadScenario(t *testing.T) {
	t.Parallel()
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
	env := []string{"TMPDIR=" + temp, "MUSTER_DATA=" + filepath.Join(t.TempDir(), "not-this")} // the setting of another server on this machine
	ran := harness.Run(t, env, loadRunArguments(tinyScenario(t, "objectives: {beyond-p99: 60s}\n"), out)...)
	if ran.Code != 0 || !strings.HasPrefix(ran.Out, "A tiny fleet\n") || !strings.Contains(ran.Out, "nothing lost, nothing twice") || !strings.HasSuffix(ran.Out, "report: "+out+"\n") {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	rep := readReport(t, out)
	if b := rep.Balance; b.Sent != b.Acknowledged || b.Sent < 8*4 || b.Compared != 8 || rep.Scenario == nil || rep.Scenario.Name != "tiny" || rep.Title != "A tiny fleet" {
		t.Errorf("ledger %+v, scenario %+v, title %q", b, rep.Scenario, rep.Title)
	}
	if e := rep.Environment; e == nil || e.Fsync.P99 <= 0 || e.Limits["open files"] == "" || e.Server["flags"] != "--journal-reserve=1MiB" || e.FileSystem == "" {
		t.Errorf("environment %+v", e)
	}
	if in := rep.Inside; in == nil || in.WireBytes <= 0 || in.JournalBytes <= 0 || rep.Server.RSS == 0 {
		t.Errorf("inside %+v, server %+v", in, rep.Server)
	}
	for _, name := range strings.Fields("run.json report.html server.log profiles/steady-cpu.pprof profiles/steady-heap.pprof profiles/steady-mutex.pprof " +
		"profiles/steady-block.pprof profiles/steady-goroutine.pprof profiles/steady-trace.out") {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 || rep.Files[name] == "" {
			t.Errorf("%s: %v; the report says of it: %q", name, err, rep.Files[name])
		}
	}
	counted := int64(0)
	for _, line := range testenv.Value(observe.Read(bytes.NewReader(readFile(t, filepath.Join(out, "observed.jsonl")))))(t) {
		if line.Check == nil {
			continue
		}
		for _, tally := range line.Check.Parts {
			counted += tally.Whole.Count()
		}
	}
	assert(t, counted != 0 && uint64(counted) <= rep.Balance.Acknowledged,
		"%d latencies in the log, %d results acknowledged", counted, rep.Balance.Acknowledged)
	expectNoFilesOrProcesses(t, temp)
}

// A load run that misses an objective ends with exit code 20 and still writes its report.
func TestLoadScenarioMissedObjective(t *testing.T) {
	t.Parallel()
	file := tinyScenario(t, "objectives: {beyond-p99: 1us}\nfaults:\n  - {at: 2s, server: kill}\n")
	ran, rep, out := runLoad(t, file)
	ran.Expect(20, "asked at most")
	assert(t, rep.Balance.OK() && len(rep.Outages) == 1 && rep.Outages[0].Serving > 0,
		"ledger %+v, outages %+v", rep.Balance, rep.Outages)
	for name, args := range map[string][]string{
		"unknown flag --agents":       {file, "--agents", "7"},
		"a scenario is missing":       {"--quick"},
		"--scale 0":                   {file, "--scale", "0"},
		"holds the report of another": {file, "--out", out},
	} {
		harness.Run(t, nil, append([]string{"load", "run"}, args...)...).Expect(harness.AnyFailure, name)
	}
}

// In a load run with a paused server no result is lost. Each affected phase misses its rate.
func TestLoadScenarioSlowServer(t *testing.T) {
	t.Parallel()
	file := tempFile(t, "late.yaml", `scenario: muster.load/v1
title: A server that is late
agents: [{name: web, count: 20, checks: [{name: http, count: 2, interval: 1s}]}]
phases:
  - ramp: 1s
  - {name: stops, steady: 10s, objectives: {held: 80%}}
  - {name: ends so, steady: 6s, objectives: {rate: 35}}
  - {name: after, steady: 8s}
  - drain: 10s
faults: [{at: 2s, for: 5s, server: stop}, {at: 12s, for: 6s, server: stop}]
`)
	ran, rep, _ := runLoad(t, file)
	ran.Expect(20)
	phases := map[string]report.Played{}
	for _, p := range rep.Phases {
		phases[p.Name] = p
	}
	stops, ends, after := phases["stops"], phases["ends so"], phases["after"]
	for i, s := range rep.Samples[1:] {
		if s.Second > 1 && s.Second != rep.Samples[i].Second+1 {
			t.Errorf("second %d follows second %d", s.Second, rep.Samples[i].Second)
		}
	}
	assert(t, stops.InTime != nil && *stops.InTime <= 0.75 && stops.Acknowledged >= 0.9*stops.Offered && ends.Acknowledged <= 0.7*ends.Offered && after.Acknowledged >= 1.1*after.Offered,
		"%+v\n%+v\n%+v", stops, ends, after)
	missed := slices.IndexFunc(rep.Goals, func(g report.Goal) bool { return g.Met })
	assert(t, rep.Balance.OK() && len(rep.Goals) == 2 && missed < 0, "ledger %+v, %v", rep.Balance, rep.Goals)
}

// The server of a load run always ends together with the load tester, even after kill -9.
func TestLoadScenarioLeavesNoProcess(t *testing.T) {
	t.Parallel()
	file := tinyScenario(t, "")
	text := readFile(t, file)
	text = bytes.Replace(text, []byte("ramp: 1s"), []byte("ramp: 1m"), 1) // Ctrl-C comes before the first measurement
	writeFile(t, file, text)
	for name, end := range map[string]func(p *harness.Process){
		"Ctrl-C": func(p *harness.Process) {
			p.Signal(syscall.SIGINT)
			p.AwaitExit(130)
		},
		"hangup":  func(p *harness.Process) { p.Signal(syscall.SIGHUP); p.Wait(time.Minute) },
		"kill -9": func(p *harness.Process) { p.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			run := startLoadRun(t, file)
			harness.Until(t, time.Minute, "results flow", func() (string, bool) {
				return run.Log(), len(processesWithFolder(t, run.temp)) > 0 && strings.Contains(run.Log(), "preparing ")
			})
			end(run.Process)
			awaitNoProcess(t, run.temp)
			left, _ := os.ReadDir(run.temp)
			_, err := os.Stat(run.out)
			assert(t, name == "kill -9" || len(left) == 0 && os.IsNotExist(err), "files or processes remain: %v, %v", left, err)
		})
	}
}

// TestLoadScenarioInterrupted interrupts a load run in its second phase, and expects a report about only the
// first phase.
func TestLoadScenarioInterrupted(t *testing.T) {
	t.Parallel()
	file := tempFile(t, "two.yaml", `scenario: muster.load/v1
title: Two phases
seed: 3
agents:
  - {name: web, count: 3, keepalive: {interval: 1s, timeout: 5s}, checks: [{name: app, count: 2, interval: 1s}]}
phases:
  - ramp: 1s
  - {name: first, steady: 2s}
  - {name: second, steady: 10m, rate: 2}
  - drain: 30s
faults:
  - {at: 1s, for: 9m, fail: {class: web, check: app-000, count: 1}}
  - {at: 8m, for: 10s, stop: {class: web, count: 1}}
objectives: {beyond-p99: 60s, clear: 1s}
`)
	run := startLoadRun(t, file)
	run.AwaitLog("s  second  ")
	run.Signal(syscall.SIGTERM)
	run.AwaitExit(22, "second was cut short and is not judged", "nothing lost, nothing twice")
	rep := readReport(t, run.out)
	if b, s := rep.Balance, rep.Stopped; !b.OK() || b.Sent != b.Acknowledged || b.Compared != 6 || s == nil || s.Whole != 1 || s.Phase != "second" || rep.OK() || !rep.OnlyStopped() {
		t.Errorf("ledger %+v, stopped %+v, verdict %q", b, s, rep.Verdict)
	}
	assert(t, len(rep.Goals) == 1 && rep.Goals[0].Name == "beyond-p99" && rep.Goals[0].Met && strings.Contains(strings.Join(rep.Label, "; "), "stopped before: clear"),
		"goals %+v, labels %q", rep.Goals, rep.Label)
	p := rep.Phases
	assert(t, len(p) == 4 && !p[1].Short && p[2].Short && p[3].Kind == "drain", "phases %+v", p)
	// The judged phase has six results a second for two seconds. The fault that lasted longer is judged.
	assert(t, rep.Results >= 10 && rep.Results <= 14 && len(rep.Faults) == 1 && rep.Faults[0].Alerts == 1 && rep.Faults[0].Missing == 0,
		"%d results, faults %+v", rep.Results, rep.Faults)
	expectTexts(t, string(readFile(t, filepath.Join(run.out, "report.html"))), "<title>Stopped: Two phases, stopped after ")
	expectNoFilesOrProcesses(t, run.temp)
}

// TestLoadVerdictIsRepeatable evaluates the observation log of a load run again, and expects the same verdict.
// It expects a log with a false line, and the log of a killed load tester, to be judged as such.
func TestLoadVerdictIsRepeatable(t *testing.T) {
	t.Parallel()
	_, _, out := runLoad(t, tinyScenario(t, ""))
	harness.Run(t, nil, "load", "judge", out).Expect(0, "A tiny fleet", "nothing lost, nothing twice")

	lied := t.TempDir()
	log := regexp.MustCompile(`"states":"AAAA`).ReplaceAll(readFile(t, filepath.Join(out, "observed.jsonl")), []byte(`"states":"AAAB`)) // 256 more results acknowledged
	testenv.NoError(t, os.WriteFile(filepath.Join(lied, "observed.jsonl"), log, 0o644))
	harness.Run(t, nil, "load", "judge", lied).Expect(21, "5 of 8 event states differ from the ledger: 5 acknowledged and lost; node ")

	run := startLoadRun(t, tempFile(t, "long.yaml", `scenario: muster.load/v1
title: A long run
agents:
  - {name: web, count: 3, checks: [{name: app, count: 2, interval: 1s}]}
phases:
  - steady: 10m
`))
	run.awaitSecond(t)
	run.Kill()
	harness.Run(t, nil, "load", "judge", run.out).Expect(22, "A long run, stopped after ", "killed", "results: all of ", "not compared")
	harness.Run(t, nil, "load", "judge", t.TempDir()).Expect(3, "there is no observed.jsonl")
}

// A load scenario can run against an already running server, which is prepared through its API.
func TestLoadScenarioOnRunningServer(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	file, dir := tinyScenario(t, ""), t.TempDir()
	joined := map[string]time.Time{}
	// Without --admin the ledger is compared through the API.
	for i, more := range [][]string{{"--admin", "http://" + s.Admin}, {"--server-plain", s.Plain}} {
		out := filepath.Join(dir, fmt.Sprint("report", i))
		args := append([]string{"load", "run", file, "--server", s.Listen, "--server-pid", fmt.Sprint(s.PID()),
			"--identities", filepath.Join(dir, "identities"), "--out", out, "--max-lag", "1h"}, more...)
		s.Try(args...).Expect(0)
		rep := readReport(t, out)
		if b := rep.Balance; !b.OK() || b.Compared != 8 || b.Ordered != 8 || rep.Server.RSS == 0 || (rep.Files["server.log"] == "") != (i == 1) {
			t.Errorf("run %d: ledger %+v, server %+v, files %v", i, b, rep.Server, rep.Files)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "identities", "*", "*-0000?", "identity.json"))
		require(t, len(files) == 5, "run %d: identities %v", i, files)
		for _, f := range files {
			info := testenv.Value(os.Stat(f))(t)
			before, ok := joined[f]
			assert(t, !ok || before.Equal(info.ModTime()), "%s joined again", f)
			joined[f] = info.ModTime()
		}
	}
	s.Try("node", "token", "list").Expect(0).ExpectNot("load run")
}

// TestLoadRunRefusesLoginOfOtherServer starts a load run while logged in at another server, and expects a
// refusal.
func TestLoadRunRefusesLoginOfOtherServer(t *testing.T) {
	t.Parallel()
	here, there := harness.StartServer(t), harness.StartServer(t)
	file := tinyScenario(t, "")
	for _, c := range []struct {
		to, at *harness.Server
		more   []string
	}{{there, here, nil}, {here, there, []string{"--context-file", there.Context}}} {
		args := append([]string{"load", "run", file, "--server", c.to.Listen, "--identities", t.TempDir(), "--out", filepath.Join(t.TempDir(), "out"), "--max-lag", "1h"}, c.more...)
		ran := here.Try(args...)
		want := fmt.Sprintf("you are logged in at https://%s, and --server %s is another server: nothing was prepared", c.at.Listen, c.to.Listen)
		ran.Expect(model.Invalid.Exit(), want)
	}
	for _, s := range []*harness.Server{here, there} {
		s.Try("get", "nodes", "-A").ExpectNot("web-0000")
	}
}

// In a load run, each check of a group reaches each simulated agent of the group once. The check raises its alerts.
func TestLoadGroupChecksReachAgentsOnce(t *testing.T) {
	t.Parallel()
	file := tempFile(t, "groups.yaml", `scenario: muster.load/v1
agents:
  - {name: web, count: 4, groups: [linux, eu], checks: [{name: http, interval: 1s}]}
  - {name: safe, count: 2, tls: true, groups: [linux]}
checks:
  - {name: disk, count: 2, groups: [linux, eu], interval: 1s}
  - {name: ping, each: [linux, eu], interval: 1s}
  - {name: ntp, groups: [all], interval: 2s}
phases: [{ramp: 1s}, {steady: 8s}, {drain: 30s}]
faults:
  - {at: 1s, for: 3s, fail: {check: disk-001}}
`)
	ran, rep, _ := runLoad(t, file)
	ran.Expect(0)
	b, states := rep.Balance, 4*(1+2+2+1)+2*(2+1+1)
	assert(t, b.Sent == b.Acknowledged && b.Compared == states && b.Differ == 0, "ledger %+v, want %d states", b, states)
	assert(t, len(rep.Faults) == 1 && rep.Faults[0].Places == 6 && rep.Faults[0].Alerts == 12 && rep.Faults[0].Missing+rep.Faults[0].Extra == 0,
		"%+v", rep.Faults)
}

// A load run whose server crashes ends with exit code 21, and its report shows the crash.
func TestLoadServerCrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		says   string
	}{
		"killed":  {syscall.SIGKILL, "the server under test ended by itself: signal: killed"},
		"aborted": {syscall.SIGABRT, "; its log: SIGABRT: abort"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := tinyScenario(t, "")
			text := readFile(t, file)
			text = bytes.Replace(text, []byte("drain: 30s"), []byte("drain: 2s"), 1)
			text = bytes.Replace(text, []byte("steady: 5s"), []byte("steady: 15s"), 1) // the server crashes while results arrive, also on a busy machine
			writeFile(t, file, text)
			run := startLoadRun(t, file)
			run.awaitSecond(t)
			signalServerIn(t, run.temp, c.signal)
			run.AwaitExit(21, c.says, "neither acknowledged nor refused")
			rep := readReport(t, run.out)
			assert(t, !rep.OK() && rep.Balance.Missing != 0 && !rep.Balance.WasCompared() && strings.Contains(strings.Join(rep.Verdict, "; "), "could not be read, and is not compared"),
				"%+v; %q", rep.Balance, rep.Verdict)
			assert(t, len(readFile(t, filepath.Join(run.out, "server.log"))) > 0, "the server's log is empty")
		})
	}
}

// A second Ctrl-C ends a load run and its hanging server immediately, without a report.
func TestLoadSecondInterrupt(t *testing.T) {
	t.Parallel()
	run := startLoadRun(t, tinyScenario(t, ""))
	run.awaitSecond(t)
	signalServerIn(t, run.temp, syscall.SIGSTOP)
	run.Signal(syscall.SIGINT)
	run.AwaitLog("Ctrl-C again ends at once")
	harness.Until(t, time.Minute, "the load run has ended", func() (string, bool) { // signals within a second count as one
		if !run.Ended() {
			_ = syscall.Kill(run.PID(), syscall.SIGINT)
		}
		return run.Log(), run.Ended()
	})
	run.AwaitExit(130, "stopped, and there is no report", "the seconds until then are in "+run.out)
	expectNoFilesOrProcesses(t, run.temp)
	expectNoReport(t, run.out)
}

// signalServerIn sends a signal such as SIGTERM to the server that runs on a given data folder.
func signalServerIn(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if words, err := os.ReadFile(f); err == nil && bytes.Contains(words, []byte(dir)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			testenv.NoError(t, syscall.Kill(pid, sig))
			return
		}
	}
	t.Fatal("there is no server")
}

// A load run whose report does not fit on a full disk reports the full disk. It leaves no incomplete report.
func TestLoadReportOnFullDisk(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	t.Parallel()
	temp, out := t.TempDir(), t.TempDir()
	mountTmpfs(t, out, "4k")
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, loadRunArguments(tinyScenario(t, ""), out)...)
	ran.Expect(7, "the observation log of this run cannot be written", "the disk of "+out+" is full: nothing of the report is there")
	expectTexts(t, ran.Out, "nothing lost, nothing twice")
	expectNoReport(t, out)
	expectNoFilesOrProcesses(t, temp)
}
