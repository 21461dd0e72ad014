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

// Options has the settings of a View (the state of all events). Zero fields get the defaults named beside them.
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

// View computes the state of all events from the journal, on a shard. Any goroutine may call its methods and the
// shard's.
type View struct {
	*shard.Shard
	opts        Options
	metrics     *metrics
	partitions  [model.Partitions]*eventPartition
	totals      stateTotals
	watchers    watcherSet
	sparseLimit int // default sparseCandidates; tests lower the limit to test both methods of listing
}

// New returns an empty View (the state of all events) on a shard
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

// eventReducer applies journal entries to the events of a View. It implements shard.Reducer.
type eventReducer struct{ *View }

// SectionVersion is the version of the event view's section in snapshots.
const SectionVersion = 2

// Section returns the name and version of the snapshot section that has the event states.
func (eventReducer) Section() shard.Section {
	return shard.Section{Name: "events", Version: SectionVersion}
}

// Claims lists the kinds of journal entries that change events. They are results and reports of agents, results of the
// server, verdicts of triggers and actions of people.
func (eventReducer) Claims() shard.Claims {
	return shard.Claims{
		Signals: []wire.SignalKind{wire.SignalResult, wire.SignalReport},
		Records: []wire.RecordKind{wire.RecordServerResult, wire.RecordVerdict, wire.RecordAction},
	}
}

// Reset removes all event states of one partition (a share of the nodes) from memory. A snapshot of the
// partition is restored next.
func (v eventReducer) Reset(p *shard.Partition, deadlines *expect.Engine) {
	if v.partitions[p.ID] == nil {
		v.partitions[p.ID] = new(eventPartition)
	}
	v.partitions[p.ID].resetPartition(v.View, p, deadlines)
}

// AddNode allocates the memory slots for a new node's events in its partition (a share of all nodes).
func (v eventReducer) AddNode(p *shard.Partition, n uint32) { v.partitions[p.ID].addNode(n) }

// RemoveNode removes all event states of a node from the partition.
func (v eventReducer) RemoveNode(p *shard.Partition, n uint32) { v.partitions[p.ID].removeNode(n) }

// MoveNode subtracts a node's event states from the counts of the old namespace, and adds to the new.
func (v eventReducer) MoveNode(p *shard.Partition, n uint32, from model.NamespaceID) {
	v.partitions[p.ID].moveNode(n, from)
}

// Encode encodes the events of a partition and appends the bytes to a snapshot
func (v eventReducer) Encode(p *shard.Partition, dst []byte) []byte {
	return v.partitions[p.ID].encode(dst)
}

// Decode decodes the events of a partition from a snapshot
func (v eventReducer) Decode(p *shard.Partition, d *shard.Decoder) { v.partitions[p.ID].decode(d) }

// NewApplier returns the eventApplier of one worker goroutine
func (v eventReducer) NewApplier(w *shard.Worker) shard.Applier { return newEventApplier(v.View, w) }

// partitionOf returns the partition of a node, or nil if the node is unknown.
func (v *View) partitionOf(node model.NodeID) *eventPartition {
	if p := v.PartitionOf(node); p != nil {
		return v.partitions[p.ID]
	}
	return nil
}

// eventApplier applies journal commits to the events of a partition. Each worker goroutine of the shard has one. The
// shard calls its exported methods (shard.Applier), with the mutex of p held.
type eventApplier struct {
	*shard.Worker
	view      *View
	calendars map[model.DefinitionID]window.Set // parsed CheckDefinition.Except by definition, for remainingTTL

	p                   *eventPartition // being applied
	transitionIndex     uint32          // of the next transition in it
	observationIndex    uint32          // of the next Observed transition in it
	transitionsRecorded bool            // reactions recorded its transitions before

	transitions []Transition // of the commit
	body        wire.Result  // of the signal being applied
	text        []byte       // reused for every output that the view writes
}

// newEventApplier returns the eventApplier of one worker goroutine
func newEventApplier(v *View, w *shard.Worker) *eventApplier {
	return &eventApplier{Worker: w, view: v}
}

// EnterPartition tells the applier to which partition (share of the nodes) the next entries of a commit belong.
func (w *eventApplier) EnterPartition(p *shard.Partition) {
	w.p, w.transitionIndex, w.observationIndex = w.view.partitions[p.ID], 0, 0
	order, same := w.Position.Compare(w.view.opts.EmitAfter)
	w.transitionsRecorded = w.view.opts.Emit == nil || same && order <= 0
}

// ApplySignal applies one result or report of an agent to the events of its node.
func (w *eventApplier) ApplySignal(n uint32, s *wire.Signal, from *shard.SignalOrigin) shard.Outcome {
	if s.Kind == wire.SignalReport {
		return w.applyReport(w.p, n, s, from)
	}
	return w.applyResult(w.p, n, s, from)
}

// ApplyRecord applies a result of the server, a trigger's changed state or an action of a person
func (w *eventApplier) ApplyRecord(r *wire.Record) {
	switch r.Kind {
	case wire.RecordServerResult:
		w.Count(w.applyServerResult(w.p, r.Node, r.ServerResult), 1)
	case wire.RecordVerdict:
		w.Count(w.applyVerdict(w.p, r.Node, r.Verdict), 1)
	case wire.RecordAction:
		w.applyAction(w.p, r.Node, r.Action)
	}
}

// EndCommit passes the event changes of the commit to the dispatcher and other receivers
func (w *eventApplier) EndCommit() {
	if len(w.transitions) > 0 {
		w.view.metrics.transitions.Add(float64(len(w.transitions)))
		w.view.opts.Emit(w.transitions)
		clear(w.transitions)
		w.transitions = w.transitions[:0]
	}
}

// checkOfDefinition returns the compiled check with a given id, or nil if the id means no check. It is nil if
// the id is unknown or belongs to another kind of definition.
func (w *eventApplier) checkOfDefinition(id model.DefinitionID) *model.CheckDefinition {
	return w.Definition(id).AsCheck()
}

// metrics holds the metrics of event states and transitions. Workers count in plain fields and add once per commit.
type metrics struct {
	transitions                  prometheus.Counter
	keepaliveExpired, ttlExpired prometheus.Counter
	watchEnded                   prometheus.Counter
}

// newMetrics registers the metrics of event states and transitions.
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
