package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options of a View. Zero fields get the defaults named beside them.
//
// Grace, BacklogWait and KeepaliveTimeout decide what a commit does: a journal
// replayed under others gives another view.
type Options struct {
	// Chunks resolves an id that the journal names. It must answer the same for ever
	// (a chunk never changes and is kept while the journal can name it); it is asked
	// by several goroutines, once per chunk as long as the cache holds.
	Chunks func(model.ChunkID) *model.Chunk
	// Emit gets the transitions of one commit that belong to one worker, in order per
	// partition, before Applied moves past the commit. The slice is reused after
	// Emit returns. Emit may block: that is back-pressure on the journal. Workers
	// call it at the same time. nil: nobody listens.
	Emit func([]Transition)
	// EmitAfter is the position up to which transitions were taken already: replay
	// does not build them again.
	EmitAfter journal.Position

	Workers      int // goroutines that own partitions; default 1
	QueueCommits int // commits that wait for a worker before Deliver blocks; default that of the queue event-view

	Grace            time.Duration // to reconnect after the server started; default model.DefaultReconnectGrace
	BacklogWait      time.Duration // at most so long do TTLs wait for a backlog; default 10m
	KeepaliveTimeout time.Duration // for sessions that name none; default model.DefaultKeepaliveTimeout

	// Limits are those in force in a namespace now; a zero is no limit. Only Admit asks,
	// for each new state, with a partition locked. nil: no limits.
	Limits func(model.NamespaceID) model.Limits

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Queues     *queue.Registry
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, preset time.Duration) {
		if *d == 0 {
			*d = preset
		}
	}
	set(&o.Grace, model.DefaultReconnectGrace)
	set(&o.BacklogWait, 10*time.Minute)
	set(&o.KeepaliveTimeout, model.DefaultKeepaliveTimeout)
	o.Workers = min(max(o.Workers, 1), model.Partitions)
	if o.QueueCommits <= 0 {
		commits, _ := o.Queues.Bounds("event-view")
		o.QueueCommits = int(commits)
	}
	if o.Limits == nil {
		o.Limits = func(model.NamespaceID) model.Limits { return model.Limits{} }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// View is the event view. All its methods may be called by any goroutine, Restore
// only before the first Deliver.
type View struct {
	opts       Options
	metrics    *metrics
	partitions [model.Partitions]*partition
	workers    []*worker
	places     places
	totals     totals
	watchers   watchers
	sparse     int // sparseCandidates; tests try both ways

	log       atomic.Uint64 // Position.Log of what was applied
	delivered atomic.Uint64 // number of the last commit delivered
	revision  atomic.Int64  // intent revision in force

	waitMu  sync.Mutex
	waiting []waiter
	waits   atomic.Int32

	restoreMu  sync.Mutex
	restoredAt [model.Partitions]uint64 // by partition: the commit its snapshot reflects

	life context.Context // ends when Run returns: nobody takes from the queues any more
	end  context.CancelFunc
}

type waiter struct {
	number uint64
	done   chan struct{}
}

// ErrStopped: the view no longer applies commits.
var ErrStopped = errors.New("event view is stopped")

// New makes an empty view. Run applies what Deliver brings.
func New(o Options) *View {
	v := &View{opts: o.withDefaults(), sparse: sparseCandidates}
	v.life, v.end = context.WithCancel(context.Background())
	v.watchers.init(v.opts.Queues)
	for i := range v.partitions {
		v.partitions[i] = newPartition(v, model.Partition(i))
	}
	for i := range v.opts.Workers {
		v.workers = append(v.workers, newWorker(v, i))
	}
	v.metrics = newMetrics(v, v.opts.Registerer)
	return v
}

// Run applies delivered commits until ctx ends. What is still queued then is left:
// the journal has it.
func (v *View) Run(ctx context.Context) error {
	defer v.end()
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range v.workers {
		g.Go(func() error { return w.run(ctx) })
	}
	return g.Wait()
}

// Deliver queues a commit for every worker, in the order of positions. It blocks
// while a queue is full; one that came before is passed over. It is made for
// journal.Options.Deliver and Journal.Read. At a start: open the journal with a
// Deliver that waits, restore, Read from the lowest restored position into Deliver,
// then let the waiting one go.
func (v *View) Deliver(c journal.Commit) {
	pos := c.Position()
	v.log.Store(pos.Log)
	v.delivered.Store(pos.Number)
	for _, w := range v.workers {
		c.Retain()
		if w.queue.Put(v.life, c) != nil {
			c.Release()
		}
	}
}

// Apply applies a commit at once, on the goroutine of the caller: what it caused was
// emitted when Apply returns. It is for a view that nobody Runs, which has one caller;
// Snapshot may be called meanwhile. After an error the view is of no use.
func (v *View) Apply(c journal.Commit) error {
	pos := c.Position()
	v.log.Store(pos.Log)
	v.delivered.Store(pos.Number)
	for _, w := range v.workers {
		if err := w.apply(c); err != nil {
			return err
		}
	}
	return nil
}

// Applied is the position up to which every partition is applied and every
// transition emitted.
func (v *View) Applied() journal.Position {
	number := v.workers[0].applied.Load()
	for _, w := range v.workers[1:] {
		number = min(number, w.applied.Load())
	}
	return journal.Position{Log: v.log.Load(), Number: number}
}

// WaitApplied waits until Applied reaches p, ctx ends or the view stops.
func (v *View) WaitApplied(ctx context.Context, p journal.Position) error {
	if v.Applied().Number >= p.Number {
		return nil
	}
	w := waiter{p.Number, make(chan struct{})}
	v.waitMu.Lock()
	v.waiting = append(v.waiting, w)
	v.waits.Store(int32(len(v.waiting)))
	v.waitMu.Unlock()
	v.wake() // it may have been applied in between
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	case <-v.life.Done():
	}
	v.waitMu.Lock()
	for i := range v.waiting {
		if v.waiting[i].done == w.done {
			v.waiting = append(v.waiting[:i], v.waiting[i+1:]...)
			break
		}
	}
	v.waits.Store(int32(len(v.waiting)))
	v.waitMu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for commit %d to be applied: %w", p.Number, err)
	}
	return ErrStopped
}

