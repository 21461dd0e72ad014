package core

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
)

// TestHighestFillLevelSlowsSenders expects the fullest resource of the server to decide how much senders are
// slowed. A journal below its usual share of the budget adds none.
func TestHighestFillLevelSlowsSenders(t *testing.T) {
	var other float64
	var stats journal.Stats
	p := FillLevels{Stats: func() journal.Stats { return stats }, QueueBytes: 1000, OtherQueues: []FillLevel{func() (float64, string) { return other, "other" }}}
	for _, c := range []struct {
		stats  journal.Stats
		other  float64
		share  float64
		reason string
	}{
		{journal.Stats{QueuedBytes: 600}, 0.5, 0.6, "the journal's queue is 60 % full"},
		{journal.Stats{QueuedBytes: 600}, 0.7, 0.7, "other"},
		{journal.Stats{QueuedBytes: 100, SizeBytes: 70, BudgetBytes: 100}, 0, 0.1, "the journal's queue is 10 % full"},
		{journal.Stats{QueuedBytes: 100, SizeBytes: 950, BudgetBytes: 1000}, 0, 0.75, "the server's journal is nearly full"},
		{journal.Stats{Blocked: errors.New("full")}, 0, 1, "the server cannot write its journal now: full"},
	} {
		stats, other = c.stats, c.other
		if share, reason := p.Highest(); share < c.share-1e-9 || share > c.share+1e-9 || reason != c.reason {
			t.Errorf("%+v, other %g: %g, %q", c.stats, c.other, share, reason)
		}
	}
}

// TestOverloadedServerDelaysRequests sends values to an overloaded server, and expects requests to wait or to
// be refused. A request waits above a quarter until the level falls or pressureWait has passed. Above a half it
// is refused.
func TestOverloadedServerDelaysRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, full, queued, looks := time.Now(), time.Hour, int64(300), 0
		p := FillLevels{QueueBytes: 1000, Stats: func() journal.Stats {
			if looks++; time.Since(start) < full {
				return journal.Stats{QueuedBytes: queued}
			}
			return journal.Stats{QueuedBytes: 250}
		}}
		if err := p.Wait(t.Context(), SlowResultsAt); err != nil || time.Since(start) != 0 {
			t.Errorf("results at 0.3: %v after %v", err, time.Since(start))
		}
		if err := p.Wait(t.Context(), SlowValuesAt); err != nil || time.Since(start) != pressureWait {
			t.Errorf("values at 0.3: %v after %v", err, time.Since(start))
		}
		queued, start = 510, time.Now().Add(pressurePoll)
		time.Sleep(pressurePoll)
		if err := p.Wait(t.Context(), SlowValuesAt); model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "queue is 51 % full") || time.Since(start) != pressureWait {
			t.Errorf("values at 0.51: %v after %v", err, time.Since(start))
		}
		start, full, looks = time.Now(), time.Second, 0
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() {
				if err := p.Wait(t.Context(), SlowValuesAt); err != nil || time.Since(start) != time.Second {
					t.Errorf("values at 0.51 for a second: %v after %v", err, time.Since(start))
				}
			})
		}
		waiting.Wait()
		if most := int(time.Second / pressurePoll); looks > most {
			t.Errorf("100 requests looked %d times, want %d", looks, most)
		}
		full = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(pressurePoll)
		if err := p.Wait(ctx, SlowValuesAt); err == nil {
			t.Error("a request that ended did not fail")
		}
	})
}
