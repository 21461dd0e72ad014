package judge

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// A figure of a phase that is 0 was measured.
func TestPhaseGoals(t *testing.T) {
	phase := report.Played{Name: "steady", Kind: "steady", Offered: 10, To: 10, Assessment: report.Assessment{Asked: map[string]scenario.Limit{"history-behind": "5s", "rate": "1"}}}
	rep := &report.Report{Course: report.Course{Phases: []report.Played{phase}}, Samples: []report.Sample{{Second: 1, Internals: report.Internals{Behind: new(0.0)}}}}
	if g := phaseGoals(rep); len(g) != 2 || !g[0].Met || g[1].Met || g[0].Why+g[1].Why != "" {
		t.Errorf("%+v", g)
	}
}
