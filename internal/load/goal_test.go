package load

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// A phase that had to settle and was not judged, or never did, leaves nothing to be reached.
func TestSettlingIsOfAllThatHadTo(t *testing.T) {
	for _, c := range []struct {
		asked   int
		settled []float64 // of the phases of the report
		want    float64
		ok      bool
	}{
		{1, []float64{0, 0, 3}, 3, true},
		{2, []float64{0, 0, 3, 0, 7}, 7, true},
		{1, []float64{0, 0}, 0, false},
		{1, []float64{0, 0, -1}, 0, false},
		{2, []float64{0, 0, 3, 0, 0}, 3, false},
		{0, []float64{0, 0}, 0, false},
	} {
		rep := &Report{Scenario: &scenario.Scenario{Phases: []scenario.Phase{{Steady: sec(60)}, {Steady: sec(60), Rate: 2}}}}
		for range c.asked {
			rep.Scenario.Phases = append(rep.Scenario.Phases, scenario.Phase{Steady: sec(60), Settle: sec(30)})
		}
		for _, s := range c.settled {
			rep.Phases = append(rep.Phases, Played{Settled: s})
		}
		if got, ok := settling(rep); got != c.want || ok != c.ok {
			t.Errorf("%+v: %v, %t", c, got, ok)
		}
	}
	if _, ok := settling(&Report{}); ok {
		t.Error("a run without a scenario settled")
	}
}

// A figure that a scenario can ask for is found in a report, and no other.
func TestEveryFigureIsFound(t *testing.T) {
	where := found()
	for _, f := range scenario.Figures() {
		if where[f.Name] == nil {
			t.Errorf("%s: nobody knows where a report has it", f.Name)
		}
		delete(where, f.Name)
	}
	for name := range where {
		t.Errorf("%s: no scenario can ask for it", name)
	}
}

// A run against another system has no figures of acknowledgements: beside those of Muster
// they would be taken for the same.
func TestFiguresOfATarget(t *testing.T) {
	rep := &Report{Rate: 100, Latency: Latency{P50: 1, P99: 2, P999: 3, Max: 4}, BeyondLinger: Latency{P50: 1, P99: 2}, ConnectSeconds: 5}
	rep.Plan.Offered = 100
	all := rep.Figures()
	rep.Targeted = &Targeted{Name: "sensu"}
	some := rep.Figures()
	for _, name := range [...]string{"held", "p50", "p99", "p999", "max", "beyond-p50", "beyond-p99"} {
		if _, ok := all[name]; !ok {
			t.Errorf("Muster: no %s", name)
		}
		if v, ok := some[name]; ok {
			t.Errorf("sensu: %s %g", name, v)
		}
	}
	if some["rate"] != 100 || some["connect"] != 5 {
		t.Errorf("%v", some)
	}
}
