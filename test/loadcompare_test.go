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
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Folders of runs are compared by the program itself, which ends with the verdict: 20 only for what --gate asks for,
// 21 for what was lost.
func TestLoadCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, change := range map[string]func(*report.Report){"old": func(*report.Report) {}, "slow": func(r *report.Report) { r.BeyondLinger.P99 *= 2 }, "lossy": func(r *report.Report) { r.Balance.Missing = 1 }} {
		for i := range compare.Enough {
			rep, err := report.Read("../bench/results/sensu-4000x40x5s.json")
			testenv.NoError(t, err)
			rep.Samples, rep.Server.MicrosPerItem = nil, rep.Server.MicrosPerItem*(1+float64(i)/100)
			change(rep)
			testenv.NoError(t, rep.Save(filepath.Join(dir, name, fmt.Sprint(i), "run.json")))
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	page := at("page.html")
	for _, x := range []struct {
		args []string
		code int
		says string // on the first line
	}{
		{[]string{at("old"), at("slow"), "--html", page}, 20, "Regression in slow: beyond-p99 +100 %"},
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
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "✕</span> Regression") {
		t.Errorf("the page: %v", err)
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

// briefScenario is a scenario that is over at once.
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

// Two servers are played in turns, each on a folder of its own; Ctrl-C compares what is done. The same program costs
// the same.
func TestLoadCompareInterleaved(t *testing.T) {
	t.Parallel()
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "turns")
	run := harness.Launch(t, []string{"TMPDIR=" + temp}, "load", "compare", "--interleave", briefScenario(t), "--runs", "9", "--max-lag", "1h", "--out", out,
		"--a", "old: --journal-reserve=1MiB", "--b", "new: "+harness.Binary()+" --journal-reserve=1MiB")
	harness.Until(t, 2*time.Minute, "the third leg plays", func() (string, bool) {
		log := run.Log()
		return log, strings.Contains(log, "leg 3 of 18: new, run 2 of 9") && strings.Count(log, "preparing ") >= 3
	})
	run.Signal(syscall.SIGINT)
	if code := run.Wait(time.Minute); code != 130 && code != 22 { // 22: it measured already
		t.Errorf("Ctrl-C: code %d", code)
	}
	log := run.Log()
	for _, want := range []string{"leg 1 of 18: old, run 1 of 9; about ", "leg 2 of 18: new, run 1 of 9; about ", `No verdict: \d runs? of old beside \d runs? of new`, "wire-bytes"} {
		assert(t, regexp.MustCompile(want).MatchString(log), "it does not say %q:\n%s", want, log)
	}
	figures := map[string]map[string]float64{}
	for _, side := range []string{"old", "new"} {
		rep := readReport(t, filepath.Join(out, side, "1"))
		assert(t, rep.Balance.OK() && rep.Balance.Compared == 200 && rep.Environment.Server["flags"] == "--journal-reserve=1MiB",
			"%s: ledger %+v, server %v", side, rep.Balance, rep.Environment.Server)
		figures[side] = rep.Figures()
		if _, err := os.Stat(filepath.Join(out, side, "1", "profiles")); err == nil {
			t.Errorf("%s: profiles were taken, and what they cost was counted", side)
		}
	}
	for _, name := range []string{"wire-bytes", "journal-bytes"} {
		a, b := figures["old"][name], figures["new"][name]
		assert(t, a > 0 && b >= 0.7*a && b <= 1.4*a, "%s: %g and %g of the same program", name, a, b)
	}
	expectNothingLeft(t, temp)
	again := harness.Run(t, nil, "load", "compare", filepath.Join(out, "old"), filepath.Join(out, "new"))
	assert(t, again.Code == 0 && regexp.MustCompile(`\d runs? of old`).MatchString(again.Out),
		"code %d\n%s%s", again.Code, again.Out, again.Errors)
}

// The release check takes a baseline, passes what costs no more, and fails what does, with profiles of it.
func TestLoadCheck(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("six short load runs")
	}
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
	// So few results a second say little of what each costs: the baseline is moved instead.
	move := func(factor float64) {
		rep, err := report.Read(base)
		testenv.NoError(t, err)
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
	ran := check()
	profile := filepath.Join(dir, "out", "profiled", "brief", "profiles", "steady-allocs.pprof")
	ran.Expect(20, "brief: allocs (allocations of the server) grew by ", profile)
	for _, path := range []string{profile, filepath.Join(dir, "out", "brief-3", "run.json")} {
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	// Who ends the run for the profiles ends the check, and nothing is decided.
	run := harness.Launch(t, []string{"TMPDIR=" + t.TempDir()}, "load", "check", file, "--baseline", filepath.Dir(base), "--runs", "3",
		"--out", filepath.Join(dir, "stopped"), "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
	run.AwaitLog("played once more, for its profiles")
	run.Signal(syscall.SIGINT)
	if code := run.Wait(time.Minute); code != 130 && code != 22 || strings.Contains(run.Log(), "there are no profiles") {
		t.Errorf("Ctrl-C in the run for the profiles: code %d\n%s", code, run.Log())
	}
}
