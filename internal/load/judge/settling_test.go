package judge

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// TestQueuesAreAsBefore expects that queues are compared in their own unit: a thousand more entries are many more
// bytes.
func TestQueuesAreAsBefore(t *testing.T) {
	second := func(queue string, depth float64) report.Sample {
		return report.Sample{Latency: &report.Latency{P99: 500}, Internals: report.Internals{Queues: map[string]float64{queue: depth}}}
	}
	for _, c := range []struct {
		queue         string
		before, after float64
		want          bool
	}{
		{"event-view-0", 2, 1000, true},
		{"event-view-0", 2, 1100, false},
		{"journal", 2000, 900_000, true},
		{"journal", 2000, 1_100_000, false},
		{"journal", 4e6, 9e6, true},
	} {
		after := second(c.queue, c.after)
		if got := levelOf([]report.Sample{second(c.queue, c.before)}).holds(&after); got != c.want {
			t.Errorf("%s: %v after %v: %t", c.queue, c.after, c.before, got)
		}
	}
}
