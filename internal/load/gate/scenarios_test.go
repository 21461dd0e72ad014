package gate

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestScenariosAreOfOneScaleEverywhere expects that two cores carry the release check at its fixed scale, in ten
// minutes.
func TestScenariosAreOfOneScaleEverywhere(t *testing.T) {
	two := scenario.Machine{Cores: 2, Memory: 2 << 30, Files: 10_000}
	whole := time.Duration(0)
	for _, c := range Scenarios() {
		small, err := c.Load(two)
		if err != nil {
			t.Error(err)
			continue
		}
		large, err := c.Load(scenario.Machine{Cores: 64, Memory: 1 << 40, Files: 1 << 20})
		if err != nil || !same(small, large) {
			t.Errorf("%s is another on a large machine: %v", c.Name, err)
		}
		if err := small.Runs(); err != nil {
			t.Error(err)
		}
		whole += small.Measured() + time.Duration(small.Phases[0].Ramp) + 10*time.Second // start, preparation, end
	}
	if whole > 10*time.Minute {
		t.Errorf("it takes %s", whole)
	}
	known, _ := Find("sensu-4000x40x5s")
	if _, err := known.Load(scenario.Machine{Cores: 1, Files: 200}); model.ClassOf(err) != model.Limited {
		t.Errorf("on a machine that is too small: %v", err)
	}
}
