package metric

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Sender is the interface of a queue that sends stored numbers to another store, such as Prometheus. *remotesend.Queue
// implements it.
type Sender interface {
	// Position returns the last commit of a partition whose samples it has.
	Position(p model.Partition) journal.Position
	// Selects reports whether it sends samples of a series.
	Selects(l labels.Labels) bool
	// Append takes samples of a commit in a partition, last with the last ones. The commits of a partition come in order.
	Append(p model.Partition, at journal.Position, block *wire.SampleBlock, last bool)
}

// sendBuffer collects the samples of one commit in one partition for remote write.
type sendBuffer struct {
	on        bool // the Sender has none of the commit yet
	filled    bool
	sender    Sender
	partition model.Partition
	at        journal.Position // of the commit
	block     wire.SampleBlock
	labels    []wire.SeriesLabel
}

// sendBlock is the size in bytes of a block of samples that goes to the Sender at once. A smaller block waits for the
// end of the commit.
const sendBlock = 1 << 20

// prepareSamples checks in a replay whether the Sender (remote write) already has the samples of the commit. It runs
// before the commit is applied to a partition. A replay leaves out those that the Sender has.
func (w *metricApplier) prepareSamples() {
	x := &w.sending
	if x.sender, x.partition, x.at = w.view.opts.Sender, w.p.ID, w.Position; x.sender != nil {
		last := x.sender.Position(w.p.ID)
		x.on = last.Log != w.Position.Log || last.Number < w.Position.Number
	}
}

// addSample adds one sample to the buffer for remote write, if the Sender accepts the series.
func (x *sendBuffer) addSample(l labels.Labels, ms int64, value float64) {
	if !x.on || !x.sender.Selects(l) {
		return
	}
	x.labels = x.labels[:0]
	l.Range(func(l labels.Label) { x.labels = append(x.labels, wire.SeriesLabel{Name: l.Name, Value: l.Value}) })
	x.add(x.labels, []wire.Sample{{Ms: ms, Value: value}})
}

// add adds samples of a series to the buffer for remote write.
func (x *sendBuffer) add(l []wire.SeriesLabel, list []wire.Sample) {
	if x.block.Size() > sendBlock {
		x.sender.Append(x.partition, x.at, &x.block, false)
		x.block = wire.SampleBlock{}
	}
	x.block.Add(l, list)
	x.filled = true
}

// sendSamples passes the commit's samples of the partition to the Sender, for remote write.
func (w *metricApplier) sendSamples() {
	if x := &w.sending; x.filled {
		x.sender.Append(x.partition, x.at, &x.block, true)
		x.block, x.filled = wire.SampleBlock{}, false
	}
}
