package plan

import (
	"context"
	"log/slog"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// collectEvery is the period of a Collector.
const collectEvery = time.Hour

// Collector removes definitions of checks that no check, event state, spool or commit of the journal can name any more.
type Collector struct {
	Planner *Planner
	Used    func() map[model.ChunkID]bool                // returns the definitions that event states name
	Oldest  func(ctx context.Context) (time.Time, error) // returns the time of the oldest commit in the journal
	Now     func() time.Time
	Log     *slog.Logger
}

// Run collects once an hour until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		removed, err := c.collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			c.Log.Warn("old definitions of checks were not removed; trying again in an hour", "err", err)
		case removed > 0:
			c.Log.Info("old definitions of checks removed", "count", removed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c *Collector) collect(ctx context.Context) (removed int, err error) {
	oldest, err := c.Oldest(ctx)
	if err != nil {
		return 0, err
	}
	return c.Planner.Collect(ctx, c.Used(), oldest, c.Now())
}
