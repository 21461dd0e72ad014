package loadcmd

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// TestVerdictCodes expects the exit code of losses before those of slowness and of an invalid run.
func TestVerdictCodes(t *testing.T) {
	slow := []report.Goal{{Name: "p99"}}
	for name, c := range map[string]struct {
		rep  report.Report
		code int // 0: no error
	}{
		"well":             {report.Report{Valid: true, Balance: &report.Balance{}}, 0},
		"slow":             {report.Report{Valid: true, Balance: &report.Balance{}, Goals: slow}, exitMissed},
		"behind and slow":  {report.Report{Balance: &report.Balance{}, Goals: slow}, 7},
		"lost":             {report.Report{Balance: &report.Balance{Missing: 1}, Goals: slow}, exitLost},
		"an alert is late": {report.Report{Valid: true, Balance: &report.Balance{}, Course: report.Course{Faults: []report.Struck{{Missing: 1}}}}, exitLost},
	} {
		err, _ := verdict(&c.rep).(*failed)
		if (err == nil) != (c.code == 0) || err != nil && err.ExitCode() != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLostIsToldWithoutAReport expects losses in the error even if the report cannot be saved.
func TestLostIsToldWithoutAReport(t *testing.T) {
	full := model.Errorf(model.Limited, "keep the report: no space left on device")
	for missing, code := range map[uint64]int{0: 7, 3: exitLost} {
		rep := &report.Report{Valid: true, Balance: &report.Balance{Missing: missing}, Verdict: []string{"3 results missing"}}
		_, leg := seriesIn(t, t.TempDir(), nil).playInto("a/1", func(*folder.Folder) (*report.Report, error) { return rep, full })
		for where, err := range map[string]error{"run": unsaved(rep, full), "leg": leg, "check": (&check{}).verdict(leg)} {
			got := model.ClassOf(err).Exit()
			if judged, ok := err.(*failed); ok {
				got = judged.code
			}
			if got != code || !strings.Contains(err.Error(), "no space left") || missing > 0 && !strings.Contains(err.Error(), "3 results missing") {
				t.Errorf("%s, %d missing: code %d, %v", where, missing, got, err)
			}
		}
	}
	if err := unsaved(nil, full); err != error(full) {
		t.Error(err)
	}
}

// TestRunNamesItsCodes expects the exit codes in the help of run.
func TestRunNamesItsCodes(t *testing.T) {
	for _, says := range []string{"0 all is well", "7 this machine", "12 the scenario waits", "20 an objective", "21 something was"} {
		if long := strings.Join(strings.Fields(runCommand().Long), " "); !strings.Contains(long, says) {
			t.Errorf("no %q in\n%s", says, long)
		}
	}
}
