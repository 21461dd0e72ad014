package load

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
)

// firstWord limits how long a server may send nothing while the baseline is read. It may have millions of states: as
// long as they come, the run waits.
const firstWord = time.Minute

// readBaseline reads the event states on the server before the run; without a view it returns none.
func (r *run) readBaseline(ctx context.Context) (before observe.States, err error) {
	if r.cfg.Before == nil {
		return nil, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := time.AfterFunc(firstWord, func() { end(r.hangs()) })
	defer silence.Stop()
	err = r.cfg.Before.Each(ctx, func(k observe.EventState) error {
		silence.Reset(firstWord)
		before.Add(k)
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("read the view: %w", err)
	}
	return before, nil
}

// hangs returns the error of a server that sends no baseline.
func (r *run) hangs() error {
	err := model.Errorf(model.Unavailable, "the server does not say what it holds: nothing came for %s, and nothing was sent to it", firstWord)
	if r.cfg.AdminURL == "" {
		return err.WithHint("muster status says whether it is well")
	}
	return err.WithHint("curl --max-time 10 %s/readyz says whether it is well", r.cfg.AdminURL)
}
