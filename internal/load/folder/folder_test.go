package folder

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// played returns the report of a small run.
func played() *report.Report {
	return &report.Report{
		Schema: report.Schema, Title: "tiny", Balance: &report.Balance{}, Valid: true, Traffic: report.Traffic{Results: 1000, Rate: 100, Latency: report.Latency{P50: 250, P99: 500.5, Max: 600}},
		Machine: report.Machine{CPU: "Some CPU", Cores: 2}, Scenario: &scenario.Scenario{Name: "sensu 4000/x"},
		Cost:   report.Cost{Server: report.Usage{Cores: 0.5, MicrosPerItem: 12.5}, Inside: &report.Inside{WireBytes: 130, JournalBytes: 60.5, Allocs: 3, AllocBytes: 700}, Calls: &report.Calls{Syncs: 50}},
		Course: report.Course{Phases: []report.Played{{Kind: "ramp"}, {Kind: "steady", From: 0, To: 10, Acknowledged: 100, Latency: report.Latency{P50: 1, P99: 2, Max: 3}}}},
		Samples: []report.Sample{
			{Second: 0, Phase: "steady", Sent: 100, Acked: 99, Failed: 7, Beyond: 0.5, Latency: &report.Latency{P50: 1.5}, Internals: report.Internals{Queues: map[string]float64{"b": 2, "a": 1, "journal": 77}}},
			{Second: 1, Phase: "a, b", Sent: 5, ServerRSS: 1 << 33},
		},
	}
}

// TestFolder saves a report, and reads each file of the folder again.
func TestFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "run")
	f, err := Make(path)
	if err != nil {
		t.Fatal(err)
	}
	rep := played()
	log := File{"server.log", "log", func(_ context.Context, w io.Writer) error { _, err := io.WriteString(w, "hello\n"); return err }}
	none := File{"empty", "nothing", func(context.Context, io.Writer) error { return nil }}
	if err := f.Save(t.Context(), rep, log, none); err != nil {
		t.Fatal(err)
	}
	back, err := report.Read(filepath.Join(path, "run.json"))
	if err != nil || len(back.Files) != 4 || back.Files["server.log"] != "log" || back.Files["empty"] != "" {
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

// TestSamplesCSV compares samples.csv with the expected lines.
func TestSamplesCSV(t *testing.T) {
	var text bytes.Buffer
	if err := writeSamples(&text, played().Samples); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&text).ReadAll() // that all rows are as long as the first, too
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, want := range []struct{ row, value, name string }{{"1", "100", "sent"}, {"1", "1.5", "p50_ms"}, {"1", "2", "queue_b"}, {"1", "77", "queue_journal_bytes"}, {"2", "0", "queue_a"},
		{"1", "7", "failed"}, {"1", "0.5", "beyond_p99_ms"}, {"2", "a, b", "phase"}, {"2", "8589934592", "server_rss_bytes"}} {
		if i, ok := column[want.name]; !ok || rows[want.row[0]-'0'][i] != want.value {
			t.Errorf("row %s of %s: %v, want %s", want.row, want.name, rows[want.row[0]-'0'], want.value)
		}
	}
}

// TestDiscard discards a folder, and expects that it is gone unless it has samples.
func TestDiscard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	f, err := Make(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Sample(report.Sample{Second: -1, Phase: "ramp"})
	if kept := f.Discard(); kept {
		t.Error("a run without a second of its timetable is kept")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("left: %v (%v)", err, fs.ErrNotExist)
	}
	// What was seen is there before anything is closed: a loader may be killed.
	if f, err = Make(path); err != nil {
		t.Fatal(err)
	}
	f.Sample(report.Sample{Second: 0, Phase: "steady", Acked: 77})
	lines, _ := os.ReadFile(filepath.Join(path, "samples.csv"))
	if !bytes.Contains(lines, []byte("\n0,steady,0,0,77,")) {
		t.Errorf("samples %q", lines)
	}
	if kept := f.Discard(); !kept {
		t.Error("what was seen of a run is not kept")
	}
	for given, want := range map[string]string{"a b/c": "a-b-c", "..": "run", "rate-16k (server)": "rate-16k--server"} {
		if got := plain(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}
