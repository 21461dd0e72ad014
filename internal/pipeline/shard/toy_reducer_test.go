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

// signalCounter is a whole reducer; ARCHITECTURE.md ("Add a reducer") explains its parts. It counts the signals of one kind
// per node, and reports a node that sent none for countTimeout.
type signalCounter struct {
	partitions [model.Partitions]countPartition
	silent     []model.NodeID // in the order of the journal, with one worker
}

// countPartition is guarded by the mutex of the shard's partition.
type countPartition struct {
	counts    []uint64       // by the shard's index of the node
	deadlines *expect.Engine // by the same
}

const (
	countSignal  = wire.SignalValueBlock
	countTimeout = time.Minute
)

func (c *signalCounter) Section() Section { return Section{Name: "counts", Version: 1} }
func (c *signalCounter) Claims() Claims   { return Claims{Signals: []wire.SignalKind{countSignal}} }

func (c *signalCounter) Reset(p *Partition, deadlines *expect.Engine) {
	c.partitions[p.ID] = countPartition{deadlines: deadlines}
}

func (c *signalCounter) AddNode(p *Partition, n uint32) {
	if of := &c.partitions[p.ID]; int(n) == len(of.counts) {
		of.counts = append(of.counts, 0)
	}
}

func (c *signalCounter) RemoveNode(p *Partition, n uint32) {
	c.partitions[p.ID].counts[n] = 0
	c.partitions[p.ID].deadlines.Clear(n)
}

func (c *signalCounter) MoveNode(*Partition, uint32, model.NamespaceID) {}

func (c *signalCounter) Encode(p *Partition, dst []byte) []byte {
	of := &c.partitions[p.ID]
	for _, n := range p.Order() {
		dst = binary.AppendUvarint(dst, of.counts[n])
		dst = binary.AppendVarint(dst, of.deadlines.Due(n))
	}
	return dst
}

func (c *signalCounter) Decode(p *Partition, d *Decoder) {
	of := &c.partitions[p.ID]
	for _, n := range p.Order() {
		of.counts[n] = d.Uint()
		if due := d.Int(); due > 0 {
			of.deadlines.Set(n, due)
		}
	}
}

func (c *signalCounter) NewApplier(w *Worker) Applier { return &countWorker{Worker: w, counter: c} }

type countWorker struct {
	*Worker
	counter *signalCounter
	p       *Partition
	of      *countPartition
}

func (w *countWorker) EnterPartition(p *Partition) { w.p, w.of = p, &w.counter.partitions[p.ID] }

func (w *countWorker) Signal(n uint32, _ *wire.Signal, _ *Arrival) Outcome {
	w.of.counts[n]++
	w.of.deadlines.Set(n, w.Listening+int64(countTimeout))
	return Applied
}

func (w *countWorker) Record(*wire.Record)                                 {}
func (w *countWorker) Gap(uint32, *wire.Gap)                               {}
func (w *countWorker) Forget(_ model.NodeID, _ uint32, _ *wire.ForgetMark) {}
func (w *countWorker) Life(uint32, LifeChange)                             {}
func (w *countWorker) EndCommit()                                          {}
func (w *countWorker) Period(uint32) int64                                 { return int64(countTimeout) }
func (w *countWorker) Expire(ids []uint32) {
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(w.p.Node(a).ID, w.p.Node(b).ID) })
	for _, n := range ids {
		if until, why := w.Postpone(w.p, n); until > 0 {
			w.of.deadlines.Set(n, until)
		} else if why == NotPostponed {
			w.counter.silent = append(w.counter.silent, w.p.Node(n).ID)
		}
	}
}
