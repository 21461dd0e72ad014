package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options has the settings of a Shard. Zero fields get the defaults named beside them.
//
// Grace, BacklogWait and KeepaliveTimeout decide the effects of a commit: a journal
// replayed under others gives other views.
type Options struct {
	// Definitions resolves an id that the journal names. It must answer the same for ever
	// (a definition never changes and is kept while the journal can name it). Several
	// goroutines call it, once per definition as long as the cache lasts.
	Definitions func(model.DefinitionID) *model.Definition

	Workers      int // goroutines that own partitions; default 1
	QueueCommits int // commits that wait for a worker before Deliver blocks; default: the queue event-view's

	Grace            time.Duration // to reconnect after the server started; default model.DefaultReconnectGrace
	BacklogWait      time.Duration // longest wait of deadlines for a backlog; default 10m
	KeepaliveTimeout time.Duration // for sessions that name none; default model.DefaultKeepaliveTimeout

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Queues     *queue.Registry
}

// withDefaults returns the options with defaults in place of zero values.
func (o Options) withDefaults() Options {
	o.Grace, o.BacklogWait = cmp.Or(o.Grace, model.DefaultReconnectGrace), cmp.Or(o.BacklogWait, 10*time.Minute)
	o.KeepaliveTimeout = cmp.Or(o.KeepaliveTimeout, model.DefaultKeepaliveTimeout)
	o.Workers = min(max(o.Workers, 1), model.Partitions)
	if o.QueueCommits <= 0 {
		commits, _ := o.Queues.Bounds("event-view")
		o.QueueCommits = int(commits)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Shard has the fleet's nodes in 256 partitions, and the workers that apply journal commits. Add belongs to
// construction, Restore before the first commit; any goroutine may call the other methods.
type Shard struct {
	opts       Options
	metrics    *metrics
	partitions [model.Partitions]*Partition
	reducers   []Reducer
	workers    []*Worker
	busy       []atomic.Int64 // by worker: time in which it applied commits, ns
	places     nodePartitions

	log       atomic.Uint64 // Position.Log of the last commit delivered
	delivered atomic.Uint64 // number of the last commit delivered
	revision  atomic.Int64  // intent revision in force

	waitMu  sync.Mutex
	waiters []positionWaiter
	waits   atomic.Int32

	restoreMu  sync.Mutex
	restoredAt [model.Partitions]uint64 // by partition: the commit its snapshot reflects

	life context.Context // ends when Run returns: nobody takes from the queues any more
	end  context.CancelFunc
}

// ErrStopped reports that the shard no longer applies commits.
var ErrStopped = errors.New("the views are stopped: they apply no more commits")

// New returns a shard without nodes. Add gives it reducers; Run applies the commits of Deliver.
func New(o Options) *Shard {
	s := &Shard{opts: o.withDefaults()}
	s.life, s.end = context.WithCancel(context.Background())
	for i := range s.partitions {
		s.partitions[i] = newPartition(s, model.Partition(i))
	}
	s.busy = make([]atomic.Int64, s.opts.Workers)
	for i := range s.opts.Workers {
		s.workers = append(s.workers, newWorker(s, i))
	}
	s.metrics = newMetrics(s, s.opts.Registerer)
	return s
}

// Add adds a reducer to the shard, before Restore, Run and the first commit. It panics where another reducer claims
// the same signal or section.
func (s *Shard) Add(r Reducer) {
	for _, other := range s.reducers {
		if other.Section().Name == r.Section().Name {
			panic(fmt.Sprintf("BUG: two reducers with the section %q", r.Section().Name))
		}
	}
	s.reducers = append(s.reducers, r)
	for _, p := range s.partitions {
		deadlines := new(expect.Engine)
		p.deadlines = append(p.deadlines, deadlines)
		r.Reset(p, deadlines)
	}
	for _, w := range s.workers {
		w.addReducer(r)
	}
}

// Run applies the commits that Deliver has queued, until ctx ends. It leaves the rest of its queues: the journal has
// it.
func (s *Shard) Run(ctx context.Context) error {
	defer s.end()
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range s.workers {
		g.Go(func() error { return w.runQueue(ctx) })
	}
	return g.Wait()
}

// Deliver queues a journal commit for every worker, in the order of journal positions. It blocks while a queue
// is full, and skips a commit that was delivered before. It is made for journal.Options.Deliver and
// Journal.Read. At a start: open the journal with a Deliver that waits, restore, Read from the lowest restored
// position into Deliver, then let the waiting one go.
func (s *Shard) Deliver(c journal.Commit) {
	s.recordDeliveredPosition(c)
	for _, w := range s.workers {
		c.Retain()
		if w.queue.Put(s.life, c) != nil {
			c.Release()
		}
	}
}

// Apply lets all reducers apply a journal commit, on the caller's goroutine. It is for a shard without Run,
// which has one caller; Snapshot may be called meanwhile. After an error the shard is of no use.
func (s *Shard) Apply(c journal.Commit) error {
	s.recordDeliveredPosition(c)
	for _, w := range s.workers {
		if err := w.applyCommit(c); err != nil {
			return err
		}
	}
	return nil
}

// recordDeliveredPosition records the journal position of the last commit that Deliver or Apply received.
func (s *Shard) recordDeliveredPosition(c journal.Commit) {
	pos := c.Position()
	s.log.Store(pos.Log)
	s.delivered.Store(pos.Number)
}

// JournalID returns the id of the journal that contains the last applied commit. A restored or repaired journal has a new
// id.
func (s *Shard) JournalID() uint64 { return s.log.Load() }

// Revision returns the newest revision of the declared resources that the journal has recorded
func (s *Shard) Revision() int64 { return s.revision.Load() }

// advanceRevision records a newer revision of the declared resources, read from the journal. Workers are not in step,
// so that an older one may come after a newer.
func (s *Shard) advanceRevision(revision int64) {
	for {
		now := s.revision.Load()
		if revision <= now || s.revision.CompareAndSwap(now, revision) {
			return
		}
	}
}

// LastNumbers returns the last applied sequence number in each stream of a node's signals. A stream is a
// numbered sequence of signals. It first waits until the shard has applied a commit.
func (s *Shard) LastNumbers(ctx context.Context, node model.NodeID, after journal.Position) ([]wire.StreamLast, error) {
	if err := s.WaitApplied(ctx, after); err != nil {
		return nil, err
	}
	p := s.PartitionOf(node)
	if p == nil {
		return nil, nil
	}
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return nil, nil
	}
	var last []wire.StreamLast
	for _, st := range p.nodes[n].streams {
		last = append(last, wire.StreamLast{StreamKey: st.key, Last: st.last})
	}
	return last, nil
}

// WorkerLoad says how busy one worker is.
type WorkerLoad struct {
	Busy   time.Duration // time in which it applied commits, since the start
	Queued int           // commits that wait
}

// WorkerLoads returns how busy each worker is.
func (s *Shard) WorkerLoads() (list []WorkerLoad) {
	for _, w := range s.workers {
		list = append(list, WorkerLoad{time.Duration(s.busy[w.number].Load()), len(w.queue.Items())})
	}
	return list
}

// Workers returns the number of workers.
func (s *Shard) Workers() int { return len(s.workers) }

// positionWaiter is one caller of WaitApplied, with the journal position to wait for.
type positionWaiter struct {
	number uint64
	done   chan struct{}
}

// Applied returns the journal position up to which all commits are applied. All partitions and reducers have applied
// them and passed on the effects.
func (s *Shard) Applied() journal.Position {
	number := s.workers[0].applied.Load()
	for _, w := range s.workers[1:] {
		number = min(number, w.applied.Load())
	}
	return journal.Position{Log: s.log.Load(), Number: number}
}

// WaitApplied waits until the shard has applied the journal up to position p. It stops early when ctx ends or the
// shard stops.
func (s *Shard) WaitApplied(ctx context.Context, p journal.Position) error {
	if s.Applied().Number >= p.Number {
		return nil
	}
	w := positionWaiter{p.Number, make(chan struct{})}
	s.waitMu.Lock()
	s.waiters = append(s.waiters, w)
	s.waits.Store(int32(len(s.waiters)))
	s.waitMu.Unlock()
	s.wakeWaiters() // it may have been applied in between
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	case <-s.life.Done():
	}
	s.waitMu.Lock()
	s.waiters = slices.DeleteFunc(s.waiters, func(o positionWaiter) bool { return o.done == w.done })
	s.waits.Store(int32(len(s.waiters)))
	s.waitMu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait until journal commit %d is applied: %w", p.Number, err)
	}
	return ErrStopped
}

