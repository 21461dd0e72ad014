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

// drain waits for the last acknowledgements.
func (r *run) drain(ctx context.Context) {
	deadline := time.Now().Add(r.cfg.drain())
	for time.Now().Before(deadline) && ctx.Err() == nil {
		left := 0
		for _, a := range r.agents {
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

// endWithin is how long, beside what draining may take, each of the things may take that are asked of
// a server once all is sent: a server that hangs then must not hang the run.
const endWithin = 2 * time.Minute

// ending is a context for one of them.
func (c *Config) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.drain() + endWithin
	return context.WithTimeoutCause(ctx, limit, model.Errorf(model.Unavailable, "that was not over after %s", limit))
}

// becauseOf is the error of what was done within a context, or why that ended.
func becauseOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// settle compares with the view, which may still be applying the last commits: a
// difference is believed once it stays the same for two seconds. The error says why the view was
// not read; the balance is that of the ledgers alone then.
func (r *run) settle(ctx context.Context, before observe.States) (*report.Balance, error) {
	ctx, over := r.cfg.ending(ctx)
	defer over()
	last, same := uint64(0), 0
	for {
		b, err := r.balance(ctx, before)
		if err != nil || b.OK() || same == 2 {
			return b, becauseOf(ctx, err)
		}
		if now := b.Imbalances + b.Missing; now != last {
			last, same = now, 0
		}
		same++
		pause.For(ctx, time.Second)
		if ctx.Err() != nil {
			return b, nil // what was compared last counts
		}
	}
}

// balance compares the ledgers of all loaders with the server's event states. The agents must be at rest. Where the states
// cannot be read, it returns the sums of the ledgers beside the error.
func (r *run) balance(ctx context.Context, before observe.States) (*report.Balance, error) {
	all := r.allLedgers()
	if r.cfg.Before == nil {
		return judge.Sums(all), nil
	}
	c, err := judge.Compare(all, before)
	if err == nil {
		err = r.cfg.Before.Each(ctx, func(s observe.EventState) error {
			c.State(s)
			return nil
		})
	}
	if err != nil {
		return judge.Sums(all), err
	}
	return c.Balance(), nil
}

// allLedgers returns those of this loader, then those of the others.
func (r *run) allLedgers() []observe.Ledgers {
	list := []observe.Ledgers{r.ledgers()}
	for _, m := range r.measured {
		list = append(list, m.Ledgers)
	}
	return list
}

// bye ends all sessions as planned.
func (r *run) bye() {
	for _, a := range r.agents {
		a.mu.Lock()
		s, l, away := a.session, a.fate.line, a.fate.back != nil
		a.mu.Unlock()
		if away {
			hangUp(s, l)
		} else if s != nil {
			s.Bye("the load run is over")
		}
	}
}
