package play

import (
	"maps"
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// quarters returns the scenario towns with classes in common groups and checks of these groups.
func quarters(phases ...scenario.Phase) *scenario.Scenario {
	sc := towns(phases...)
	sc.Agents[0].Groups, sc.Agents[1].Groups = []string{"linux", "eu"}, []string{"linux"}
	sc.Checks = []scenario.GroupCheck{
		{Check: scenario.Check{Name: "memory", Interval: sec(1)}, Groups: []string{"linux", "eu"}},
		{Check: scenario.Check{Name: "ping", Count: 2, Interval: sec(2)}, Each: []string{"eu", "linux"}},
		{Check: scenario.Check{Name: "ntp", Interval: sec(5)}, Groups: []string{scenario.AllGroup, "web"}},
	}
	return sc
}

// TestGroupsOverlap expects that an agent in two groups of a check runs it once, and runs both checks that exist once
// per group; rates, states and ledgers count so.
func TestGroupsOverlap(t *testing.T) {
	sc := quarters(scenario.Phase{Steady: sec(20)})
	held := func(i int) (names []string) {
		for _, p := range sc.Held(&sc.Agents[i]) {
			for n := range max(1, p.Count) {
				names = append(names, p.FullName(n))
			}
		}
		return names
	}
	shared := []string{"memory-000", "eu-ping-000", "eu-ping-001", "linux-ping-000", "linux-ping-001", "ntp-000"}
	if got := held(0); !slices.Equal(got, append([]string{"web-disk-000", "web-port-000", "web-port-001", "web-port-002"}, shared...)) {
		t.Errorf("web holds %v", got)
	}
	if got := held(1); !slices.Equal(got, slices.Concat([]string{"db-disk-000"}, shared[:1], shared[3:])) {
		t.Errorf("db holds %v", got)
	}
	if want := 20*(3.5+1+2+0.2) + 10*(1+1+1+0.2); sc.Rate() < want-1e-6 || sc.Rate() > want+1e-6 || sc.States() != 20*10+10*5 {
		t.Errorf("%v results/s, want %v; %d states", sc.Rate(), want, sc.States())
	}
	slots := 0
	f := fleetOf(t, sc)
	f.Deal()
	for _, s := range f.senders {
		for _, l := range s.lanes {
			slots += len(l.slots)
		}
	}
	if slots != sc.States() {
		t.Errorf("%d results in the timetable, %d states", slots, sc.States())
	}
}

// TestResourcesOfGroups expects the resources on the server: a group of each class, groups of these, and each check
// once with all its target groups.
func TestResourcesOfGroups(t *testing.T) {
	groups, checks := map[string][]string{}, map[string][]string{}
	for _, r := range simulated.Resources(quarters()) {
		switch spec := r.Spec.(type) {
		case *model.GroupSpec:
			if _, twice := groups[r.Metadata.Name]; twice || (spec.Where == "") == (spec.Groups == nil) {
				t.Errorf("group %s: %+v", r.Metadata.Name, spec)
			}
			groups[r.Metadata.Name] = spec.Groups
		case *model.CheckSpec:
			if _, twice := checks[r.Metadata.Name]; twice {
				t.Errorf("check %s twice", r.Metadata.Name)
			}
			checks[r.Metadata.Name] = spec.Targets.Groups
		}
	}
	if len(groups) != 5 || !slices.Equal(groups["linux"], []string{"web", "db"}) || !slices.Equal(groups["eu"], []string{"web"}) {
		t.Errorf("%v", groups)
	}
	if len(checks) != 5+6 || !slices.Equal(checks["memory-000"], []string{"linux", "eu"}) || !slices.Equal(checks["linux-ping-001"], []string{"linux"}) || !slices.Equal(checks["web-port-002"], []string{"web"}) {
		t.Errorf("%v", checks)
	}
}

// TestChecksOfGroupsFail lets a check of groups fail, on agents of all classes or of one. The plan says so, and groups
// are part of it.
func TestChecksOfGroupsFail(t *testing.T) {
	for _, c := range []struct {
		fail   scenario.FailCheck
		places int
	}{
		{scenario.FailCheck{Check: "memory"}, 30},
		{scenario.FailCheck{Check: "memory", Pick: scenario.Pick{Class: "db"}}, 10},
		{scenario.FailCheck{Check: "ping"}, 20*4 + 10*2},
		{scenario.FailCheck{Check: "ping", Pick: scenario.Pick{Class: "web", Share: 0.5}}, 10 * 4},
		{scenario.FailCheck{Check: "ping-001", Pick: scenario.Pick{Class: "db", Count: 3}}, 3},
		{scenario.FailCheck{Check: "disk"}, 20},
		{scenario.FailCheck{Check: "memory", Pick: scenario.Pick{Group: "eu"}}, 20},
		{scenario.FailCheck{Check: "memory", Pick: scenario.Pick{Group: "linux", Count: 25}}, 25},
		{scenario.FailCheck{Check: "ping", Pick: scenario.Pick{Group: "db"}}, 10 * 2},
	} {
		sc := quarters(scenario.Phase{Steady: sec(10)})
		sc.Faults = []scenario.Fault{{At: sec(2), For: sec(4), Fail: &c.fail}}
		if x, err := fleetOf(t, sc).plan(0); err != nil || x.places != c.places {
			t.Errorf("%s: %v, %d places, want %d", sc.Faults[0].What(), err, x.places, c.places)
		}
	}
}

// TestAGroupIsPicked lets a fault strike a group, and expects agents of all its classes and no others, drawn by the
// seed.
func TestAGroupIsPicked(t *testing.T) {
	struck := func(p scenario.Pick, seed uint64) (members []int, by map[string]int) {
		t.Helper()
		sc := quarters(scenario.Phase{Steady: sec(10)})
		sc.Agents = append(sc.Agents, scenario.Class{Name: "spare", Count: 30, Checks: sc.Agents[1].Checks})
		sc.Seed, sc.Faults = seed, []scenario.Fault{{At: sec(1), Cut: &p}}
		r := fleetOf(t, sc)
		x, err := r.plan(0)
		if err != nil {
			t.Fatal(err)
		}
		by = map[string]int{}
		for _, m := range x.members {
			by[r.classes[r.cfg.Members[m].Class].spec.Name]++
		}
		return x.members, by
	}
	for _, c := range []struct {
		pick scenario.Pick
		want map[string]int
	}{
		{scenario.Pick{Group: "linux"}, map[string]int{"web": 20, "db": 10}},
		{scenario.Pick{Group: "eu"}, map[string]int{"web": 20}},
		{scenario.Pick{Group: "db"}, map[string]int{"db": 10}},
		{scenario.Pick{Group: scenario.AllGroup}, map[string]int{"web": 20, "db": 10, "spare": 30}},
	} {
		if _, by := struck(c.pick, 1); !maps.Equal(by, c.want) {
			t.Errorf("%s: %v", &c.pick, by)
		}
	}
	some := scenario.Pick{Group: "linux", Count: 12}
	first, by := struck(some, 1)
	if again, _ := struck(some, 1); len(first) != 12 || by["spare"] > 0 || !slices.Equal(first, again) {
		t.Errorf("%v, then %v", first, again)
	}
	if other, _ := struck(some, 2); slices.Equal(first, other) {
		t.Errorf("another seed, and the same %v", first)
	}
}
