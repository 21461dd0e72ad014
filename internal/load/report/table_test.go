package report

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// A row begins with what a command calls its run; the title stands behind.
func TestRowsAreNamed(t *testing.T) {
	mixed := &scenario.Scenario{Name: "muster-mixed"}
	for _, c := range []struct {
		path, want string
		rep        Report
	}{
		{"bench/results/muster-mixed.json", "muster-mixed: All pipelines, together", Report{Title: "All pipelines, together", Scenario: mixed}},
		{"reports/2026-11-22/run.json", "muster-mixed: All pipelines, together", Report{Title: "All pipelines, together", Scenario: mixed}},
		{"bench/results/rate-16k.json", "rate-16k (server)", Report{Title: "rate-16k (server)"}},
		{"bench/results/rate-16k.json", "rate-16k", Report{}},
		{"reports/monday/run.json", "monday: a flat run", Report{Title: "a flat run"}},
		{"reports/monday/run.json", "muster-mixed", Report{Scenario: mixed}},
	} {
		if got := c.rep.named(c.path); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
}
