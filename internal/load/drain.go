package load

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// rest waits until all signals are acknowledged, or the drain is over.
func (m muster) rest(ctx context.Context) {
	deadline := time.Now().Add(m.cfg.drain())
	for time.Now().Before(deadline) && ctx.Err() == nil {
		left := 0
		for _, a := range m.agents {
			a.mu.Lock()
			if !a.ledger.gone {
				left += len(a.held)
			}
			a.mu.Unlock()
		}
		if left == 0 {
			return
		}
		pause.For(ctx, 20*time.Millisecond)
	}
}

// endWithin limits each request after the last result, in addition to the drain, so that a server that hangs does not
// hang the run.
const endWithin = 2 * time.Minute

// ending returns a context for one request after the last result.
func (c *Config) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.drain() + endWithin
	return context.WithTimeoutCause(ctx, limit, model.Errorf(model.Unavailable, "that was not over after %s", limit))
}

// becauseOf returns the cause of the end of ctx if it ended, else err.
func becauseOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// settle waits until the server's event states agree with the ledgers: its view may still be applying the last commits. A
// difference is believed once it stays the same for two seconds. It writes the ledgers and the event states to the log, and
// returns the reason why the event states could not be read.
func (m muster) settle(ctx context.Context, _ *reporting, before observe.States) error {
	r := m.run
	ctx, over := r.cfg.ending(ctx)
	defer over()
	last, same := uint64(0), 0
	for {
		own := r.ledgers()
		ledgers := append([]observe.Ledgers{own}, r.othersLedgers()...)
		after, b, err := r.compare(ctx, ledgers, before)
		if err == nil && !b.OK() && same < 2 {
			if now := b.Imbalances + b.Missing; now != last {
				last, same = now, 0
			}
			same++
			if pause.For(ctx, time.Second) == nil {
				continue
			}
		}
		for _, line := range own.Lines(0) {
			r.log.Append(line)
		}
		for _, chunk := range before {
			r.log.Append(observe.Line{View: &observe.View{Before: chunk}})
		}
		for _, chunk := range after {
			r.log.Append(observe.Line{View: &observe.View{After: chunk}})
		}
		r.log.Append(observe.Line{View: &observe.View{Whole: err == nil && r.cfg.Before != nil}})
		return becauseOf(ctx, err)
	}
}

// compare reads the server's event states and compares them with ledgers. The agents must be at rest.
func (r *run) compare(ctx context.Context, ledgers []observe.Ledgers, before observe.States) (after observe.States, b *report.Balance, err error) {
	if r.cfg.Before == nil {
		return nil, judge.Sums(ledgers), nil
	}
	c, err := judge.Compare(ledgers, before)
	if err == nil {
		err = r.cfg.Before.Each(ctx, func(s observe.EventState) error {
			after.Add(s)
			c.State(s)
			return nil
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return after, c.Balance(), nil
}
