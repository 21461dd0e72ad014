package app

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Another machine may take a node's place when the node's silence was reported and the grace is over; a start of the
// server, or of the node, restarts the count.
func TestRemainingAbsence(t *testing.T) {
	now := time.Unix(10_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const need = 210 * time.Second
	long := time.Hour
	for name, c := range map[string]struct {
		heard                    time.Duration // ago; zero: never
		silent, stopped          bool
		started, written, awaits time.Duration
	}{
		"silent for long":                    {long, true, false, long, long, 0},
		"silent, within the grace":           {150 * time.Second, true, false, long, long, 60 * time.Second},
		"the server has just started":        {long, true, false, 10 * time.Second, long, 200 * time.Second},
		"the listening clock says otherwise": {long, false, false, long, long, time.Second},
		"stopped on purpose, for a reboot":   {10 * time.Second, false, true, long, long, 200 * time.Second},
		"stopped on purpose, for long":       {long, false, true, long, long, 0},
		"joined, and has not come yet":       {0, false, false, long, 10 * time.Second, 200 * time.Second},
		"never came":                         {0, false, false, long, long, 0},
	} {
		sum := event.Summary{Silent: c.silent, Stopped: c.stopped}
		if c.heard != 0 {
			sum.Heard = ago(c.heard).UnixNano()
		}
		if got := remainingAbsence(sum, need, ago(c.started), ago(c.written), now); got != c.awaits {
			t.Errorf("%s: %v, want %v", name, got, c.awaits)
		}
	}
}
