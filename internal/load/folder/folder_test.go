package folder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// played returns the report of a small run.
func played() *report.Report {
	return &report.Report{
		Schema: report.Schema, Title: "tiny", Balance: &report.Balance{}, Valid: true, Traffic: report.Traffic{Results: 1000, Rate: 100},
		Span:    report.Span{Latency: report.Latency{P50: 250, P99: 500.5, Max: 600}, Server: report.Usage{Cores: 0.5, MicrosPerItem: 12.5}},
		Machine: report.Machine{CPU: "Some CPU", Cores: 2}, Scenario: &scenario.Scenario{Name: "sensu 4000/x"},
		Cost:   report.Cost{Inside: &report.Inside{WireBytes: 130, JournalBytes: 60.5, Allocs: 3, AllocBytes: 700}, Calls: &report.Calls{Syncs: 50}},
		Course: report.Course{Phases: []report.Played{{Kind: "ramp"}, {Kind: "steady", From: 0, To: 10, Acknowledged: 100, Span: report.Span{Latency: report.Latency{P50: 1, P99: 2, Max: 3}}}}},
	}
}

// TestFolder saves a report, and reads each file of the folder again.
func TestFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "run")
	f, err := Make(path)
	testenv.NoError(t, err)
	rep := played()
	testenv.NoError(t, f.Save(rep, []byte("hello\n")))
	back, err := report.Read(filepath.Join(path, "run.json"))
	if err != nil || len(back.Files) != 3 || back.Files[ServerLog] == "" {
		t.Fatalf("%v, files %v", err, back.Files)
	}
	for name := range back.Files {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Make(path); model.ClassOf(err) != model.Conflict {
		t.Errorf("a second run into the same folder: %v", err)
	}
}

// TestDiscard discards a folder, and expects that it is gone unless it has the observation log.
func TestDiscard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	f, err := Make(path)
	testenv.NoError(t, err)
	if kept := f.Discard(); kept {
		t.Error("an empty folder is kept")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
	if f, err = Make(path); err != nil {
		t.Fatal(err)
	}
	testenv.NoError(t, os.WriteFile(filepath.Join(path, "server.log"), []byte("x\n"), 0o600))
	if kept := f.Discard(); kept {
		t.Error("the log of the server is no observation log")
	}
	testenv.NoError(t, os.WriteFile(filepath.Join(path, ObservationLog), []byte("{}\n"), 0o600))
	if kept := f.Discard(); !kept {
		t.Error("the observation log is not kept")
	}
}
