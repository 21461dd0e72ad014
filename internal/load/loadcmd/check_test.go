package loadcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/gate"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// TestCheckRefusesAtOnce expects errors about impossible checks before a scenario is played.
func TestCheckRefusesAtOnce(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for want, c := range map[string]struct {
		args  []string
		class model.Class
	}{
		"there is no baseline of muster-churn-quick in": {[]string{"muster-churn"}, model.NotFound},
		"is no scenario of the release check":           {[]string{"muster-chrun"}, model.NotFound},
		"--runs 0":                                      {[]string{"--runs", "0"}, model.Invalid},
		"muster-churn-quick is there twice":             {[]string{"muster-churn", "muster-churn"}, model.Invalid},
	} {
		_, err := loadCommand(t, "", append([]string{"check", "--baseline", t.TempDir(), "--out", out}, c.args...)...)
		if model.ClassOf(err) != c.class || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c.args, err, want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something was played")
	}
}

// TestCheckRemovesWhatWasBefore expects that the folders of an earlier check of the scenario are removed first, and
// others stay.
func TestCheckRemovesWhatWasBefore(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "brief.yaml"), filepath.Join(dir, "out")
	text := "scenario: muster.load/v1\nagents: [{name: web, count: 1, checks: [{name: app, interval: 1s}]}]\nphases: [{steady: 1m}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{"brief-1": false, "brief-2": false, "brief-12": false, "invalid/brief-3": false, "profiled/brief": false, "invalid/profiled/brief": false,
		"brief-quick-1": true, "other-2": true, "invalid/other-2": true, "profiled/other": true}
	for name := range left {
		rep := &report.Report{Schema: report.Schema, Balance: &report.Balance{}}
		if err := rep.Save(filepath.Join(out, name, "run.json")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(out, "brief-7"), 0o700); err != nil { // without a run it is somebody else's
		t.Fatal(err)
	}
	left["brief-7"] = true
	_, err := loadCommand(t, "", "check", file, "--write", "--baseline", dir, "--out", out, "--server-binary", filepath.Join(dir, "no-such-program"))
	if model.ClassOf(err) != model.NotFound {
		t.Fatal(err)
	}
	for name, want := range left {
		if _, err := os.Stat(filepath.Join(out, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// TestFindings expects the reasons of a failed check, losses first.
func TestFindings(t *testing.T) {
	well := &report.Report{Valid: true, Balance: &report.Balance{}}
	lost := &report.Report{Valid: true, Balance: &report.Balance{Missing: 3}, Verdict: []string{"3 results missing"}}
	late := &report.Report{Valid: true, Balance: &report.Balance{}, Course: report.Course{Phases: []report.Played{{Name: "double", Kind: "steady", Assessment: report.Assessment{Missed: []string{"p99 was not as before within 30s"}}}}},
		Goals: []report.Goal{{Name: "p99", Want: 1, Got: 2}}, Verdict: []string{"p99 was not as before within 30s"}}
	if late.OK() {
		t.Fatal("a run that was late is not OK")
	}
	cost := func(allocs float64) []*report.Report {
		return []*report.Report{{Valid: true, Balance: &report.Balance{}, Traffic: report.Traffic{Results: 1}, Cost: report.Cost{Inside: &report.Inside{Allocs: allocs}}}}
	}
	more := gate.Judge(cost(2), cost(4))
	for name, c := range map[string]struct {
		runs    []*report.Report
		excess  []gate.Excess
		starved []string
		code    int // 0: nothing is wrong
		says    string
	}{
		"all is well":   {[]*report.Report{well, well}, nil, nil, 0, ""},
		"it grew":       {[]*report.Report{well}, more, nil, exitMissed, "x: allocs (allocations of the server) grew by 100 %"},
		"it lost":       {[]*report.Report{well, lost}, nil, nil, exitLost, "x: 3 results missing"},
		"it was late":   {[]*report.Report{late, well}, nil, nil, 0, ""},
		"it lost, late": {[]*report.Report{late, lost}, nil, nil, exitLost, "x: 3 results missing"},
		"it lost, too":  {[]*report.Report{lost}, more, nil, exitLost, "grew by 100 %"},
		"it starved":    {[]*report.Report{late, well}, nil, []string{"fast starves history: 9 s"}, exitMissed, "x: fast starves history: 9 s"},
		"it lost, also": {[]*report.Report{lost}, more, nil, exitLost, "3 results missing"},
	} {
		f := findings{profiles: []string{"out/profiled/x/profiles"}}
		if ok := f.add("x", c.runs, c.excess, c.starved); ok != (c.code == 0) {
			t.Errorf("%s: %v", name, ok)
		}
		err := f.err()
		if c.code == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		failure, ok := err.(*failed)
		if !ok || failure.code != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if len(c.excess) > 0 && c.code == exitMissed && !strings.Contains(failure.err.Hint, "out/profiled/x/profiles/steady-allocs.pprof") {
			t.Errorf("%s: hint %q", name, failure.err.Hint)
		}
	}
}

// TestFindingsBeforeAnEnd expects that the error of an interrupted check includes earlier losses.
func TestFindingsBeforeAnEnd(t *testing.T) {
	busy := model.Errorf(model.Limited, "y: this machine is too busy for the check")
	f := findings{grew: []string{"x: allocs"}}
	if err := f.after(busy); err != error(busy) {
		t.Errorf("%v", err)
	}
	f.lost = []string{"x: 3 results missing"}
	if err, ok := f.after(busy).(*failed); !ok || err.code != exitLost || !strings.Contains(err.Error(), "3 results missing") || !strings.Contains(err.Error(), "too busy") {
		t.Errorf("%v", err)
	}
}

// TestGrownIsOfRunsThatCount expects that figures of invalid runs are not compared with the baseline.
func TestGrownIsOfRunsThatCount(t *testing.T) {
	cost := func(allocs float64, valid bool) []*report.Report {
		return []*report.Report{{Valid: valid, Balance: &report.Balance{Missing: 1}, Traffic: report.Traffic{Results: 1}, Cost: report.Cost{Inside: &report.Inside{Allocs: allocs}}}}
	}
	for valid, want := range map[bool]int{true: 1, false: 0} {
		if excess, _ := grown(cost(2, true), cost(4, valid)); len(excess) != want {
			t.Errorf("valid %t: %v", valid, excess)
		}
	}
}
