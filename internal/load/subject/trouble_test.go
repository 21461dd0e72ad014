package subject

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Objectives that a second can show are followed while a run goes on; what is over in a
// second is none, and a second that shows nothing of a figure says nothing of it.
func TestTrouble(t *testing.T) {
	sc := &scenario.Scenario{Objectives: map[string]scenario.Limit{"beyond-p99": "100ms", "list-p99": "250ms", "watch-p99": "2s", "apply-p99": "1s",
		"history-behind": "5s", "rate": "95", "server-cpu": "15us", "held": "99%"}}
	goals := []report.Goal{{Name: "p99", Want: 600}, {Name: "list-p99", Want: 300}}
	usual := func(change func(*report.Sample)) report.Sample {
		s := report.Sample{Phase: "a", Offered: 100, Acked: 100, Latency: &report.Latency{P99: 500}, Beyond: 20}
		change(&s)
		return s
	}
	late := func(figure string, ms float64) func(*report.Sample) {
		return func(s *report.Sample) { s.Waits = map[string]float64{figure: ms} }
	}
	six := 6.0
	for name, c := range map[string]struct {
		seconds int // all of which are so
		change  func(*report.Sample)
		want    string
	}{
		"all is well":           {20, func(*report.Sample) {}, ""},
		"beyond the linger":     {2, func(s *report.Sample) { s.Beyond = 101 }, "beyond-p99"},
		"one hiccup":            {1, func(s *report.Sample) { s.Beyond = 101 }, ""},
		"a goal":                {2, func(s *report.Sample) { s.Latency = &report.Latency{P99: 601} }, "p99"},
		"people who list":       {2, late("list-p99", 301), "list-p99"},
		"the goal counts":       {2, late("list-p99", 280), ""},
		"people who watch":      {2, late("watch-p99", 2001), "watch-p99"},
		"people who apply":      {2, late("apply-p99", 1001), "apply-p99"},
		"intent, without limit": {2, late("holds-p99", 60_000), ""},
		"history":               {2, func(s *report.Sample) { s.Behind = &six }, "history-behind"},
		"refused":               {2, func(s *report.Sample) { s.Refused = 1 }, "results are refused"},
		"away":                  {2, func(s *report.Sample) { s.Acked = 49 }, "results stay away"},
		"too slow":              {11, func(s *report.Sample) { s.Acked = 93 }, "rate"},
		"slow for seconds only": {5, func(s *report.Sample) { s.Acked = 60 }, ""},
		"slow, a little":        {20, func(s *report.Sample) { s.Acked = 94 }, ""},
		"less is offered":       {20, func(s *report.Sample) { s.Offered, s.Acked = 50, 50 }, ""},
		"two at once":           {2, func(s *report.Sample) { s.Beyond, s.Refused = 101, 5 }, "beyond-p99; results are refused"},
	} {
		follow, said := newTrouble(sc, goals), ""
		for range c.seconds {
			s := usual(c.change)
			said = strings.Join(follow.see(&s), "; ")
		}
		if said != c.want {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
	}

	// What a phase asks of itself counts in it, also where something is broken on purpose.
	sc.Phases = []scenario.Phase{{Name: "a", Objectives: map[string]scenario.Limit{"beyond-p99": "10ms"}}, {Name: "b", Fault: 1},
		{Name: "c", Fault: 1, Objectives: map[string]scenario.Limit{"beyond-p99": "300ms"}}}
	for i, beyond := range []map[float64]string{{9: "", 50: "beyond-p99"}, {400: ""}, {200: "", 301: "beyond-p99"}} {
		phase := sc.Phases[i].Name + " ×1.2" // as people read it, where its rate is of what steps found
		for ms, want := range beyond {
			follow, said := newTrouble(sc, nil), ""
			for range 2 {
				s := usual(func(s *report.Sample) { s.Phase, s.Nth, s.Beyond = phase, i+1, ms })
				said = strings.Join(follow.see(&s), "; ")
			}
			if said != want {
				t.Errorf("%g ms in phase %s: %q, want %q", ms, phase, said, want)
			}
		}
	}

	// So does the rate that it asks, in the stead of the scenario's.
	sc.Phases = []scenario.Phase{{Name: "a"}, {Name: "b", Objectives: map[string]scenario.Limit{"rate": "50"}}, {Name: "c", Fault: 1, Objectives: map[string]scenario.Limit{"rate": "99"}}}
	for i, rates := range []map[uint64]string{{60: "rate", 94: ""}, {45: "rate; results stay away", 60: ""}, {60: "rate", 98: ""}} {
		for acked, want := range rates {
			follow, said := newTrouble(sc, nil), ""
			for range 11 {
				s := usual(func(s *report.Sample) { s.Nth, s.Acked = i+1, acked })
				said = strings.Join(follow.see(&s), "; ")
			}
			if said != want {
				t.Errorf("%d results/s in phase %d: %q, want %q", acked, i+1, said, want)
			}
		}
	}
	sc.Phases = nil

	follow := newTrouble(sc, nil)
	slow, silent, fast := usual(late("list-p99", 400)), usual(func(*report.Sample) {}), usual(late("list-p99", 40))
	follow.see(&slow)
	follow.see(&silent)
	if got := follow.see(&slow); !slices.Equal(got, []string{"list-p99"}) {
		t.Errorf("slow, nobody asked, slow again: %q", got)
	}
	follow.see(&fast)
	if got := follow.see(&slow); len(got) > 0 {
		t.Errorf("fast again, then slow once: %q", got)
	}
}
