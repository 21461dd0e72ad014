package plan

import (
	"cmp"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Timing has the parts of a plan that a run of values and a run of directives have in common.
type Timing struct {
	Nodes  int           // of all classes
	Steady time.Duration // signals are sent for this time
	Drain  time.Duration // longest time until the last is acknowledged
	Faults []scenario.Fault
	Edits  []time.Duration // times at which a directive is changed, since the start
}

// newTiming returns the timing of a scenario.
func newTiming(sc *scenario.Scenario) (*Timing, error) {
	t := &Timing{Nodes: sc.Nodes(""), Faults: sc.Faults}
	for _, phase := range sc.Phases {
		switch {
		case phase.Steady > 0 && t.Steady == 0 && phase.Rate <= 1:
			t.Steady = time.Duration(phase.Steady)
		case phase.Drain > 0:
			t.Drain = time.Duration(phase.Drain)
		case phase.Ramp == 0:
			return nil, refuse(sc, "phase "+phase.Name+" is neither the ramp, the one steady phase nor the drain")
		}
	}
	for _, f := range sc.Faults {
		if f.Server != "kill" && f.Server != "restart" && f.Wrong == nil {
			return nil, refuse(sc, "a fault is neither server: kill nor server: restart nor wrong frames")
		}
	}
	if t.Steady == 0 || len(sc.Checks)+len(sc.Proxies) > 0 || sc.Operators.Any() || sc.Stream != nil {
		return nil, refuse(sc, "it has parts besides agents, phases, faults and changes of directives, or no steady phase")
	}
	for i := range sc.Intent {
		c := &sc.Intent[i]
		if c.Kind != "directive" {
			return nil, refuse(sc, "its intent changes more than directives")
		}
		every := cmp.Or(time.Duration(c.Every), t.Steady)
		for at := time.Duration(c.At); at < t.Steady; at += every {
			t.Edits = append(t.Edits, at)
		}
	}
	return t, nil
}

// refuse returns the error of a scenario that has values or policies, and parts that do not go with them.
func refuse(sc *scenario.Scenario, why string) error {
	return model.Errorf(model.Unsupported, "%s: a run of values or directives cannot play it: %s", sc.Name, why).
		WithHint("write a scenario of plain agents that have values alone, or policies alone: muster load show muster-values, muster load show rudder-12000x1100")
}
