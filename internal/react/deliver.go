package react

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/store/history"
)

// Retry says how often and how long a delivery is tried.
type Retry struct {
	First  time.Duration // before the second attempt; doubles; default 1 s
	Most   time.Duration // between two attempts; default 10 min
	GiveUp time.Duration // after the message was made; default 24 h: a dead letter then
	// PerHandler is how many messages one handler gets at the same time; default 4.
	PerHandler int
}

func (r Retry) withDefaults() Retry {
	if r.First <= 0 {
		r.First = time.Second
	}
	if r.Most <= 0 {
		r.Most = 10 * time.Minute
	}
	if r.GiveUp <= 0 {
		r.GiveUp = 24 * time.Hour
	}
	if r.PerHandler <= 0 {
		r.PerHandler = 4
	}
	return r
}

// FinalError is a failure that another attempt cannot mend.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }
func (e *FinalError) Unwrap() error { return e.Err }

// deliverer works off the outbox. The rows are the truth: what is under way is
// remembered only so as not to start it twice; after a crash it is tried again with
// the same key.
type deliverer struct {
	opts    Options
	metrics *metrics
	wake    chan struct{}

	mu       sync.Mutex
	underway map[int64]bool
	busy     map[history.HandlerRef]int
	wg       sync.WaitGroup
}

func newDeliverer(o Options, m *metrics) *deliverer {
	return &deliverer{
		opts: o, metrics: m, wake: make(chan struct{}, 1),
		underway: map[int64]bool{}, busy: map[history.HandlerRef]int{},
	}
}

func (d *deliverer) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// dueAtOnce bounds one look at the outbox; a handler that hangs holds at most
// PerHandler of its rows, the others' rows pass it by.
const dueAtOnce = 1000

func (d *deliverer) run(ctx context.Context) error {
	defer d.wg.Wait()
	cleaned := time.Time{}
	for {
		now := d.opts.Now()
		if now.Sub(cleaned) > time.Minute {
			cleaned = now
			d.clean(ctx, now)
		}
		due, next, err := d.opts.Store.Due(ctx, now, dueAtOnce)
		wait := time.Minute
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			d.opts.Logger.Warn("outbox cannot be read; trying again", "err", err)
			wait = 2 * time.Second
		case !next.IsZero():
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		for i := range due {
			d.start(ctx, due[i])
		}
		timer := time.NewTimer(wait)
		select {
		case <-d.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (d *deliverer) clean(ctx context.Context, now time.Time) {
	removed, err := d.opts.Store.Clean(ctx, now.Add(-d.opts.Retention), 10_000)
	if err != nil && ctx.Err() == nil {
		d.opts.Logger.Warn("old history could not be removed", "err", err)
	}
	if removed > 0 {
		d.opts.Logger.Info("old history removed", "rows", removed)
	}
}

func (d *deliverer) start(ctx context.Context, one history.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.underway[one.ID] || d.busy[one.Handler] >= d.opts.Retry.PerHandler {
		return
	}
	d.underway[one.ID] = true
	d.busy[one.Handler]++
	d.wg.Go(func() {
		d.deliver(ctx, one)
		d.mu.Lock()
		delete(d.underway, one.ID)
		if d.busy[one.Handler]--; d.busy[one.Handler] == 0 {
			delete(d.busy, one.Handler)
		}
		d.mu.Unlock()
		d.signal()
	})
}

func (d *deliverer) deliver(ctx context.Context, one history.Delivery) {
	began := d.opts.Now()
	err := d.attempt(ctx, one)
	if err != nil && ctx.Err() != nil {
		return // stopping: tried again at the next start, with the same key
	}
	now := d.opts.Now()
	d.metrics.deliverSeconds.Observe(now.Sub(began).Seconds())
	a := history.Attempt{At: now, State: history.Delivered}
	outcome := "delivered"
	if err != nil {
		a.Error = err.Error()
		a.NextAt = now.Add(backoff(one.Attempts, d.opts.Retry.First, d.opts.Retry.Most))
		a.State, outcome = history.Pending, "retried"
		var final *FinalError
		if errors.As(err, &final) || a.NextAt.Sub(one.Created) > d.opts.Retry.GiveUp {
			a.State, a.NextAt, outcome = history.Dead, time.Time{}, "dead"
			d.opts.Logger.Error("message given up", "handler", one.Handler.Name, "problem", one.Problem, "attempts", one.Attempts+1, "err", err)
		}
	}
	d.metrics.attempts.WithLabelValues(outcome).Inc()
	for attempt := 0; ; attempt++ {
		err := d.opts.Store.Tried(ctx, one.ID, a)
		if err == nil || ctx.Err() != nil {
			return
		}
		d.opts.Logger.Warn("outcome of a delivery could not be recorded; trying again", "err", err)
		if sleep(ctx, backoff(attempt, 100*time.Millisecond, 10*time.Second)) != nil {
			return
		}
	}
}

func (d *deliverer) attempt(ctx context.Context, one history.Delivery) error {
	spec, ok := d.opts.Names.Handler(one.Handler.Namespace, one.Handler.Name)
	if !ok {
		return fmt.Errorf("handler %s/%s does not exist (any more): apply it, and this message is sent", one.Handler.Namespace, one.Handler.Name)
	}
	timeout := time.Duration(spec.Timeout)
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if spec.Webhook != nil {
		return post(ctx, spec.Webhook, one)
	}
	return pipe(ctx, spec, one, timeout)
}
