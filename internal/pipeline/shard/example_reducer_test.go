package shard

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// signalCounter is a small complete reducer, which ARCHITECTURE.md ("Add a reducer") explains as an example. It
// counts the signals of one kind per node, and reports a node that sent none for countTimeout.
type signalCounter struct {
	partitions [model.Partitions]partitionCounts
	silent     []model.NodeID // in the order of the journal, with one worker
}

// partitionCounts has the number of value blocks of each node in one partition. The partition's mutex guards the
// counts.
type partitionCounts struct {
	counts    []uint64       // by the shard's index of the node
	deadlines *expect.Engine // by the same
}

const (
	countSignal  = wire.SignalValueBlock
	countTimeout = time.Minute
)

// Section returns the name and version of the example reducer's part of a snapshot
func (c *signalCounter) Section() Section { return Section{Name: "counts", Version: 1} }

// Claims returns the one kind of signal that the example reducer counts.
func (c *signalCounter) Claims() Claims { return Claims{Signals: []wire.SignalKind{countSignal}} }

// Reset removes the signal counts of one partition (a share of the nodes) from memory. A snapshot of the
// partition is restored next.
func (c *signalCounter) Reset(p *Partition, deadlines *expect.Engine) {
	c.partitions[p.ID] = partitionCounts{deadlines: deadlines}
}

// AddNode adds a signal count of zero for a new node.
func (c *signalCounter) AddNode(p *Partition, n uint32) {
	if of := &c.partitions[p.ID]; int(n) == len(of.counts) {
		of.counts = append(of.counts, 0)
	}
}

// RemoveNode clears the signal count and the deadline of a node
func (c *signalCounter) RemoveNode(p *Partition, n uint32) {
	c.partitions[p.ID].counts[n] = 0
	c.partitions[p.ID].deadlines.Clear(n)
}

// MoveNode does nothing, because the counts do not depend on the namespace.
func (c *signalCounter) MoveNode(*Partition, uint32, model.NamespaceID) {}

// Encode appends the signal counts and deadlines of a partition's nodes to a snapshot.
func (c *signalCounter) Encode(p *Partition, dst []byte) []byte {
	of := &c.partitions[p.ID]
	for _, n := range p.SortedNodes() {
		dst = binary.AppendUvarint(dst, of.counts[n])
		dst = binary.AppendVarint(dst, of.deadlines.Due(n))
	}
	return dst
}

// Decode reads the signal counts and deadlines of a partition's nodes from a snapshot.
func (c *signalCounter) Decode(p *Partition, d *Decoder) {
	of := &c.partitions[p.ID]
	for _, n := range p.SortedNodes() {
		of.counts[n] = d.Uint()
		if due := d.Int(); due > 0 {
			of.deadlines.Set(n, due)
		}
	}
}

// NewApplier returns a counter of received signals for one worker goroutine. A signal is a result or another numbered
// message.
func (c *signalCounter) NewApplier(w *Worker) Applier { return &counterApplier{Worker: w, counter: c} }

// counterApplier applies journal entries to the signal counts of the example reducer. It implements Applier.
type counterApplier struct {
	*Worker
	counter *signalCounter
	p       *Partition
	of      *partitionCounts
}

// EnterPartition tells the applier to which partition (share of the nodes) the next signals belong.
func (w *counterApplier) EnterPartition(p *Partition) { w.p, w.of = p, &w.counter.partitions[p.ID] }

// ApplySignal counts a signal of a node and restarts the node's deadline.
func (w *counterApplier) ApplySignal(n uint32, _ *wire.Signal, _ *SignalOrigin) Outcome {
	w.of.counts[n]++
	w.of.deadlines.Set(n, w.Listening+int64(countTimeout))
	return Applied
}

// ApplyRecord does nothing, because the example reducer counts signals only.
func (w *counterApplier) ApplyRecord(*wire.Record) {}

// ApplyLoss does nothing, because the example reducer counts only signals that arrived.
func (w *counterApplier) ApplyLoss(uint32, *wire.Gap) {}

// RemoveStates does nothing, because RemoveNode already clears the counts of removed nodes.
func (w *counterApplier) RemoveStates(_ model.NodeID, _ uint32, _ *wire.ForgetRecord) {}

// ApplyLivenessChange does nothing, because the counts do not depend on a node's connection.
func (w *counterApplier) ApplyLivenessChange(uint32, LivenessChange) {}

// EndCommit does nothing at the end of a commit, because the example reducer has no output.
func (w *counterApplier) EndCommit() {}

// DeadlinePeriod returns for how many nanoseconds a node may send nothing before the example reducer reports
// the node.
func (w *counterApplier) DeadlinePeriod(uint32) int64 { return int64(countTimeout) }

// Expire records a node as silent after its deadline, or postpones the deadline.
func (w *counterApplier) Expire(ids []uint32) {
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(w.p.Node(a).ID, w.p.Node(b).ID) })
	for _, n := range ids {
		if until, why := w.Postpone(w.p, n); until > 0 {
			w.of.deadlines.Set(n, until)
		} else if why == NotPostponed {
			w.counter.silent = append(w.counter.silent, w.p.Node(n).ID)
		}
	}
}
