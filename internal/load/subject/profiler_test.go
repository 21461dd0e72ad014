package subject

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestProfilerTakesTheMiddle expects all profiles from the middle of the steady phase, once.
func TestProfilerTakesTheMiddle(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer admin.Close()
	sc := &scenario.Scenario{Phases: []scenario.Phase{{Ramp: model.Duration(time.Minute)}, {Name: "a", Steady: model.Duration(30 * time.Second), Warmup: model.Duration(10 * time.Second)}}}
	p := NewProfiler(context.Background(), &Subject{Admin: admin.URL}, sc, t.TempDir())
	for second := -10; second < 20; second++ {
		p.See(report.Sample{Second: second, Phase: "a", Nth: 2})
		p.busy.Wait()
	}
	rep := &report.Report{}
	if err := p.Close(rep); err != nil || len(rep.Files) != 7 || rep.Files["profiles/steady-cpu.pprof"] != "CPU profile of 5 s, from second 7" {
		t.Errorf("%v, %q", err, rep.Files)
	}
}

// TestSteadyIsNotWhereSomethingIsBrokenOnPurpose plays a fault phase first, and expects the profile from the middle of
// the phase after it.
func TestSteadyIsNotWhereSomethingIsBrokenOnPurpose(t *testing.T) {
	admin := httptest.NewServer(http.NotFoundHandler())
	defer admin.Close()
	minute := model.Duration(time.Minute)
	sc := &scenario.Scenario{Phases: []scenario.Phase{{Ramp: minute}, {Name: "bad", Fault: minute}, {Name: "good", Steady: minute, Warmup: minute / 3}, {Name: "later", Steady: minute}}}
	p := NewProfiler(context.Background(), &Subject{Admin: admin.URL}, sc, t.TempDir())
	for second := range 180 {
		s := report.Sample{Second: second, Offered: 10, Acked: 10, Nth: 2 + second/60}
		s.Phase = sc.Phases[s.Nth-1].Name
		p.See(s)
		if p.busy.Wait(); p.from < 0 {
			// It began at 60, warms up for 20 s, and 10 s in the middle of 40 begin at 15 … 16.
			if second < 60+20+15 || second > 60+20+16 {
				t.Errorf("taken in second %d, of phase %s", second, s.Phase)
			}
			return
		}
	}
	t.Error("not taken")
}
