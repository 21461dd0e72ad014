package play

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestPartsPlayTheSamePlan plans a run for one loader and for three, and expects the same plan, each agent with one of them, and
// the same slots of its checks.
func TestPartsPlayTheSamePlan(t *testing.T) {
	sc := towns(scenario.Phase{Steady: sec(60)})
	for i := range sc.Agents {
		sc.Agents[i].Churn = scenario.Churn{Reconnects: "30/min", Offline: "10%/min"}
	}
	sc.Faults = []scenario.Fault{{At: sec(1), Cut: &scenario.Pick{Share: 0.4, Within: "site"}}, {At: sec(2), For: sec(3), Wrong: &scenario.Pick{Count: 3}}}
	planned := func(p Part) (digest string, slots []string) {
		o := optionsOf(sc)
		o.Part = p
		f := fleetWith(t, o)
		f.Deal()
		for _, s := range f.senders {
			for _, l := range s.lanes {
				for _, slot := range l.slots {
					a := s.agents[slot.agent]
					slots = append(slots, fmt.Sprint(a.name, a.uid, slot.check, slot.offset, l.interval, f.sequence(a.base+uint64(slot.check), 3)))
				}
			}
		}
		digest, err := f.PlanDigest()
		if err != nil {
			t.Fatal(err)
		}
		return digest, slots
	}
	digest, alone := planned(Part{})
	slices.Sort(alone)
	for _, n := range []int{1, 2, 3} {
		var all []string
		for i := range n {
			same, mine := planned(Part{Number: i, Of: n})
			if same != digest || n > 1 && len(mine) > len(alone)*2/3 {
				t.Errorf("loader %d of %d has %d of %d, and plan %s, not %s", i+1, n, len(mine), len(alone), same, digest)
			}
			all = append(all, mine...)
		}
		slices.Sort(all)
		if !slices.Equal(all, alone) || len(alone) < 50 {
			t.Errorf("%d loaders: %d slots, one has %d", n, len(all), len(alone))
		}
	}
}

// TestJoinable expects that several loaders refuse scenarios that need the clock or the ledger of a single one.
func TestJoinable(t *testing.T) {
	for name, change := range map[string]func(*scenario.Scenario){
		"":       func(sc *scenario.Scenario) { sc.Faults = []scenario.Fault{{Cut: &scenario.Pick{}}, {Server: "kill"}} },
		"intent": func(sc *scenario.Scenario) { sc.Intent = []scenario.Change{{Create: 1, Kind: "check"}} },
		"stop":   func(sc *scenario.Scenario) { sc.Faults = []scenario.Fault{{Stop: &scenario.Pick{Count: 1}}} },
		"fail":   func(sc *scenario.Scenario) { sc.Faults = []scenario.Fault{{Fail: &scenario.FailCheck{Check: "http"}}} },
		"alert":  func(sc *scenario.Scenario) { sc.Agents[0].Checks[0].Alert = scenario.ByHandler },
	} {
		sc := towns(scenario.Phase{Steady: sec(60)})
		change(sc)
		err := Joinable(sc)
		if (err == nil) != (name == "") || err != nil && (model.ClassOf(err) != model.Unsupported || !strings.Contains(err.Error(), name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestPartShares divides agents between loaders, and expects that each agent has exactly one.
func TestPartShares(t *testing.T) {
	for agents := 1; agents < 40; agents++ {
		for n := 1; n <= agents; n++ {
			sum := 0
			for i := range n {
				p, owned := Part{Number: i, Of: n}, 0
				for m := range agents {
					if p.Owns(m) {
						owned++
					}
				}
				if owned != p.Share(agents) {
					t.Fatalf("%s of %d agents: owns %d, share %d", p, agents, owned, p.Share(agents))
				}
				sum += owned
			}
			if sum != agents {
				t.Fatalf("%d agents, %d loaders: %d", agents, n, sum)
			}
		}
	}
}
