package gate

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

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
		"one of one":  {runs(bad), []string{"fast starves the results: 9 ms", "fast starves history: 9 s"}},
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
