package loadcmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestCheckRemovesWhatWasBefore expects that the folders of an earlier check of the scenario are removed first, and
// others stay.
func TestCheckRemovesWhatWasBefore(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "brief.yaml"), filepath.Join(dir, "out")
	text := "scenario: muster.load/v1\nagents: [{name: web, count: 1, checks: [{name: app, interval: 1s}]}]\nphases: [{steady: 1m}]\n"
	testenv.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	left := map[string]bool{"brief-1": false, "brief-2": false, "brief-12": false, "invalid/brief-3": false,
		"brief-quick-1": true, "other-2": true, "invalid/other-2": true}
	for name := range left {
		rep := &report.Report{Schema: report.Schema, Balance: &report.Balance{}}
		testenv.NoError(t, rep.Save(filepath.Join(out, name, "run.json")))
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

// TestJudgeRuns expects the reasons of a failed check, losses first.
func TestJudgeRuns(t *testing.T) {
	cost := func(allocs float64) *report.Report {
		return &report.Report{Valid: true, Balance: &report.Balance{}, Traffic: report.Traffic{Results: 1}, Cost: report.Cost{Inside: &report.Inside{Allocs: allocs}}}
	}
	lost := cost(2)
	lost.Balance.Missing, lost.Verdict = 3, []string{"3 results missing"}
	behind := cost(4)
	behind.Valid, behind.Balance.Missing, behind.Verdict = false, 3, []string{"3 results missing"}
	late := cost(2)
	late.Phases = []report.Played{{Name: "double", Kind: "steady", Assessment: report.Assessment{Missed: []string{"p99 was not as before within 30s"}}}}
	late.Goals, late.Verdict = []report.Goal{{Name: "p99", Want: 1, Got: 2}}, []string{"p99 was not as before within 30s"}
	starved := cost(2)
	starved.Phases = []report.Played{{Name: "fast", Assessment: report.Assessment{Starved: []string{"fast starves history"}, Missed: []string{"fast starves history: 9 s"}}}}
	unanswered := cost(2)
	unanswered.Trouble, unanswered.Verdict = []string{"9 requests of people failed"}, []string{"9 requests of people failed"}
	for name, c := range map[string]struct {
		runs []*report.Report
		code int // 0: nothing is wrong
		says []string
	}{
		"all is well":         {[]*report.Report{cost(2), cost(2)}, 0, nil},
		"it grew":             {[]*report.Report{cost(4)}, exitMissed, []string{"x: allocs (allocations of the server) grew by 100 %"}},
		"it had failures":     {[]*report.Report{unanswered}, exitMissed, []string{"x: 9 requests of people failed"}},
		"it lost":             {[]*report.Report{cost(2), lost}, exitLost, []string{"x: 3 results missing"}},
		"it was late":         {[]*report.Report{late, cost(2)}, 0, nil},
		"it starved":          {[]*report.Report{starved}, exitMissed, []string{"x: fast starves history: 9 s"}},
		"it lost, and grew":   {[]*report.Report{cost(4), cost(4), lost}, exitLost, []string{"x: 3 results missing", "x: allocs "}},
		"it fell behind, too": {[]*report.Report{behind}, exitLost, []string{"x: 3 results missing"}},
	} {
		table, f := judgeRuns(checked{Scenario: &scenario.Scenario{Name: "x"}, base: []*report.Report{cost(2)}}, c.runs)
		if f.grew != strings.Contains(name, "grew") || f.again() != (name == "it grew" || name == "it starved") {
			t.Errorf("%s: grew %v, to be played again %v", name, f.grew, f.again())
		}
		if f.code != c.code || !slices.EqualFunc(f.sentences, c.says, strings.HasPrefix) || (table == "") != (name == "it fell behind, too") {
			t.Errorf("%s: %+v\n%s", name, f, table)
		}
	}
}

// TestVerdictOfACheck expects that the error of an interrupted check includes earlier losses, and no other findings.
func TestVerdictOfACheck(t *testing.T) {
	busy := model.Errorf(model.Limited, "y: this machine is too busy for the check")
	c := check{runner: runner{say: func(string, ...any) {}}, found: []finding{{sentences: []string{"x: allocs"}, code: exitMissed, grew: true, command: "muster load run x --quick --scale 0.25"}}}
	if err := c.verdict(busy); err != error(busy) {
		t.Errorf("%v", err)
	}
	if err, ok := c.verdict(nil).(*failed); !ok || err.code != exitMissed || !strings.Contains(err.err.Hint, "muster load run x --quick --scale 0.25 leaves profiles; if the cost is meant") {
		t.Errorf("%v", err)
	}
	if err, ok := (&check{found: []finding{{sentences: []string{"x: people were not answered"}, code: exitMissed}}}).verdict(nil).(*failed); !ok || err.err.Hint != "" {
		t.Errorf("%v", err)
	}
	c.found = append(c.found, finding{sentences: []string{"z: 3 results missing"}, code: exitLost})
	if err, ok := c.verdict(nil).(*failed); !ok || err.code != exitLost || err.err.Hint != "" {
		t.Errorf("%v", err)
	}
	if err, ok := c.verdict(busy).(*failed); !ok || err.code != exitLost || !strings.Contains(err.Error(), "3 results missing") || !strings.Contains(err.Error(), "too busy") {
		t.Errorf("%v", err)
	}
}
