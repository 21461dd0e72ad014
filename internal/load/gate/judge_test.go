package gate

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
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
