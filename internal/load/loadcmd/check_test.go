package loadcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/gate"
	"github.com/muster-fleet/muster/internal/model"
)

// What cannot be checked is said before anything is played.
func TestCheckRefusesAtOnce(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for want, c := range map[string]struct {
		args  []string
		class model.Class
	}{
		"there is no baseline of muster-churn-quick in": {[]string{"muster-churn"}, model.NotFound},
		"is no scenario of the release check":           {[]string{"muster-chrun"}, model.NotFound},
		"--runs 0":                                      {[]string{"--runs", "0"}, model.Invalid},
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

func TestFindings(t *testing.T) {
	well := &load.Report{Valid: true, Balance: &load.Balance{}}
	lost := &load.Report{Valid: true, Balance: &load.Balance{Missing: 3}, Verdict: []string{"3 results missing"}}
	cost := func(allocs float64) []*load.Report {
		return []*load.Report{{Valid: true, Balance: &load.Balance{}, Results: 1, Inside: &load.Inside{Allocs: allocs}}}
	}
	more := gate.Judge(cost(2), cost(4))
	for name, c := range map[string]struct {
		runs   []*load.Report
		excess []gate.Excess
		code   int // 0: nothing is wrong
		says   string
	}{
		"all is well":   {[]*load.Report{well, well}, nil, 0, ""},
		"it grew":       {[]*load.Report{well}, more, exitMissed, "x: allocs (allocations of the server) grew by 100 %"},
		"it lost":       {[]*load.Report{well, lost}, nil, exitLost, "x: 3 results missing"},
		"it lost, too":  {[]*load.Report{lost}, more, exitLost, "grew by 100 %"},
		"it lost, also": {[]*load.Report{lost}, more, exitLost, "3 results missing"},
	} {
		f := findings{profiles: "out/profiled/x/profiles"}
		if ok := f.add("x", c.runs, c.excess); ok != (c.code == 0) {
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
		if c.code == exitMissed && !strings.Contains(failure.said.Hint, "out/profiled/x/profiles/steady-allocs.pprof") {
			t.Errorf("%s: hint %q", name, failure.said.Hint)
		}
	}
}
