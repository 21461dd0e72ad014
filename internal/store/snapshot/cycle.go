package snapshot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// View is what a Cycle saves.
type View interface {
	// Snapshot appends the partition's body to dst and says what it reflects.
	Snapshot(p model.Partition, dst []byte) ([]byte, journal.Position)
	// Revision is the intent revision in force.
	Revision() int64
}

// Cycle saves the partitions in turn, one at a time, spread evenly.
type Cycle struct {
	Store *Store
	View  View
	// Usable waits until reactions have taken their transitions up to the position.
	// nil: nobody reacts.
	Usable func(context.Context, journal.Position) error
	// Saved hears after each full cycle up to where the log is needed no more (see
	// Store.Floor). It may be nil.
	Saved  func(floor journal.Position)
	Period time.Duration // of a full cycle; default 60s
	Logger *slog.Logger
	Queues *queue.Registry // where the snapshots are listed that wait for reactions; nil: nowhere

	body, file []byte // one partition's, used again
}

// inFlight is how many snapshots may be on disk and wait for reactions: fewer than
// partitions, so that one partition never has two of them.
const inFlight = model.Partitions / 2

// Run saves until ctx ends. A partition that cannot be saved is tried again in the
// next cycle; its last snapshots stay. However far reactions are behind, the next
// partitions are written meanwhile: a cycle takes its period.
func (c *Cycle) Run(ctx context.Context) error {
	period := c.Period
	if period <= 0 {
		period = time.Minute
	}
	ticker := time.NewTicker(period / model.Partitions)
	defer ticker.Stop()
	written := queue.New[*Pending](c.Queues, "snapshots", inFlight, queue.Block) // nil: a cycle is complete
	var landing sync.WaitGroup
	landing.Go(func() {
		for pending := range written.Items() {
			if pending == nil {
				c.finish()
			} else {
				c.report(ctx, c.land(ctx, pending))
			}
		}
	})
	defer landing.Wait()
	defer written.Close()
	for {
		for p := range model.Partitions {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			pending, err := c.write(model.Partition(p))
			c.report(ctx, err)
			if pending != nil && written.Put(ctx, pending) != nil {
				pending.Discard()
				return nil
			}
		}
		if written.Put(ctx, nil) != nil {
			return nil
		}
	}
}

// All saves every partition at once: for a planned stop, so that the next start
// replays nothing. Not while Run does.
func (c *Cycle) All(ctx context.Context) error {
	for p := range model.Partitions {
		if err := c.Save(ctx, model.Partition(p)); err != nil {
			return err
		}
	}
	c.finish()
	return nil
}

// Save writes one partition and waits until it has its name.
func (c *Cycle) Save(ctx context.Context, p model.Partition) error {
	pending, err := c.write(p)
	if pending == nil {
		return err
	}
	return c.land(ctx, pending)
}

// write puts one partition on disk; nil without an error: nothing has happened yet.
func (c *Cycle) write(p model.Partition) (*Pending, error) {
	begun := time.Now()
	body, at := c.View.Snapshot(p, c.body[:0])
	c.body = body
	if at.Number == 0 {
		return nil, nil
	}
	c.Store.metrics.encode.Observe(time.Since(begun).Seconds())
	c.file = Append(c.file, &Snapshot{Partition: p, At: at, Revision: c.View.Revision(), Body: body})
	pending, err := c.Store.Begin(p, at, c.file)
	if err == nil {
		c.Store.metrics.bytes.Add(float64(len(c.file)))
	}
	return pending, err
}

// land gives it its name once reactions have come so far.
func (c *Cycle) land(ctx context.Context, pending *Pending) error {
	if c.Usable != nil {
		if err := c.Usable(ctx, pending.at); err != nil {
			pending.Discard()
			return err
		}
	}
	if err := pending.Commit(); err != nil {
		return err
	}
	c.Store.metrics.saved.Inc()
	return nil
}

func (c *Cycle) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	c.Store.metrics.failed.Inc()
	if c.Logger != nil {
		c.Logger.Error("snapshot was not saved; the journal keeps what it would replace", "error", err)
	}
}

func (c *Cycle) finish() {
	if err := c.Store.Sweep(); err != nil {
		c.report(context.Background(), err)
	}
	c.Store.metrics.cycles.Inc()
	if floor := c.Store.Floor(); c.Saved != nil && floor.Number > 0 {
		c.Saved(floor)
	}
}