// wakeWaiters wakes the callers of WaitApplied after their journal position was applied.
func (s *Shard) wakeWaiters() {
	if s.waits.Load() == 0 {
		return
	}
	s.waitMu.Lock()
	defer s.waitMu.Unlock()
	applied := s.Applied().Number
	s.waiters = slices.DeleteFunc(s.waiters, func(w positionWaiter) bool {
		if w.number <= applied {
			close(w.done)
		}
		return w.number <= applied
	})
	s.waits.Store(int32(len(s.waiters)))
}

// nodePartitions maps node ids to partitions, for callers that have only the node's id
type nodePartitions struct {
	mu sync.RWMutex
	at map[model.NodeID]model.Partition
}

// find returns the partition of a node. ok is false for an unknown node.
func (x *nodePartitions) find(node model.NodeID) (model.Partition, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, ok := x.at[node]
	return p, ok
}

// set records the partition of a node.
func (x *nodePartitions) set(node model.NodeID, p model.Partition) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at == nil {
		x.at = map[model.NodeID]model.Partition{}
	}
	x.at[node] = p
}

// remove removes a node from the map.
func (x *nodePartitions) remove(node model.NodeID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.at, node)
}

// Partition returns one of the 256 partitions (shares of the nodes) by its number.
func (s *Shard) Partition(id model.Partition) *Partition { return s.partitions[id] }

// PartitionOf returns the partition of a node, or nil for an unknown node. The node may be removed before the caller
// holds the partition's mutex.
func (s *Shard) PartitionOf(node model.NodeID) *Partition {
	if p, ok := s.places.find(node); ok {
		return s.partitions[p]
	}
	return nil
}

// EachNodePartition calls fn with the id and partition of each known node in a list. fn must not call the shard.
func (s *Shard) EachNodePartition(nodes []model.NodeID, fn func(model.NodeID, model.Partition)) {
	s.places.mu.RLock()
	defer s.places.mu.RUnlock()
	for _, n := range nodes {
		if p, ok := s.places.at[n]; ok {
			fn(n, p)
		}
	}
}

// Nodes returns the number of nodes in all partitions together.
func (s *Shard) Nodes() int {
	s.places.mu.RLock()
	defer s.places.mu.RUnlock()
	return len(s.places.at)
}
