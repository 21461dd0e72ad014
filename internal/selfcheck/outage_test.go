package selfcheck

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/route"
)

// How many of how large a fleet within a time-out are many, when that is a new episode, and for how long it holds.
func TestMassOutage(t *testing.T) {
	start := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	m := &outages{timeout: 2 * time.Minute}
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		second, nodes, all int
		sum                int
		mass               bool
	}{
		{0, 9, 20, 9, false},      // nine machines are few, whatever their share
		{1, 1, 100, 10, false},    // a tenth
		{60, 15, 100, 25, true},   // within one time-out
		{119, 1, 1000, 26, false}, // of a larger fleet
		{121, 1, 100, 17, false},  // the first ones are longer ago
		{400, 30, 100, 30, true},
	} {
		if sum, mass := m.add(at(c.second), c.nodes, c.all); sum != c.sum || mass != c.mass {
			t.Errorf("second %d: %d silent, many: %v; want %d, %v", c.second, sum, mass, c.sum, c.mass)
		}
	}
	hour := &outages{timeout: 2 * time.Minute}
	for second := range 3600 / 30 { // told all at once, but an hour's worth
		if sum, mass := hour.add(at(30*second), 1, 10); mass || sum > 4 {
			t.Fatalf("second %d: %d silent, many: %v", 30*second, sum, mass)
		}
	}
	if m.current(start) != nil {
		t.Error("held before it was many")
	}
	if !m.start(start, "sessions were lost") || m.start(at(130), "and fell silent") {
		t.Error("one episode is told once")
	}
	if h := m.current(at(369)); h == nil || h.Kind != route.ManySilent || h.Reason != "sessions were lost" || !h.Until.Equal(at(370)) {
		t.Errorf("held by %+v", h)
	}
	if m.current(at(370)) != nil {
		t.Error("held for more than two time-outs")
	}
	if m.start(at(609), "the same still") || !m.start(at(609+240+240), "a second time") {
		t.Error("the next episode is told")
	}
}
