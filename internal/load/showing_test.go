package load

import (
	"maps"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// What a second shows are figures that an objective can be set for; what it does not show
// is not there.
func TestFiguresOfASecond(t *testing.T) {
	behind := 3.5
	s := &Sample{Latency: &Latency{P50: 1, P99: 2, P999: 3, Max: 4}, Beyond: 1.5, Behind: &behind, Waits: map[string]float64{"list-p99": 70}}
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

// Who waits beside the results is timed by the second, and each answer once.
func TestWaitsOfASecond(t *testing.T) {
	r := &run{}
	r.follow(forever(0, int64(time.Hour)))
	if got := waits(r.beside.take()); got != nil {
		t.Errorf("%v before anybody asked", got)
	}
	r.waited("list-p99", 1, int64(20*time.Millisecond), 1)
	r.waited("list-p99", 2, int64(80*time.Millisecond), 1)
	r.waited("apply-p99", 3, int64(5*time.Millisecond), 1)
	near := func(got, want float64) bool { return got > 0.98*want && got < 1.02*want }
	if got := waits(r.beside.take()); len(got) != 2 || !near(got["list-p99"], 80) || !near(got["apply-p99"], 5) {
		t.Errorf("%v", got)
	}
	r.waited("apply-p99", int64(time.Second), int64(7*time.Millisecond), 1)
	if got := waits(r.beside.take()); len(got) != 1 || !near(got["apply-p99"], 7) {
		t.Errorf("%v in the second after", got)
	}
	if list := r.besidesOf(0, nil, newTally()); len(list) != 2 || list[1].Count != 2 {
		t.Errorf("the part has %+v", list)
	}
}
