package judge

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestPhaseGoals expects that a figure of 0 of a phase counts as measured.
func TestPhaseGoals(t *testing.T) {
	phase := report.Played{Name: "steady", Kind: "steady", Offered: 10, To: 10, Assessment: report.Assessment{Asked: map[string]scenario.Limit{"history-behind": "5s", "rate": "1"}}}
	rep := &report.Report{Course: report.Course{Phases: []report.Played{phase}}, Samples: []report.Sample{{Second: 1, Internals: report.Internals{Behind: new(0.0)}}}}
	if g := phaseGoals(rep); len(g) != 2 || !g[0].Met || g[1].Met || g[0].Why+g[1].Why != "" {
		t.Errorf("%+v", g)
	}
}

// TestPhaseGoalsOfPeople expects that a phase's objectives may name each of its figures of people and notifications.
func TestPhaseGoalsOfPeople(t *testing.T) {
	for _, figure := range []string{"list-p99", "apply-p99", "silence-p99", "run-p99", "fact-p99", "watch-p99", "holds-p99", "tell-p99"} {
		phase := report.Played{Name: "steady", Kind: "steady", Offered: 10, To: 10, Assessment: report.Assessment{Beside: []report.Beside{{Figure: figure, Count: 30, Value: 7}}, Asked: map[string]scenario.Limit{figure: "8ms"}}}
		if g := phaseGoals(&report.Report{Course: report.Course{Phases: []report.Played{phase}}}); len(g) != 1 || !g[0].Met || g[0].Got != 7 {
			t.Errorf("%s: %+v", figure, g)
		}
	}
}
