package event

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options are the settings of a View. Zero fields get the defaults named beside them.
type Options struct {
	// Emit gets the transitions of one commit that belong to one worker, in order per
	// partition, before Applied moves past the commit. The slice is reused after
	// Emit returns. Emit may block: that is back-pressure on the journal. Workers
	// call it at the same time. nil: nothing is emitted.
	Emit func([]Transition)
	// EmitAfter is the position up to which transitions were taken already: replay
	// does not build them again.
	EmitAfter journal.Position

	// Limits are those in force in a namespace now; a zero is no limit. Only Admit asks,
	// for each new state, with a partition locked. nil: no limits.
	Limits func(model.NamespaceID) model.Limits

	Registerer prometheus.Registerer
	Queues     *queue.Registry
}

// View is the event view: a reducer, and the shard on which it stands. Any goroutine may
// call its methods and the shard's.
type View struct {
	*shard.Shard
	opts       Options
	metrics    *metrics
	partitions [model.Partitions]*partition
	totals     totals
	watchers   watchers
	sparse     int // sparseCandidates; tests try both ways
}

// New puts an empty event view on a shard.
func New(s *shard.Shard, o Options) *View {
	if o.Limits == nil {
		o.Limits = func(model.NamespaceID) model.Limits { return model.Limits{} }
	}
	v := &View{Shard: s, opts: o, sparse: sparseCandidates}
	v.watchers.init(o.Queues)
	v.metrics = newMetrics(v, o.Registerer)
	s.Add(reducer{v})
	return v
}

// reducer is the view as its shard calls it.
type reducer struct{ *View }

// SectionVersion is the version of the event view's section in snapshots.
const SectionVersion = 1

func (reducer) Section() shard.Section {
	return shard.Section{Name: "events", Version: SectionVersion}
}

func (reducer) Claims() shard.Claims {
	return shard.Claims{
		Signals: []wire.SignalKind{wire.SignalResult},
		Records: []wire.RecordKind{wire.RecordServerResult, wire.RecordAction},
	}
}

func (v reducer) Reset(p *shard.Partition, deadlines *expect.Engine) {
	if v.partitions[p.ID] == nil {
		v.partitions[p.ID] = new(partition)
	}
	v.partitions[p.ID].reset(v.View, p, deadlines)
}

func (v reducer) AddNode(p *shard.Partition, n uint32)    { v.partitions[p.ID].addNode(n) }
func (v reducer) RemoveNode(p *shard.Partition, n uint32) { v.partitions[p.ID].removeNode(n) }

func (v reducer) MoveNode(p *shard.Partition, n uint32, from model.NamespaceID) {
	v.partitions[p.ID].moveNode(n, from)
}

func (v reducer) Encode(p *shard.Partition, dst []byte) []byte { return v.partitions[p.ID].encode(dst) }
func (v reducer) Decode(p *shard.Partition, d *shard.Decoder)  { v.partitions[p.ID].decode(d) }
func (v reducer) NewApplier(w *shard.Worker) shard.Applier     { return newWorker(v.View, w) }

// partitionOf finds the partition that a known node is in, nil for others.
func (v *View) partitionOf(node model.NodeID) *partition {
	if p := v.PartitionOf(node); p != nil {
		return v.partitions[p.ID]
	}
	return nil
}
