package report

import (
	"maps"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestFiguresOfASecond expects that a second has only figures with an objective, and none that it does not show.
func TestFiguresOfASecond(t *testing.T) {
	behind := 3.5
	s := &Sample{Latency: &Latency{P50: 1, P99: 2, P999: 3, Max: 4}, Beyond: 1.5, Internals: Internals{Behind: &behind}, Waits: map[string]float64{"list-p99": 70}}
	want := map[string]float64{"p50": 1, "p99": 2, "p999": 3, "max": 4, "beyond-p99": 1.5, "history-behind": 3.5, "list-p99": 70}
	if got := s.Figures(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name := range want {
		if f, ok := scenario.FigureOf(name); !ok || f.Least {
			t.Errorf("%s is no figure with a limit from above", name)
		}
	}
	if got := (&Sample{Phase: "ramp"}).Figures(); len(got) > 0 || len(s.Waits) != 1 {
		t.Errorf("%v, %v", got, s.Waits)
	}
}
