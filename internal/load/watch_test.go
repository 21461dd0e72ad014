package load

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestServerHangsWhereAPhaseEnds lets the server's metrics hang at the end of a phase. It expects a sample of every
// second all the same, that Ctrl-C ends the run at once, and that the late metrics count at that edge.
func TestServerHangsWhereAPhaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &ideal{}
		stop := make(chan string, 1)
		sc := &scenario.Scenario{Name: "hangs", Seed: 3, Phases: []scenario.Phase{{Steady: sec(4)}, {Steady: sec(6)}, {Steady: sec(600)}, {Drain: sec(5)}},
			Agents: []scenario.Class{{Name: "web", Count: 3, Linger: sec(1), Checks: []scenario.Check{{Name: "http", Count: 2, Interval: sec(1)}}}}}
		cfg := of(sc)
		cfg.Stop = stop
		r := runOn(t, cfg, srv)
		times := 0
		r.metrics = func() map[string]float64 { // one after the other
			if times++; times >= 4 { // before the run, at its beginning, at the end of the first phase
				time.Sleep(5 * time.Second)
			}
			return map[string]float64{"muster_things_total": float64(10 * times)}
		}
		time.AfterFunc(11*time.Second, func() { stop <- "somebody" }) // begun, it takes a moment
		rep, err := r.do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range rep.Samples {
			if s.Second != i+1 {
				t.Errorf("sample %d is of second %d", i, s.Second)
			}
		}
		if n := len(rep.Samples); n < 10 || n > 12 {
			t.Errorf("%d samples of 11 seconds", n)
		}
		if s := rep.Stopped; s == nil || s.After < 10.5 || s.After > 11.5 {
			t.Errorf("stopped %+v", s)
		}
		if times != 5 || rep.Metrics["muster_things_total"] != 20 { // the last part does not count
			t.Errorf("%d times asked, %v", times, rep.Metrics)
		}
	})
}

// TestSecondsThatAreLookedAtLate lets the watch run late, and expects each second in the log once, with its own counts.
func TestSecondsThatAreLookedAtLate(t *testing.T) {
	cfg := of(towns(scenario.Phase{Steady: sec(30), Warmup: sec(2)}))
	r, begin := undriven(cfg), int64(7*time.Second)
	r.Start(begin)
	r.Follow(plan.NewTimetable(cfg.Scenario.Phases, begin))
	w := newWatch(r, newReport(cfg))
	for second := range 10 {
		var s report.Sample
		if w.place(&s, second); s.Second != second-1 {
			t.Errorf("second %d of the timetable is told as %d", second, s.Second)
		}
	}
}

// TestForever plays a scenario without an end, and expects that the agents send until it is canceled.
func TestForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &ideal{}
		r := runOn(t, of(scenario.Uniform{Agents: 10, Checks: 6, Interval: 15 * time.Second}.Scenario()), srv)
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		if err := r.forever(ctx); err != nil {
			t.Fatal(err)
		}
		results := uint64(0)
		_ = srv.Each(ctx, func(k observe.EventState) error { results += k.Results; return nil })
		if want := uint64(10 * 6 * 4); results < want || results > want+uint64(10*6) {
			t.Errorf("%d results in a minute, want about %d", results, want)
		}
	})
}
