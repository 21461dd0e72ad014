package event

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/window"
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
	opts        Options
	metrics     *metrics
	partitions  [model.Partitions]*eventPartition
	totals      stateTotals
	watchers    watcherSet
	sparseLimit int // default sparseCandidates; tests lower the limit to test both ways of listing
}

// New puts an empty event view on a shard.
func New(s *shard.Shard, o Options) *View {
	if o.Limits == nil {
		o.Limits = func(model.NamespaceID) model.Limits { return model.Limits{} }
	}
	v := &View{Shard: s, opts: o, sparseLimit: sparseCandidates}
	v.watchers.configureLimits(o.Queues)
	v.metrics = newMetrics(v, o.Registerer)
	s.Add(eventReducer{v})
	return v
}

// eventReducer implements shard.Reducer with the methods of a View.
type eventReducer struct{ *View }

// SectionVersion is the version of the event view's section in snapshots.
const SectionVersion = 1

func (eventReducer) Section() shard.Section {
	return shard.Section{Name: "events", Version: SectionVersion}
}

func (eventReducer) Claims() shard.Claims {
	return shard.Claims{
		Signals: []wire.SignalKind{wire.SignalResult},
		Records: []wire.RecordKind{wire.RecordServerResult, wire.RecordAction},
	}
}

func (v eventReducer) Reset(p *shard.Partition, deadlines *expect.Engine) {
	if v.partitions[p.ID] == nil {
		v.partitions[p.ID] = new(eventPartition)
	}
	v.partitions[p.ID].resetPartition(v.View, p, deadlines)
}

func (v eventReducer) AddNode(p *shard.Partition, n uint32)    { v.partitions[p.ID].addNode(n) }
func (v eventReducer) RemoveNode(p *shard.Partition, n uint32) { v.partitions[p.ID].removeNode(n) }

func (v eventReducer) MoveNode(p *shard.Partition, n uint32, from model.NamespaceID) {
	v.partitions[p.ID].moveNode(n, from)
}

func (v eventReducer) Encode(p *shard.Partition, dst []byte) []byte {
	return v.partitions[p.ID].encode(dst)
}
func (v eventReducer) Decode(p *shard.Partition, d *shard.Decoder) { v.partitions[p.ID].decode(d) }
func (v eventReducer) NewApplier(w *shard.Worker) shard.Applier    { return newEventApplier(v.View, w) }

// partitionOf returns the partition of a known node, nil for an unknown node.
func (v *View) partitionOf(node model.NodeID) *eventPartition {
	if p := v.PartitionOf(node); p != nil {
		return v.partitions[p.ID]
	}
	return nil
}

// eventApplier is the event view's half of a shard's worker: one goroutine uses it. The shard
// calls its exported methods (shard.Applier), with the mutex of p held.
type eventApplier struct {
	*shard.Worker
	view      *View
	calendars map[model.ChunkID]window.Set // parsed CheckChunk.Except by chunk, for remainingTTL

	p                   *eventPartition // being applied
	transitionIndex     uint32          // of the next transition in it
	observationIndex    uint32          // of the next Observed transition in it
	transitionsRecorded bool            // reactions recorded its transitions before

	transitions []Transition // of the commit
	body        wire.Result  // of the signal being applied
	text        []byte       // reused for every output that the view writes
}

func newEventApplier(v *View, w *shard.Worker) *eventApplier {
	return &eventApplier{Worker: w, view: v}
}

// EnterPartition implements shard.Applier.
func (w *eventApplier) EnterPartition(p *shard.Partition) {
	w.p, w.transitionIndex, w.observationIndex = w.view.partitions[p.ID], 0, 0
	order, same := w.Position.Compare(w.view.opts.EmitAfter)
	w.transitionsRecorded = w.view.opts.Emit == nil || same && order <= 0
}

// Signal implements shard.Applier.
func (w *eventApplier) Signal(n uint32, s *wire.Signal, from *shard.Arrival) shard.Outcome {
	return w.applyResult(w.p, n, s, from)
}

// Record implements shard.Applier.
func (w *eventApplier) Record(r *wire.Record) {
	switch r.Kind {
	case wire.RecordServerResult:
		w.Count(w.applyServerResult(w.p, r.Node, r.ServerResult), 1)
	case wire.RecordAction:
		w.applyAction(w.p, r.Node, r.Action)
	}
}

// EndCommit implements shard.Applier: it hands on the transitions.
func (w *eventApplier) EndCommit() {
	if len(w.transitions) > 0 {
		w.view.metrics.transitions.Add(float64(len(w.transitions)))
		w.view.opts.Emit(w.transitions)
		clear(w.transitions)
		w.transitions = w.transitions[:0]
	}
}

// checkOfChunk resolves the chunk of a check; nil where it is unknown or of another kind.
func (w *eventApplier) checkOfChunk(id model.ChunkID) *model.CheckChunk { return w.Chunk(id).AsCheck() }

// metrics of the view. Workers count in plain fields and add once per commit.
type metrics struct {
	transitions                  prometheus.Counter
	keepaliveExpired, ttlExpired prometheus.Counter
	watchEnded                   prometheus.Counter
}

func newMetrics(v *View, r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		transitions: counter("transitions_total", "Transitions handed to reactions."),
		watchEnded:  counter("watches_overrun_total", "Watches ended because the reader fell too far behind."),
	}
	expired := vec("deadlines_expired_total", "Deadlines that passed, by what was expected.", "expected")
	m.keepaliveExpired, m.ttlExpired = expired.WithLabelValues("keepalive"), expired.WithLabelValues("ttl")
	if r == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, value)
	}
	r.MustRegister(m.transitions, expired, m.watchEnded,
		gauge("states", "Event states held.", func() float64 { return float64(v.Counts(0).States) }),
		gauge("problems", "Open problems.", func() float64 { return float64(v.Counts(0).Problems) }),
	)
	return m
}
