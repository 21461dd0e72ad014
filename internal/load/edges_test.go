package load

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestServerHangsWhereAPhaseEnds lets the server's metrics hang at the end of a phase. It expects a sample of every
// second all the same, that Ctrl-C ends the run at once, and that the late metrics count at that edge.
func TestServerHangsWhereAPhaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &ideal{nodes: map[wire.StreamID]*idealNode{}, commit: 4 * time.Millisecond, checks: 2}
		stop := make(chan string, 1)
		sc := &scenario.Scenario{Name: "hangs", Seed: 3, Phases: []scenario.Phase{{Steady: sec(4)}, {Steady: sec(6)}, {Steady: sec(600)}, {Drain: sec(5)}},
			Agents: []scenario.Class{{Name: "web", Count: 3, Linger: sec(1), Checks: []scenario.Check{{Name: "http", Count: 2, Interval: sec(1)}}}}}
		cfg, err := Config{Server: "127.0.0.1:1", Before: srv, Scenario: sc, Stop: stop}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRun(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.connect = srv.connect
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
	r := partOf(t, Part{Number: 0, Of: 1})
	begin := int64(7 * time.Second)
	r.begin.Store(begin)
	r.follow(newScore([]scenario.Phase{{Steady: sec(30), Warmup: sec(2)}}, begin))
	w := newWatch(r, newReport(r.cfg))
	for second := range 10 {
		var s report.Sample
		if w.place(&s, second); s.Second != second-1 {
			t.Errorf("second %d of the timetable is told as %d", second, s.Second)
		}
	}
}
