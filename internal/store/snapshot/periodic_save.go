package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// StateSource is the interface that encodes a partition's present state for a snapshot. The shard of event
// states implements it.
type StateSource interface {
	// Snapshot appends the state of a partition to dst, and returns the journal position of that state.
	Snapshot(p model.Partition, dst []byte) ([]byte, journal.Position)
	// Revision is the intent revision in force.
	Revision() int64
}

// PeriodicSaver saves the snapshots of all partitions one after the other, evenly spread over a period.
type PeriodicSaver struct {
	Store *Store
	View  StateSource
	// Gates are the conditions for a snapshot to get its final name: Cycle waits for each of them, in this
	// order. Each reducer of the view has one gate.
	Gates []Gate
	// Saved is called after each full cycle, which may have moved Store.ReplayStart. May be nil.
	Saved  func()
	Period time.Duration // of a full cycle while a start has little to replay; default 10 min
	// ReplaySize returns the bytes of the journal that a start has to replay. More bytes shorten a cycle, down
	// to busyCycle. nil: cycles always take their period.
	ReplaySize func() int64
	// Times returns the journal's times now. nil: the snapshots have none.
	Times func() journal.Times
	// Pressure returns how full the journal is, from 0 to 1. Above one half, cycles are shorter, down to
	// shortestCycle. nil: a full journal does not shorten cycles.
	Pressure func() float64
	Logger   *slog.Logger
	Queues   *queue.Registry // lists the snapshots that wait for reactions as a queue; nil: not listed

	body, file []byte // buffers for one partition, reused
}

// Gate delays a snapshot until a reducer (consumer of the journal) has stored the effects of earlier records.
// The effects are those of the journal up to the snapshot's position. Then the file gets its final name.
type Gate struct {
	Reducer string
	// Wait returns ErrSkip to discard the snapshot instead of waiting for it.
	Wait func(context.Context, model.Partition, journal.Position) error
}

// ErrSkip reports that a snapshot is discarded. The next cycle saves a new snapshot of the partition.
var ErrSkip = errors.New("cannot save the snapshot of a partition now; the next cycle saves it")

// The journal is cut below the older of the two snapshots of a partition. When the journal fills up, cycles become
// shorter: at the fill level shortenFrom a cycle takes its period, at shortenMost only shortestCycle.
const (
	shortenFrom   = 0.5
	shortenMost   = 0.75
	shortestCycle = time.Second
)

// A snapshot saves a start the replay of the journal before it. While few bytes wait for a replay, snapshots save
// little: a cycle takes its period. From maxQuietReplay bytes on, a cycle takes at most busyCycle.
const (
	defaultPeriod  = 10 * time.Minute
	busyCycle      = time.Minute
	maxQuietReplay = 16 << 20 // bytes, which a start replays in a fraction of a second
)

// saveInterval returns the time between the snapshots of two successive partitions.
func (c *PeriodicSaver) saveInterval() time.Duration {
	period := c.Period
	if period <= 0 {
		period = defaultPeriod
	}
	if c.ReplaySize != nil {
		period = shorten(period, busyCycle, float64(c.ReplaySize())/maxQuietReplay)
	}
	if c.Pressure != nil {
		period = shorten(period, shortestCycle, (c.Pressure()-shortenFrom)/(shortenMost-shortenFrom))
	}
	return period / model.Partitions
}

// shorten returns a time between period (at share 0) and least (at share 1), in proportion.
func shorten(period, least time.Duration, share float64) time.Duration {
	return period - time.Duration(min(max(0, share), 1)*float64(max(0, period-least)))
}

// maxPending limits the snapshots on disk that wait for recorded effects. It is lower than the number of partitions.
const maxPending = model.Partitions / 2

