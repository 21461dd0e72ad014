package gate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestBaseline writes and reads a baseline, and expects errors for other scenarios and absent files.
func TestBaseline(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	known, _ := Find("muster-churn")
	sc, err := known.Load(scenario.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, sc); model.ClassOf(err) != model.NotFound {
		t.Errorf("none there: %v", err)
	}
	made := func(allocs float64) *report.Report {
		r := cost(allocs, 80)
		r.Scenario = sc
		r.Calls, r.Server, r.Loader = &report.Calls{Reads: 9, Writes: 9, Syncs: 9}, report.Usage{Cores: 0.2}, report.Usage{Cores: 0.1}
		r.Samples, r.Metrics = make([]report.Sample, 100), map[string]float64{"muster_x_total": 1}
		return r
	}
	if err := Write(dir, sc.Name, runs(made(2), made(3), made(4))); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, sc.Name, runs(made(5), made(6))); err != nil { // fewer than before
		t.Fatal(err)
	}
	back, err := Read(dir, sc)
	if err != nil || len(back) != 2 {
		t.Fatalf("%d runs, %v", len(back), err)
	}
	if back[0].Inside.Allocs != 5 || back[1].Inside.Allocs != 6 || len(back[0].Samples) > 0 {
		t.Errorf("%+v, %+v, %d samples", back[0].Inside, back[1].Inside, len(back[0].Samples))
	}
	files, _ := os.ReadDir(dir)
	if len(files) != 2 || files[0].Name() != "muster-churn-quick-1.json" {
		t.Errorf("files %v", files)
	}
	other := *sc
	other.Objectives = map[string]scenario.Limit{"p99": "1s"} // what is asked decides nothing here
	if _, err := Read(dir, &other); err != nil {
		t.Error(err)
	}
	other.Seed++
	if _, err := Read(dir, &other); model.ClassOf(err) != model.Stale {
		t.Errorf("of another scenario: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "muster-churn-quick-1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, sc); err == nil {
		t.Error("half a baseline was read")
	}
}

// TestABaselineHasAllThatDecides expects that a baseline without a deciding figure is refused, unless a restart of the
// server resets its counters.
func TestABaselineHasAllThatDecides(t *testing.T) {
	dir := t.TempDir()
	rep := cost(2, 80)
	rep.Server, rep.Loader, rep.Scenario = report.Usage{Cores: 0.2}, report.Usage{Cores: 0.1}, &scenario.Scenario{Name: "x"}
	if err := Write(dir, "x", runs(rep)); model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "fsyncs, reads, writes") {
		t.Errorf("%v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("written all the same: %v", files)
	}
	rep.Scenario.Faults = []scenario.Fault{{Server: "kill"}}
	rep.Inside = nil
	if err := Write(dir, "x", runs(rep)); err != nil {
		t.Error(err)
	}
	rep.Server.Cores = 0
	if err := Write(dir, "x", runs(rep)); err == nil {
		t.Error("a baseline that decides nothing was written")
	}
}
