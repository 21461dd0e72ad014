package gate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// cost returns the report of a run with these allocations and journal bytes per result.
func cost(allocs, journal float64) *report.Report {
	return &report.Report{Schema: report.Schema, Valid: true, Balance: &report.Balance{}, Traffic: report.Traffic{Results: 1000, Rate: 100},
		Cost: report.Cost{Inside: &report.Inside{Allocs: allocs, AllocBytes: 170, WireBytes: 118, JournalBytes: journal}}}
}

// runs returns its arguments as a list.
func runs(list ...*report.Report) []*report.Report { return list }

// TestLimits expects that every limit is of a known figure that does not depend on the speed of the machine.
func TestLimits(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Limits() {
		f, ok := scenario.FigureOf(l.Figure)
		if !ok || f.Kind == scenario.Absolute || f.Least || seen[l.Figure] || l.Share <= 0 || l.Share > 0.5 {
			t.Errorf("%+v of %+v", l, f)
		}
		seen[l.Figure] = true
	}
	if len(seen) < 5 {
		t.Errorf("only %v decide", seen)
	}
}

// TestScenariosAreOfOneScaleEverywhere expects that two cores carry the release check at its fixed scale, in ten
// minutes.
func TestScenariosAreOfOneScaleEverywhere(t *testing.T) {
	two := scenario.Machine{Cores: 2, Memory: 2 << 30, Files: 10_000}
	whole := time.Duration(0)
	for _, c := range Scenarios() {
		small, err := c.Load(two)
		if err != nil {
			t.Error(err)
			continue
		}
		large, err := c.Load(scenario.Machine{Cores: 64, Memory: 1 << 40, Files: 1 << 20})
		if err != nil || !same(small, large) {
			t.Errorf("%s is another on a large machine: %v", c.Name, err)
		}
		if err := small.Runs(); err != nil {
			t.Error(err)
		}
		whole += small.Measured() + time.Duration(small.Phases[0].Ramp) + 10*time.Second // start, preparation, end
	}
	if whole > 10*time.Minute {
		t.Errorf("it takes %s", whole)
	}
	known, _ := Find("sensu-4000x40x5s")
	if _, err := known.Load(scenario.Machine{Cores: 1, Files: 200}); model.ClassOf(err) != model.Limited {
		t.Errorf("on a machine that is too small: %v", err)
	}
}

// TestStarved expects a sentence about each pair of pipelines that starved in more than half of the runs,
// and one about each pipeline with too few answers.
func TestStarved(t *testing.T) {
	well := &report.Report{Course: report.Course{Phases: []report.Played{{Name: "fast", Assessment: report.Assessment{NotJudged: []string{"people who list: 99 answers in usual, 3 here; 20 are needed"}}}}}}
	bad := &report.Report{Course: report.Course{Phases: []report.Played{{Name: "fast", Assessment: report.Assessment{Starved: []string{"fast starves the results", "fast starves the results", "fast starves history"}, Missed: []string{"fast: p99 was late", "fast starves the results: 9 ms", "fast starves the results: 50 %", "fast starves history: 9 s"}}}}}}
	half := &report.Report{Course: report.Course{Phases: []report.Played{{Name: "fast", Assessment: report.Assessment{Starved: []string{"fast starves history"}, Missed: []string{"fast starves history: 8 s"}}}}}}
	for name, c := range map[string]struct {
		runs []*report.Report
		want []string
	}{
		"none":        {runs(well), nil},
		"one of one":  {runs(bad), []string{"fast starves history: 9 s", "fast starves the results: 9 ms"}},
		"one of two":  {runs(bad, well), nil},
		"two of four": {runs(bad, well, bad, well), nil},
		"of three":    {runs(bad, well, half), []string{"fast starves history: 8 s"}},
	} {
		if got := Starved(c.runs); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := NotJudged(runs(bad, well, well)); len(got) != 1 || got[0] != "fast beside people who list: 99 answers in usual, 3 here; 20 are needed" {
		t.Errorf("not judged: %q", got)
	}
}

// TestBaseline writes and reads a baseline, and expects errors for other scenarios and absent files.
func TestBaseline(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	known, _ := Find("muster-churn")
	sc, err := known.Load(scenario.Machine{})
	testenv.NoError(t, err)
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
	testenv.NoError(t, Write(dir, sc.Name, runs(made(2), made(3), made(4))))
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
	other.Objectives = map[string]scenario.Limit{"p99": "1s"} // gates ignore objectives
	if _, err := Read(dir, &other); err != nil {
		t.Error(err)
	}
	other.Seed++
	if _, err := Read(dir, &other); model.ClassOf(err) != model.Stale {
		t.Errorf("of another scenario: %v", err)
	}
	testenv.NoError(t, os.WriteFile(filepath.Join(dir, "muster-churn-quick-1.json"), []byte("{"), 0o600))
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
