package play

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// planned lists what one loader would do: each slot of the timetable, each strike, and the churn of the first minute.
func planned(t *testing.T, sc *scenario.Scenario, p Part) (list []string) {
	t.Helper()
	o := optionsOf(sc)
	o.Part = p
	r := fleetWith(t, o)
	r.Follow(plan.NewTimetable(sc.Phases, 0))
	r.Deal()
	for _, s := range r.senders {
		for _, l := range s.lanes {
			for _, slot := range l.slots {
				a := s.agents[slot.agent]
				seq := r.sequence(a.base+uint64(slot.check), 3)
				says := a.class.checks[slot.check].says
				list = append(list, fmt.Sprint(a.name, a.uid, slot.check, slot.offset, l.interval, seq, says.Status(a.index, int(slot.check), nil, seq, 0, false)))
			}
		}
	}
	script, err := r.NewScript()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range script.strikes {
		for _, a := range x.agents {
			list = append(list, fmt.Sprint(What(&x.fault), a.name))
		}
	}
	for i, f := range script.flows() {
		f.do = func(_ context.Context, member int) {
			if a := r.seats[member]; a != nil {
				list = append(list, fmt.Sprint("flow ", i, f.at, a.name))
			}
		}
		script.flow(f)
	}
	for c, ok := script.pop(int64(time.Minute)); ok; c, ok = script.pop(int64(time.Minute)) {
		c.do(t.Context())
	}
	return list
}

// TestPartsPlayTheSamePlan plans a run for one loader and for three, and expects the same results, faults and churn.
func TestPartsPlayTheSamePlan(t *testing.T) {
	sc := towns(scenario.Phase{Steady: sec(60)})
	for i := range sc.Agents {
		sc.Agents[i].Churn = scenario.Churn{Reconnects: "30/min", Offline: "10%/min"}
	}
	sc.Faults = []scenario.Fault{{At: sec(1), Cut: &scenario.Pick{Share: 0.4, Within: "site"}}, {At: sec(2), For: sec(3), Wrong: &scenario.Pick{Count: 3}}}
	alone := planned(t, sc, Part{})
	slices.Sort(alone)
	if len(alone) < 50 {
		t.Fatalf("the plan is small: %v", alone)
	}
	for _, n := range []int{1, 2, 3} {
		var all []string
		for i := range n {
			mine := planned(t, sc, Part{Number: i, Of: n})
			if n > 1 && len(mine) > len(alone)*2/3 {
				t.Errorf("loader %d of %d has %d of %d", i+1, n, len(mine), len(alone))
			}
			all = append(all, mine...)
		}
		slices.Sort(all)
		if !slices.Equal(all, alone) {
			t.Errorf("%d loaders: another plan than one's", n)
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
