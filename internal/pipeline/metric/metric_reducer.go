package metric

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/textlog"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options has the settings of a View (the state of all items and triggers).
type Options struct {
	Definitions func(model.DefinitionID) *model.Definition // returns a definition by its id; nil: unknown
	Registerer  prometheus.Registerer                      // nil: no metrics
	Series      SeriesOptions
	Texts       *textlog.Store // nil: texts are not stored
	Sender      Sender         // nil: stored numbers are not sent to another store
	// Charge gets the time that the values of a node took while further commits waited. Any worker calls it. Nil: no node is charged.
	Charge func(model.NodeID, time.Duration)
}

// View computes the state of all items and triggers from the journal. Any goroutine may call its methods.
type View struct {
	shard      *shard.Shard
	opts       Options
	partitions [model.Partitions]metricPartition
	forms      templateCache
	costs      costTables
	refusals   seriesRefusals
	wake       chan struct{} // capacity 1: there are new verdicts
	deferred   chan struct{} // capacity 1: there are new deferred values

	scriptSteps int              // of scripts that a commit runs on new values of a partition
	now         func() time.Time // measures script steps of deferred values

	values, unsupported, recorded, samples atomic.Uint64
	discoveries                            atomic.Uint64 // changes of discovered items
}

// New returns an empty metric view and registers the view as a reducer of a shard
func New(s *shard.Shard, o Options) *View {
	v := &View{shard: s, opts: o, wake: make(chan struct{}, 1), deferred: make(chan struct{}, 1), scriptSteps: scriptSteps, now: time.Now}
	s.Add(reducer{v})
	if o.Registerer != nil {
		counter := func(name, help string, value *atomic.Uint64) prometheus.Collector {
			return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "muster", Subsystem: "metric", Name: name, Help: help},
				func() float64 { return float64(value.Load()) })
		}
		o.Registerer.MustRegister(
			counter("values_total", "Raw values of items applied.", &v.values),
			counter("unsupported_total", "Values that a collector or a step refused.", &v.unsupported),
			counter("samples_total", "Samples of a Prometheus, of rules and of results of checks, applied.", &v.samples),
			counter("verdicts_total", "Changes of triggers written to the journal.", &v.recorded),
			counter("template_compiles_total", "Templates compiled, for a set of macros and discovered entities.", &v.forms.compiles),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "metric", Name: "templates", Help: "Compiled Templates in memory."},
				func() float64 { return float64(v.forms.count()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "metric", Name: "deferred_nodes", Help: "Nodes with values that wait for their turn, because of slow scripts."},
				func() float64 { return float64(len(v.deferredNodes(0, 1))) }),
		)
	}
	return v
}

// wakeWriter wakes the goroutine that writes trigger changes (View.Run).
func (v *View) wakeWriter() { pause.Wake(v.wake) }

// reducer applies journal entries to the items and triggers of a View. It implements shard.Reducer.
type reducer struct{ *View }

// SectionVersion is the version of the metric view's section in snapshots.
const SectionVersion = 3

// Section returns the name and version of the view's part of a snapshot, with items and triggers.
func (reducer) Section() shard.Section {
	return shard.Section{Name: "metrics", Version: SectionVersion}
}

// Claims lists the kinds of journal entries that change items and triggers. They are blocks of measured values,
// samples of a Prometheus, recorded verdicts, limits of discovered items, marks that go on with deferred values, and the results of checks, whose numbers are
// stored.
func (reducer) Claims() shard.Claims {
	return shard.Claims{Signals: []wire.SignalKind{wire.SignalValueBlock}, Copies: []wire.SignalKind{wire.SignalResult}, Records: []wire.RecordKind{wire.RecordVerdict, wire.RecordSamples, wire.RecordDiscovery, wire.RecordResume}}
}

// Reset removes all items and triggers of one partition (a share of the nodes) from memory. A snapshot of the
// partition is restored next.
func (v reducer) Reset(p *shard.Partition, deadlines *expect.Engine) {
	v.partitions[p.ID] = metricPartition{Partition: p, deadlines: deadlines}
}

// AddNode allocates the memory for a new node's items in its partition (a share of all nodes).
func (v reducer) AddNode(p *shard.Partition, n uint32) {
	if of := &v.partitions[p.ID]; int(n) == len(of.nodes) {
		of.nodes = append(of.nodes, nodeState{})
	}
}

// RemoveNode removes all items and triggers of a node from the partition.
func (v reducer) RemoveNode(p *shard.Partition, n uint32) {
	v.partitions[p.ID].nodes[n] = nodeState{}
	v.partitions[p.ID].deleteRejected(n, 0)
	v.partitions[p.ID].deferred.drop(n, func(*deferredValues) bool { return true })
	delete(v.partitions[p.ID].deferred.stepTimes, n)
	v.discoveries.Add(1)
	v.partitions[p.ID].deadlines.Clear(n)
}

// MoveNode counts a node's discovered items for the new namespace of the node.
func (v reducer) MoveNode(*shard.Partition, uint32, model.NamespaceID) { v.discoveries.Add(1) }

// Encode encodes the items and triggers of a partition, and appends the bytes to a snapshot
func (v reducer) Encode(p *shard.Partition, dst []byte) []byte {
	return v.encodeSeries(&v.partitions[p.ID], v.partitions[p.ID].encode(dst))
}

// Decode reads the items and triggers of a partition from a snapshot
func (v reducer) Decode(p *shard.Partition, d *shard.Decoder) {
	v.partitions[p.ID].decode(v.View, d)
	v.decodeSeries(&v.partitions[p.ID], d)
}

// NewApplier returns the metricApplier of one worker goroutine
func (v reducer) NewApplier(w *shard.Worker) shard.Applier {
	a := &metricApplier{Worker: w, view: v.View, charge: nodeTimer{charge: v.opts.Charge, node: shard.NoNode}, costs: v.costs.newTable(&v.View.values)}
	a.labels = a.seriesLabels
	return a
}
