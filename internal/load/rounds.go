package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/pause"
)

// A process may have some thousand connections open, but a fleet has more nodes: they
// come by in rounds. Each round's agents open their sessions and send every check's
// result once. They say Bye then; those of the last round stay and are measured. Every
// agent keeps its ledger, so that in the end the whole fleet is compared with the view.

// fillRate is how many results a second are sent before the measurement.
const fillRate = 30_000

// crew is the sessions of one round.
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
			pause.For(live, time.Until(began.Add(ramp*time.Duration(r.place(i))/time.Duration(r.cfg.Agents))))
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

// rounds lets all but the last of the fleet come by.
func (r *run) rounds(ctx context.Context, rep *reporting, idle usage.SoFar) error {
	last := r.agents
	defer func() { r.agents = last }()
	for from := 0; from < r.cfg.Fleet-r.cfg.Agents; from += r.cfg.Agents {
		r.agents = r.fleet[from : from+r.cfg.Agents]
		if err := r.round(ctx, rep, idle); err != nil {
			return fmt.Errorf("agents %d to %d come by: %w", r.cfg.First+from, r.cfg.First+from+r.cfg.Agents-1, err)
		}
	}
	return nil
}

func (r *run) round(ctx context.Context, rep *reporting, idle usage.SoFar) error {
	crew := r.open(ctx)
	defer crew.leave()
	if err := r.waitReady(ctx, rep); err != nil {
		return err
	}
	rep.connected(r, idle)
	return r.fill(ctx)
}

// fill sends every check's result of the present round once.
func (r *run) fill(ctx context.Context) error {
	interval := max(time.Second, time.Duration(r.cfg.Agents*r.cfg.Checks)*time.Second/fillRate)
	begin := r.now()
	r.follow(forever(begin, begin+int64(interval)))
	r.deal(interval)
	var playing sync.WaitGroup
	for _, s := range r.senders {
		playing.Go(func() { s.play(ctx) })
	}
	playing.Wait()
	r.drain(ctx)
	return ctx.Err()
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
	r.deal(0)
	for r.ready.Load() < int64(r.cfg.Agents) {
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
