package shard

import (
	"math"
	"testing"
	"time"
)

// TestAgeIsBounded computes the ages of events with impossible time stamps, and expects ages from zero to a
// year.
func TestAgeIsBounded(t *testing.T) {
	const year = 366 * 24 * time.Hour
	for _, c := range []struct {
		now, at uint64
		want    time.Duration
	}{
		{1000, 1000, 0}, {5000, 1000, 4 * time.Second}, {1000, 5000, 0},
		{math.MaxUint64, 0, year}, {math.MaxUint64, 1, year}, {0, math.MaxUint64, 0},
	} {
		a := SignalOrigin{NowMs: c.now}
		if got := time.Duration(a.Age(c.at)); got != c.want {
			t.Errorf("age of %d at %d ms: %s, want %s", c.at, c.now, got, c.want)
		}
	}
}
