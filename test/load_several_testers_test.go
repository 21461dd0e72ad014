//go:build linux

package test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// writeJoinScenario writes a load scenario for several load tester processes, and returns its path.
func writeJoinScenario(t *testing.T, steady string) string {
	t.Helper()
	return tempFile(t, "joined.yaml", `scenario: muster.load/v1
title: Played together
seed: 5
agents:
  - name: web
    count: 200
    checks: [{name: app, count: 2, interval: 2s, changes: 0.1}]
    churn: {reconnects: 60/min, renames: 30/min, offline: 30/min, offlineFor: 1s}
  - {name: safe, count: 40, tls: true, checks: [{name: disk, interval: 2s}]}
faults:
  - {at: 1s, cut: {share: 0.5}}
  - {at: 2s, for: 1s, wrong: {count: 3}}
phases: [{ramp: 1s}, {steady: `+steady+`}, {drain: 30s}]
`)
}

var joinToken = regexp.MustCompile(`mlj1\.\S+`)

// joinTokenOf returns the join token that a load run prints for further load testers.
func joinTokenOf(t *testing.T, run *harness.Process) (token string) {
	t.Helper()
	harness.Until(t, time.Minute, "the run prints its join token", func() (string, bool) {
		token = joinToken.FindString(run.Log())
		return run.Log(), token != "" && strings.Contains(run.Log(), token+"\n")
	})
	return token
}

// startJoinedRun starts a load run of three load tester processes.
func startJoinedRun(t *testing.T, file string) (run *loadRun, others []*harness.Process) {
	t.Helper()
	run = startLoadRun(t, file, "--loaders", "3")
	token := joinTokenOf(t, run.Process)
	stranger := token[:len(token)-30] + strings.Repeat("A", 30)
	harness.Run(t, nil, "load", "join", stranger).Expect(harness.AnyFailure)
	for range 2 {
		others = append(others, harness.Launch(t, nil, "load", "join", token))
	}
	return run, others
}

// TestLoadJoin expects one load run of three processes to divide the agents among the processes. It writes one
// report.
func TestLoadJoin(t *testing.T) {
	t.Parallel()
	run, others := startJoinedRun(t, writeJoinScenario(t, "5s"))
	run.AwaitExit(0)
	for _, o := range others {
		o.AwaitExit(0, "all is well")
	}
	rep := readReport(t, run.out)
	b := rep.Balance
	assert(t, b.OK() && b.Compared == 200*2+40 && b.Refused != 0 && b.Sent == b.Acknowledged+b.Refused, "ledger %+v", b)
	require(t, len(rep.Loaders) == 3, "loaders %+v", rep.Loaders)
	assert(t, slices.ContainsFunc(rep.Samples, func(s report.Sample) bool { return s.Beyond > 0 && s.Latency != nil }),
		"no second has beyond-p99")
	var results uint64
	for i, l := range rep.Loaders {
		assert(t, l.Agents == 80 && l.Here && l.Results != 0 && l.Usage.RSS != 0 && l.Usage.Cores != 0 && (l.Clock > 0) == (i > 0),
			"loader %d: %+v", i+1, l)
		results += l.Results
	}
	assert(t, results == rep.Results, "the loaders have %d results, and the run %d", results, rep.Results)
	// One result of each state every two seconds, for five seconds, on any loader; offered results
	// are counted by the second.
	want := 5 * (200 + 20)
	assert(t, int(rep.Results) >= want*9/10 && int(rep.Results) <= want*11/10, "%d results, want about %d", rep.Results, want)
	offered := uint64(0)
	for _, s := range rep.Samples {
		offered += s.Offered
	}
	if wrong := rep.Balance.Refused; offered+wrong != rep.Results {
		t.Errorf("%d offered by the samples and %d wrong ones beside them, %d measured", offered, wrong, rep.Results)
	}
	assert(t, len(rep.Faults) == 2 && rep.Faults[0].Places == 120 && rep.Faults[0].Back > 0 && rep.Faults[1].Places == 3,
		"faults %+v", rep.Faults)
	require(t, slices.ContainsFunc(rep.Label, func(l string) bool { return strings.HasPrefix(l, "the generator was allowed to be 1h0m0s late") }), "labels %q", rep.Label)
	assert(t, len(processesWithFolder(t, run.temp)) == 0, "the run's server still runs")
}

