package load

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestFaultPhase plays a phase with faults, and expects that it has figures and objectives of its own, apart from those
// of the run.
func TestFaultPhase(t *testing.T) {
	made := func(limit scenario.Limit) *scenario.Scenario {
		sc := towns(scenario.Phase{Name: "usual", Steady: sec(22), Warmup: sec(2)},
			scenario.Phase{Name: "dark", Fault: sec(20), Faults: []scenario.Fault{{At: sec(2), For: sec(10), Stop: &scenario.Pick{Class: "web"}}},
				Objectives: map[string]scenario.Limit{"max": limit}},
			scenario.Phase{Name: "after", Steady: sec(10), Objectives: map[string]scenario.Limit{"rate": "70"}})
		sc.Objectives = map[string]scenario.Limit{"p99": "1.5s"}
		sc.Defaults()
		return sc
	}
	rep := playOn(t, Config{Scenario: made("15s")}, &ideal{})
	if !rep.OK() {
		t.Fatalf("%v", rep.Verdict)
	}
	if dark := rep.Phases[2]; dark.Kind != report.KindFault || dark.From != 20 || dark.To != 40 || dark.Latency.Max < 5000 || rep.Latency.Max > 2000 {
		t.Errorf("%+v; of the run %+v", dark, rep.Latency)
	}
	if !strings.Contains(strings.Join(rep.Label, "; "), "without dark") {
		t.Errorf("labels %q", rep.Label)
	}
	if len(rep.Faults) != 1 || rep.Faults[0].At < 21.9 || rep.Faults[0].At > 22.3 || rep.Faults[0].Places != 20 {
		t.Errorf("%+v", rep.Faults)
	}
	if g := rep.Goals; len(g) != 3 || g[0].Phase != "" || g[1].Phase != "dark" || g[2].Phase != "after" || g[2].Got < 75 || !strings.HasPrefix(g[1].String(), "dark: slowest from intended") {
		t.Errorf("%+v", g)
	}
	if rep := playOn(t, Config{Scenario: made("3s")}, &ideal{}); rep.OK() || rep.Lost() || len(rep.Verdict) != 1 || !strings.HasPrefix(rep.Verdict[0], "short: dark: ") {
		t.Errorf("%v", rep.Verdict)
	}
}
