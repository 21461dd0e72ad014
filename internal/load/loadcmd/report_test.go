package loadcmd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// TestReportIsWrittenBesideItsRun writes the page of a run, and expects it next to run.json.
func TestReportIsWrittenBesideItsRun(t *testing.T) {
	dir := t.TempDir()
	rep := &report.Report{Schema: report.Schema, Title: "of a test", Valid: true, Balance: &report.Balance{Sent: 1, Acknowledged: 1}}
	for _, name := range []string{"run.json", "rate.json"} {
		if err := rep.Save(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		file string // written; empty: standard output
	}{
		{[]string{dir}, "report.html"},
		{[]string{filepath.Join(dir, "run.json")}, "report.html"},
		{[]string{filepath.Join(dir, "rate.json")}, "rate.html"},
		{[]string{dir, "-o", filepath.Join(dir, "x.html")}, "x.html"},
		{[]string{dir, "-o", "-"}, ""},
	} {
		out, err := runReport(c.args...)
		if err != nil {
			t.Fatalf("%v: %v", c.args, err)
		}
		if c.file != "" {
			path := filepath.Join(dir, c.file)
			if !strings.HasSuffix(out, "\npage: "+path+"\n") || !strings.Contains(out, "\nLedger\n") {
				t.Errorf("%v: said %q, want the summary and %s", c.args, out, path)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out = string(text)
			os.Remove(path)
		}
		if !strings.Contains(out, "<title>Passed: of a test</title>") {
			t.Errorf("%v: wrote %.200s", c.args, out)
		}
	}
}

// TestReportOfNothing expects errors for folders without a run.
func TestReportOfNothing(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.json")
	if err := os.WriteFile(other, []byte(`{"schema":"something/1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		class model.Class
		says  string
	}{
		{dir, model.NotFound, "no run.json"},
		{filepath.Join(dir, "nothing.json"), model.NotFound, "there is no"},
		{other, model.Invalid, "not a report"},
	} {
		_, err := runReport(c.path)
		var told *model.Error
		if !errors.As(err, &told) || told.Class != c.class || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}

// runReport runs muster load report.
func runReport(args ...string) (string, error) {
	cmd := reportCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}