// wake ends the waits that are over.
func (v *View) wake() {
	if v.waits.Load() == 0 {
		return
	}
	v.waitMu.Lock()
	defer v.waitMu.Unlock()
	applied := v.Applied().Number
	kept := v.waiting[:0]
	for _, w := range v.waiting {
		if w.number <= applied {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(v.waiting[len(kept):])
	v.waiting = kept
	v.waits.Store(int32(len(kept)))
}

// LastNumbers waits until the view has applied commit after, and returns the last
// number kept of every stream of the node.
func (v *View) LastNumbers(ctx context.Context, node model.NodeID, after journal.Position) ([]wire.StreamLast, error) {
	if err := v.WaitApplied(ctx, after); err != nil {
		return nil, err
	}
	p := v.partitionOf(node)
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.findNode(node)
	if !ok {
		return nil, nil
	}
	var last []wire.StreamLast
	for _, s := range p.nodes[n].streams {
		last = append(last, wire.StreamLast{StreamKey: s.key, Last: s.last})
	}
	return last, nil
}

// Revision is the intent revision in force by the journal.
func (v *View) Revision() int64 { return v.revision.Load() }

// advance notes an intent revision. Workers are not in step, so that an older one
// may come after a newer.
func (v *View) advance(revision int64) {
	for {
		now := v.revision.Load()
		if revision <= now || v.revision.CompareAndSwap(now, revision) {
			return
		}
	}
}

// partitionOf finds the partition that a known node is in, nil for others.
func (v *View) partitionOf(node model.NodeID) *partition {
	if p, ok := v.places.find(node); ok {
		return v.partitions[p]
	}
	return nil
}
