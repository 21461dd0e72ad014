package load

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// foundPhases returns phases whose rates are multiples of the saturation that a phase of steps finds.
func foundPhases() []scenario.Phase {
	return []scenario.Phase{
		{Step: sec(10), By: 0.5, To: 4},
		{Name: "stable", Steady: sec(30), Warmup: sec(15), Rate: 0.8, Of: scenario.Saturation},
		{Name: "overload", Steady: sec(20), Rate: 1.5, Of: scenario.Saturation},
		{Name: "return", Steady: sec(60), Rate: 0.8, Of: scenario.Saturation, Settle: sec(40)},
	}
}

// TestOverloadIsOfWhatStepsFound runs steps against a server with 130 results a second, and expects the saturation
// ×1.5, and that the overload relative to it breaks.
func TestOverloadIsOfWhatStepsFound(t *testing.T) {
	sc := towns(foundPhases()...)
	sc.Objectives = map[string]scenario.Limit{"p99": "2s"}
	rep := playOn(t, of(sc), &ideal{perSecond: 130})
	if !rep.OK() || len(rep.Verdict) > 0 {
		t.Fatalf("%v, %+v", rep.Verdict, rep.Balance)
	}
	var names []string
	for _, p := range rep.Phases {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, ", "); got != "step ×1, step ×1.5, step ×2, step ×2 again, stable ×1.2, overload ×2.25, return ×1.2, drain" {
		t.Fatalf("phases %s", got)
	}
	stable, over, back := rep.Phases[4], rep.Phases[5], rep.Phases[6]
	if stable.Offered < 92 || stable.Offered > 100 || over.Offered < 172 || over.Offered > 188 || over.Acknowledged > 1.01*over.Offered {
		t.Errorf("stable %+v\noverload %+v", stable, over)
	}
	if over.Latency.P99 < 5000 || stable.Latency.P99 > 2000 || back.Settled < 5 || back.Settled > 40 {
		t.Errorf("p99 %.0f ms, then %.0f; settled after %.0f s", stable.Latency.P99, over.Latency.P99, back.Settled)
	}
	// The run's figures are of what should hold: overload and return are judged by themselves.
	if rep.Latency.P99 > 2000 || rep.Rate > 125 {
		t.Errorf("p99 %.0f ms at %.0f/s", rep.Latency.P99, rep.Rate)
	}
}

// TestAStepIsPlayedOnceMore stalls the loader once in a step, and expects that the step is repeated, that its first
// attempt does not count, and that the verdict says so.
func TestAStepIsPlayedOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		step  int // s
		stall time.Duration
	}{
		"judged within the next one":       {10, 8 * time.Second},
		"judged when the next one is over": {2, 2200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			sc := towns(scenario.Phase{Step: sec(c.step), By: 0.5, To: 6})
			sc.Objectives = map[string]scenario.Limit{"p99": "2s"}
			rep := playOn(t, of(sc), &ideal{perSecond: 130, stall: c.stall})
			var names []string
			for _, p := range rep.Phases {
				names = append(names, p.Name)
			}
			if got := strings.Join(names, ", "); !strings.HasPrefix(got, "step ×1, step ×1 again, step ×1.5, step ×2, ") || strings.Count(got, "×1 again") != 1 {
				t.Fatalf("phases %s", got)
			}
			first, again := rep.Phases[0], rep.Phases[1]
			if len(first.Missed) == 0 || len(again.Missed) > 0 || !again.Again || again.To-again.From != float64(c.step) || again.Offered < 70 || again.Offered > 95 {
				t.Errorf("%+v\n%+v", first, again)
			}
			said := strings.Join(rep.Verdict, "\n")
			if !rep.OK() || !strings.Contains(said, "step ×1 broke at first (") || !strings.Contains(rep.Text(), "step ×1 again") {
				t.Errorf("%s\n%s", said, rep.Text())
			}
			if v, ok := rep.Figures()["saturation"]; !ok || v < 110 || c.step == 10 && v > 130 || rep.Latency.P99 > 2000 {
				t.Errorf("saturation %.1f %t, p99 %.0f ms", v, ok, rep.Latency.P99)
			}
			if rep.Balance.Missing > 0 || rep.Balance.Imbalances > 0 {
				t.Errorf("ledger %+v", rep.Balance)
			}
		})
	}
}

// TestNoStepHeld lets the first step break, and expects that the run fails and says that nothing was measured.
func TestNoStepHeld(t *testing.T) {
	rep := playOn(t, of(towns(scenario.Phase{Step: sec(10), By: 0.5, To: 2})), &ideal{perSecond: 60})
	failed := rep.Failed()
	if rep.OK() || rep.Lost() || len(failed) != 1 || !strings.HasPrefix(failed[0], "no step held, and nothing else was measured; the first, step ×1: ") {
		t.Errorf("%q; %q", failed, rep.Verdict)
	}
	if text := rep.Text(); strings.Contains(text, "nothing lost, nothing twice, the generator kept up") {
		t.Error(text)
	}
}

// TestNothingWasFound expects a sentence about phases whose rate depends on steps that found nothing.
func TestNothingWasFound(t *testing.T) {
	const unmeasured = "not measured in this run, asked at most 40 s" // of the objective
	for name, c := range map[string]struct {
		perSecond int
		beyond    float64 // rate of the overload
		want      []string
	}{
		"no step broke": {1000, 1.5, []string{"overload ×6: this was no overload: of the steps before it none broke",
			"return ×3.2: whether it settles was not measured: overload ×6 was no overload", unmeasured}},
		"the overload is carried": {135, 1.02, []string{"overload ×1.53: this was no overload: it was carried like the steps that held",
			"return ×1.2: whether it settles was not measured: overload ×1.53 was no overload", unmeasured}},
		"not even the first holds": {60, 1.5, []string{"stable ×0.8: nobody knows what it and what follows are rates of: not even the first step held",
			"return ×0.8: whether it settles was not measured: stable ×0.8, which it returns to, was not as asked itself", unmeasured}},
	} {
		t.Run(name, func(t *testing.T) {
			phases := foundPhases()
			phases[2].Rate = c.beyond
			sc := towns(phases...)
			sc.Objectives = map[string]scenario.Limit{"p99": "2s", "settle": "40s"}
			rep := playOn(t, of(sc), &ideal{perSecond: c.perSecond})
			said := strings.Join(rep.Verdict, "\n")
			if rep.OK() {
				t.Errorf("nothing is wrong: %s", said)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q is missing in:\n%s", want, said)
				}
			}
		})
	}
}