// When one load tester process is killed, the run ends at once with the name of that process.
func TestLoadJoinEndsWithKilledProcess(t *testing.T) {
	t.Parallel()
	run, others := startJoinedRun(t, writeJoinScenario(t, "10m"))
	awaitJoinedResults(t, run, others)
	began := time.Now()
	others[0].Kill()
	run.AwaitExit(9)
	assert(t, time.Since(began) < 30*time.Second, "it ended after %s", time.Since(began))
	others[1].AwaitExit(harness.AnyFailure)
	lost := regexp.MustCompile(`loader [23] of 3 \(.*\) was lost`)
	for _, p := range []*harness.Process{run.Process, others[1]} {
		assert(t, lost.MatchString(p.Log()), "it does not say which loader was lost:\n%s", p.Log())
	}
	awaitNoProcess(t, run.temp)
}

// awaitJoinedResults waits until the server receives check results from a load run of several load tester processes.
func awaitJoinedResults(t *testing.T, run *loadRun, others []*harness.Process) {
	t.Helper()
	harness.Until(t, time.Minute, "results flow on all", func() (string, bool) {
		all := run.Log() + others[0].Log() + others[1].Log()
		return all, strings.Contains(all, "acknowledged/s of ")
	})
}

// Ctrl-C at one load tester process ends the present phase for all processes of the run.
func TestLoadJoinInterrupted(t *testing.T) {
	t.Parallel()
	run, others := startJoinedRun(t, writeJoinScenario(t, "10m"))
	awaitJoinedResults(t, run, others)
	// One loader is paused and gets the interrupt late: it ends late and no run is aborted.
	still := time.Now()
	others[1].Signal(syscall.SIGSTOP)
	others[0].Signal(syscall.SIGINT)
	harness.Until(t, time.Minute, "the run is stopped while one loader is paused for three seconds", func() (string, bool) {
		return run.Log(), strings.Contains(run.Log(), "stopped by loader ") && time.Since(still) > 3*time.Second
	})
	others[1].Signal(syscall.SIGCONT)
	run.AwaitExit(22, "stopped by loader ")
	for _, o := range others {
		o.AwaitExit(0, "the run is over: stopped after ")
	}
	rep := readReport(t, run.out)
	if b, s := rep.Balance, rep.Stopped; !b.OK() || b.Compared != 200*2+40 || s == nil || s.Of != 600 || s.After > 300 || !strings.HasPrefix(s.By, "loader ") || !strings.Contains(rep.Title, "stopped after ") {
		t.Errorf("ledger %+v, stopped %+v, title %q", b, s, rep.Title)
	}
	expectTexts(t, strings.Join(rep.Label, "; "), " late that the timetable ends")
}

// Several load tester processes can share a run against a running server. Only the first needs a login.
func TestLoadJoinOnRunningServer(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	out := filepath.Join(t.TempDir(), "report")
	run := harness.Launch(t, s.Env(), "load", "run", tinyScenario(t, ""), "--loaders", "2", "--server", s.Listen, "--admin", "http://"+s.Admin,
		"--identities", filepath.Join(t.TempDir(), "identities"), "--out", out, "--max-lag", "1h")
	other := harness.Launch(t, nil, "load", "join", joinTokenOf(t, run))
	run.AwaitExit(0)
	other.AwaitExit(0)
	rep := readReport(t, out)
	if b := rep.Balance; !b.OK() || b.Compared != 8 || len(rep.Loaders) != 2 || rep.Loaders[0].Agents != 3 || rep.Loaders[1].Agents != 2 {
		t.Errorf("ledger %+v, loaders %+v", b, rep.Loaders)
	}
}
