package page

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// The caveats of a run stand with its verdict.
func TestCaveats(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*report.Report)
		want   string
		not    string
	}{
		{"alone", func(*report.Report) {}, "", "not alone"},
		{"not alone", func(r *report.Report) { r.Others = 1.2 }, "others used 1.2 of its 2 cores", ""},
		{"left out", func(r *report.Report) { r.Operators, r.Scenario.Operators = nil, scenario.Operators{Lists: 2} }, "Not played, though the scenario has it: people at work.", "changes"},
	} {
		t.Run(c.what, func(t *testing.T) {
			rep := full()
			c.change(rep)
			got := strings.ReplaceAll(strings.Join(caveats(rep), " "), nb, " ")
			if !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("want %q, not %q, in: %s", c.want, c.not, got)
			}
		})
	}
}
