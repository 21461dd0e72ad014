package play

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// planOf lists what a run of a scenario would do: the time and status of each result, the struck agents, and the churn.
func planOf(t *testing.T, sc *scenario.Scenario) string {
	t.Helper()
	r := fleetOf(t, sc)
	var b strings.Builder
	for _, p := range plan.NewTimetable(sc.Phases, 0) {
		fmt.Fprintln(&b, "part", p)
	}
	status := map[string]model.Status{}
	r.Deal()
	for _, s := range r.senders {
		for n := range 400 {
			l, virtual := s.earliest()
			if l == nil {
				break
			}
			x := l.take(s)
			a := s.agents[x.agent]
			says := a.class.checks[x.check].says
			state := fmt.Sprint(a.name, " ", x.check, " ", x.about)
			now := says.Status(a.index, x.check, nil, x.seq, status[state], x.first)
			status[state] = now
			fmt.Fprintln(&b, virtual, state, now)
			if n < 10 { // some are a MiB long
				fmt.Fprintln(&b, xxhash.Sum64(says.Output(nil, a.index, x.check, nil, x.seq, now)))
			}
		}
	}
	for _, class := range r.classes { // when is the server's, what is the seed's
		for c, k := range class.checks {
			for seq := range uint64(9) {
				for i := 0; k.robin != nil && k.about != nil && i < len(k.about.pairs); i++ {
					status, changed := k.about.pairs[i].next(k.says, c, nil, seq, 0)
					fmt.Fprintln(&b, "turn", k.full, k.about.pairs[i].name, seq, status, changed)
				}
			}
		}
	}
	script, err := r.NewScript()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range script.strikes {
		fmt.Fprintln(&b, What(&x.fault), r.checksOf(x))
		for _, a := range x.agents {
			fmt.Fprintln(&b, a.name)
		}
	}
	churn := script.newChurn()
	for i, f := range churn.flows {
		f.do = func(_ context.Context, member int) { fmt.Fprintln(&b, "flow", i, f.at, member) }
	}
	for range 50 {
		if next := churn.next(); next.do != nil {
			next.do(t.Context())
			churn.step()
		}
	}
	return b.String()
}

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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := sc.Scaled(0.01)
			other.Seed++
			first, again, another := planOf(t, sc.Scaled(0.01)), planOf(t, sc.Scaled(0.01)), planOf(t, other)
			if first != again {
				for i, line := range strings.Split(first, "\n") {
					if now := strings.Split(again, "\n")[i]; now != line {
						t.Fatalf("line %d of the plan: %q, then %q", i, line, now)
					}
				}
			}
			if first == another || strings.Count(first, "\n") < 200 {
				t.Errorf("another seed has the same plan, or there is none: %d lines", strings.Count(first, "\n"))
			}
		})
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
