package play

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestEveryScenarioHasOnePlanForASeed plans each shipped scenario twice with one seed and once with another, and
// expects equal and different plans.
func TestEveryScenarioHasOnePlanForASeed(t *testing.T) {
	played := 0
	for _, name := range scenario.Names() {
		sc, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if sc.Runs() != nil || slices.ContainsFunc(sc.Agents, func(a scenario.Class) bool { return len(a.Values)+len(a.Policies) > 0 }) { // internal/load/plan has their runs
			continue
		}
		played++
		other := sc.Scaled(0.01)
		other.Seed++
		if first, again, another := digestOf(t, sc.Scaled(0.01)), digestOf(t, sc.Scaled(0.01)), digestOf(t, other); first != again || first == another {
			t.Errorf("%s: plans %s and %s with one seed, %s with another", name, first, again, another)
		}
	}
	if played < 10 {
		t.Errorf("only %d scenarios run", played)
	}
}

// TestPlansStayAsTheyAre expects a fixed plan of a scenario and seed, so that runs of two releases have the same
// timetable. A change of a plan needs a line in CHANGELOG.md, because figures before and after it are of different
// runs, and the new hash here.
func TestPlansStayAsTheyAre(t *testing.T) {
	for name, want := range map[string]string{
		"sensu-4000x40x5s":  "0fe781d72bf6464e",
		"muster-bad-day":    "7ed390d6d7e066d4",
		"muster-churn":      "7a8baab12b146390",
		"sensu-12000x7x10s": "ecdeb3b45f301dc2",
	} {
		sc, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		got := digestOf(t, sc.Scaled(0.01))
		if got != want {
			t.Errorf("%s: the plan is %s now, and was %s", name, got, want)
		}
	}
}