// Run saves the state of one partition after the other as snapshot files, until ctx ends. If a partition cannot be
// saved, its last snapshots stay and the next cycle tries again. Run does not wait for reactions that are behind: a
// cycle takes its period, or less by ReplaySize and Pressure.
func (c *PeriodicSaver) Run(ctx context.Context) error {
	every := c.saveInterval()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	written := queue.New[*Pending](c.Queues, "snapshots", maxPending, queue.Block) // a nil item ends a cycle
	var landing sync.WaitGroup
	landing.Go(func() {
		for pending := range written.Items() {
			if pending == nil {
				c.endCycle()
			} else {
				c.reportError(ctx, c.commitWhenRecorded(ctx, pending))
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
			if now := c.saveInterval(); now != every {
				every = now
				ticker.Reset(every)
			}
			pending, err := c.write(model.Partition(p))
			c.reportError(ctx, err)
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

// SaveAll saves the snapshots of all partitions immediately, before a planned stop of the server. The next
// start then replays nothing. It must not be called while Run runs.
func (c *PeriodicSaver) SaveAll(ctx context.Context) error {
	for p := range model.Partitions {
		if err := c.Save(ctx, model.Partition(p)); err != nil {
			return err
		}
	}
	c.endCycle()
	return nil
}

// Save writes a snapshot of one partition and waits until the snapshot has its final name.
func (c *PeriodicSaver) Save(ctx context.Context, p model.Partition) error {
	pending, err := c.write(p)
	if pending == nil {
		return err
	}
	return c.commitWhenRecorded(ctx, pending)
}

// write writes a changed partition's snapshot to a temporary file, beside the older snapshots. It returns nil
// if the partition has not changed since its last snapshot.
func (c *PeriodicSaver) write(p model.Partition) (*Pending, error) {
	begun := time.Now()
	body, at := c.View.Snapshot(p, c.body[:0])
	c.body = body
	if at.Number == 0 || at == c.Store.newestPosition(p) {
		return nil, nil
	}
	c.Store.metrics.encode.Observe(time.Since(begun).Seconds())
	s := Snapshot{Partition: p, At: at, Revision: c.View.Revision(), Body: body}
	if c.Times != nil {
		s.Times = c.Times()
	}
	c.file = Append(c.file, &s)
	pending, err := c.Store.Write(p, at, c.file)
	if err == nil {
		c.Store.metrics.bytes.Add(float64(len(c.file)))
	}
	return pending, err
}

// commitWhenRecorded gives a snapshot file its final name, once all reducers have stored their effects. It
// waits for all effects up to the snapshot's position.
func (c *PeriodicSaver) commitWhenRecorded(ctx context.Context, pending *Pending) error {
	for _, gate := range c.Gates {
		if err := gate.Wait(ctx, pending.partition, pending.at); err != nil {
			pending.Discard()
			if errors.Is(err, ErrSkip) {
				return nil
			}
			return fmt.Errorf("wait until reducer %s has recorded its effects: %w", gate.Reducer, err)
		}
	}
	if err := pending.Commit(); err != nil {
		return err
	}
	c.Store.metrics.saved.Inc()
	return nil
}

// reportError logs and counts a failed snapshot, unless ctx has ended.
func (c *PeriodicSaver) reportError(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	c.Store.metrics.failed.Inc()
	if c.Logger != nil {
		c.Logger.Error("cannot save a snapshot; the journal keeps the commits since the last one", "error", err)
	}
}

// endCycle runs after every partition was saved, deletes unneeded snapshot files and calls the function Saved.
func (c *PeriodicSaver) endCycle() {
	if err := c.Store.RemoveUnneeded(); err != nil {
		c.reportError(context.Background(), err)
	}
	c.Store.metrics.cycles.Inc()
	if c.Saved != nil {
		c.Saved()
	}
}

// metrics holds the Prometheus metrics of a PeriodicSaver.
type metrics struct {
	saved, failed, cycles, unusable, bytes prometheus.Counter
	encode                                 prometheus.Histogram
}

// newMetrics registers the metrics of snapshots.
func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "snapshot", Name: name, Help: help})
	}
	m := &metrics{
		saved:    counter("saved_total", "Snapshots of partitions saved."),
		failed:   counter("failures_total", "Snapshots whose saving failed."),
		cycles:   counter("cycles_total", "Completed snapshot cycles through all partitions."),
		unusable: counter("unusable_total", "Unusable snapshots: damaged, ahead of the journal, or of another incarnation."),
		bytes:    counter("written_bytes_total", "Bytes of snapshots written."),
		encode: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "muster", Subsystem: "snapshot", Name: "encode_seconds",
			Help: "Duration of the encoding of a partition, with the write of its full chunks.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 10),
		}),
	}
	if r != nil {
		r.MustRegister(m.saved, m.failed, m.cycles, m.unusable, m.bytes, m.encode)
	}
	return m
}
