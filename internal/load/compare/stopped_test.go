package compare

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// A run that somebody ended early did not fail, unless something else was wrong with it.
func TestStoppedIsNotFailed(t *testing.T) {
	end := func(r *report.Report) {
		failed := false
		r.Stopped = &report.Stopped{After: 12, Of: 60, Phase: "steady", Well: true}
		r.Passed, r.Verdict = &failed, []string{r.Stopped.Sentence()}
	}
	fail := func(r *report.Report) {
		failed := false
		r.Passed, r.Verdict = &failed, []string{"600 results were refused"}
	}
	for _, c := range []struct {
		what            string
		change          []func(*report.Report) // of the first runs
		stopped, failed int
		says            string
	}{
		{"stopped", []func(*report.Report){end}, 1, 0, "1 run of b was stopped after 12s of 1m0s: no phase was played to its end, and no objective is judged"},
		{"failed", []func(*report.Report){fail}, 0, 1, "1 run of b failed: 600 results were refused"},
		{"both, of two", []func(*report.Report){end, fail}, 1, 1, "1 run of b failed: 600 results were refused"},
	} {
		a, b := set("a", 0, 0, 0, 0, 0, 0), set("b", 1, 0, 0, 0, 0, 0)
		for i, change := range c.change {
			change(b.Runs[i])
		}
		got := Compare(a, b)
		if got.Other.Stopped != c.stopped || got.Other.Failed != c.failed || got.Other.Runs != 5 || !slices.Contains(got.Verdict, c.says) {
			t.Errorf("%s: %+v\n%q", c.what, got.Other, got.Verdict)
		}
	}
}
