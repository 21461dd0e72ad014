package play

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestAlertsFourTimesAsOften plays a phase that speeds alerts up, and expects that checks with alerts change status so
// much more often, and no others, with the same number of results.
func TestAlertsFourTimesAsOften(t *testing.T) {
	changed := func(storm bool, check scenario.Check) (n int) {
		sc := &scenario.Scenario{Agents: []scenario.Class{{Name: "web", Count: 1, Checks: []scenario.Check{check}}},
			Phases: []scenario.Phase{{Steady: sec(3600), Rate: 1}}}
		if storm {
			sc.Phases[0].Faster = map[string]float64{scenario.Alerts: 4}
		}
		r := &Fleet{Clock: clock.New(), cfg: Options{Scenario: sc}, storms: storm}
		r.Follow(plan.NewTimetable(sc.Phases, 0))
		says := outputs.New(7, &check)
		a := &agent{fleet: r, class: &class{checks: []playing{{says: says, tells: check.Alert != ""}}}, set: &checkSet{definitions: []*model.CheckDefinition{{}}}, status: make([]model.Status, 1)}
		for seq := range uint64(20_000) {
			own := says.Status(0, 0, nil, seq, a.status[0], seq == 0)
			if a.class.checks[0].tells && seq > 0 {
				own = a.storm(0, own, int64(seq), seq)
			}
			if own != a.status[0] && seq > 0 {
				n++
			}
			a.status[0] = own
		}
		return n
	}
	for name, check := range map[string]scenario.Check{
		"digits":  {Name: "app", Output: scenario.Output{Like: scenario.Digits}, Changes: 0.02, Alert: scenario.ByHandler},
		"a mix":   {Name: "app", Output: scenario.Output{Like: "http"}, Changes: 0.02, Status: map[string]float64{"critical": 0.2}, Alert: scenario.ByHandler},
		"not one": {Name: "app", Output: scenario.Output{Like: "http"}, Changes: 0.02},
	} {
		usual, storm := changed(false, check), changed(true, check)
		low, high := 3.3*float64(usual), 4.4*float64(usual)
		if check.Alert == "" {
			low, high = float64(usual), float64(usual)
		}
		if usual < 200 || float64(storm) < low || float64(storm) > high {
			t.Errorf("%s: %d changes, then %d", name, usual, storm)
		}
	}
}
