package load

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// crew is the sessions of a run.
type crew struct {
	run     *run
	stop    context.CancelFunc
	readers sync.WaitGroup
}

// open begins to open sessions for r.agents and keeps them open until leave.
func (r *run) open(ctx context.Context) *crew {
	live, stop := context.WithCancel(ctx)
	c := &crew{run: r, stop: stop}
	r.first.Store(0)
	r.ready.Store(0)
	r.opened = r.now()
	agents, ramp := r.agents, r.ramp()
	if ramp == 0 {
		for _, a := range agents {
			c.readers.Go(func() { a.live(live, c) })
		}
		return c
	}
	began := time.Now()
	c.readers.Go(func() {
		for i, a := range agents {
			pause.For(live, time.Until(began.Add(ramp*time.Duration(r.place(i))/time.Duration(len(r.cfg.Members)))))
			c.readers.Go(func() { a.live(live, c) })
		}
	})
	return c
}

// leave ends them.
func (c *crew) leave() {
	c.stop()
	c.run.bye()
	c.readers.Wait()
}

// Forever plays without measuring until ctx ends. Agents that are not ready yet are waited for.
func Forever(ctx context.Context, cfg Config) error {
	r, err := readyRun(cfg)
	if err != nil {
		return err
	}
	return r.forever(ctx)
}

func (r *run) forever(ctx context.Context) error {
	crew := r.open(ctx)
	defer crew.leave()
	r.deal()
	for r.ready.Load() < int64(len(r.agents)) {
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return nil
		}
	}
	crew.readers.Go(func() { r.keepHouse(ctx) })
	r.follow(forever(r.now(), never))
	for _, s := range r.senders {
		crew.readers.Go(func() { s.play(ctx) })
	}
	<-ctx.Done()
	return nil
}
