package subject

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestProfilerTakesWhatMatters expects a profile from the middle of the steady phase, and one from the first phase that
// misses an objective for some seconds.
func TestProfilerTakesWhatMatters(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	admin := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.String())
		mu.Unlock()
	}))
	defer admin.Close()
	sc := &scenario.Scenario{Phases: []scenario.Phase{{Ramp: model.Duration(time.Minute)}, {Name: "a", Steady: model.Duration(30 * time.Second), Warmup: model.Duration(10 * time.Second)}}}
	sc.Objectives = map[string]scenario.Limit{"p99": "60ms"}
	p := NewProfiler(context.Background(), &Subject{Admin: admin.URL}, sc, nil, t.TempDir())
	see := func(s report.Sample) {
		p.See(s)
		p.busy.Wait()
	}
	fast, slow := &report.Latency{P99: 50}, &report.Latency{P99: 70}
	for second := -10; second < 20; second++ {
		see(report.Sample{Second: second, Phase: "a", Nth: 2, Latency: fast, Offered: 10, Acked: 10})
	}
	mu.Lock()
	if steady := len(asked); steady != 7 || !slices.ContainsFunc(asked, func(url string) bool { return strings.HasSuffix(url, "/profile?seconds=5") }) {
		t.Errorf("asked for %v", asked)
	}
	asked = nil
	mu.Unlock()
	see(report.Sample{Second: 20, Phase: "a", Nth: 2, Latency: slow, Offered: 10, Acked: 10}) // one hiccup is none
	see(report.Sample{Second: 21, Phase: "a", Nth: 2, Latency: fast, Offered: 10, Acked: 10})
	for second := 22; second < 40; second++ {
		s := report.Sample{Second: second, Phase: "b", Nth: 3, Latency: slow, Offered: 10, Acked: 10}
		if second > 30 {
			s = report.Sample{Second: second, Phase: "c", Nth: 4, Offered: 10, Acked: 4}
		}
		see(s)
	}
	rep := &report.Report{}
	if errs := p.Close(rep); len(errs) > 0 {
		t.Error(errs)
	}
	var names []string
	for name, what := range rep.Files {
		if strings.HasSuffix(name, "cpu.pprof") {
			names = append(names, fmt.Sprint(name, what[strings.LastIndex(what, ","):]))
		}
	}
	slices.Sort(names)
	want := []string{"profiles/broken-cpu.pprof, from second 23: p99", "profiles/steady-cpu.pprof, from second 7"}
	if !slices.Equal(names, want) || len(rep.Files) != 14 {
		t.Errorf("%d files, %q, want %q", len(rep.Files), names, want)
	}
}

// TestSteadyIsNotWhereSomethingIsBrokenOnPurpose plays a fault phase first, and expects the profile from the middle of
// the phase after it.
func TestSteadyIsNotWhereSomethingIsBrokenOnPurpose(t *testing.T) {
	admin := httptest.NewServer(http.NotFoundHandler())
	defer admin.Close()
	minute := model.Duration(time.Minute)
	sc := &scenario.Scenario{Phases: []scenario.Phase{{Ramp: minute}, {Name: "bad", Fault: minute}, {Name: "good", Steady: minute, Warmup: minute / 3}, {Name: "later", Steady: minute}}}
	p := NewProfiler(context.Background(), &Subject{Admin: admin.URL}, sc, nil, t.TempDir())
	for second := range 180 {
		s := report.Sample{Second: second, Offered: 10, Acked: 10, Nth: 2 + second/60}
		s.Phase = sc.Phases[s.Nth-1].Name
		p.See(s)
		if p.busy.Wait(); p.taken["steady"] {
			// It began at 60, warms up for 20 s, and 10 s in the middle of 40 begin at 15 … 16.
			if second < 60+20+15 || second > 60+20+16 {
				t.Errorf("taken in second %d, of phase %s", second, s.Phase)
			}
			return
		}
	}
	t.Error("not taken")
}
