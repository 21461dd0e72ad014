package loadcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReportIsWrittenBesideItsRun writes the page of a run, and expects it next to run.json.
func TestReportIsWrittenBesideItsRun(t *testing.T) {
	dir := t.TempDir()
	rep := &report.Report{Schema: report.Schema, Title: "of a test", Valid: true, Balance: &report.Balance{Sent: 1, Acknowledged: 1}}
	for _, name := range []string{"run.json", "rate.json"} {
		testenv.NoError(t, rep.Save(filepath.Join(dir, name)))
	}
	for _, c := range []struct {
		args []string
		file string // written; empty: standard output
	}{
		{[]string{dir}, "report.html"},
		{[]string{filepath.Join(dir, "run.json")}, "report.html"},
		{[]string{filepath.Join(dir, "rate.json")}, "rate.html"},
		{[]string{dir, "--out", filepath.Join(dir, "x.html")}, "x.html"},
		{[]string{dir, "--out", "-"}, ""},
	} {
		out, err := loadCommand(t, "", append([]string{"report"}, c.args...)...)
		if err != nil {
			t.Fatalf("%v: %v", c.args, err)
		}
		if c.file != "" {
			path := filepath.Join(dir, c.file)
			if !strings.HasSuffix(out, "\npage: "+path+"\n") || !strings.Contains(out, "\nLedger\n") {
				t.Errorf("%v: said %q, want the summary and %s", c.args, out, path)
			}
			text, err := os.ReadFile(path)
			testenv.NoError(t, err)
			out = string(text)
			os.Remove(path)
		}
		if !strings.Contains(out, "<title>Passed: of a test</title>") {
			t.Errorf("%v: wrote %.200s", c.args, out)
		}
	}
}

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
