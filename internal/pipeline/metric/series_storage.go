package metric

import (
	"cmp"
	"encoding/binary"
	"math"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/wire"
)

// SeriesOptions has the series store of a View, and the names for the labels of series.
type SeriesOptions struct {
	Store series.Store                                // nil: values are not stored
	Names func(model.NodeID) (node, namespace string) // for the labels of a new series
	Live  *View                                       // of a second view of the journal: that which stores the values
}

// sampleName has the name and labels of the series for a value to store.
type sampleName struct {
	unit     *templateState
	position int
	node     model.NodeID
}

// seriesLabels returns the labels of the series of an item, in memory that is reused.
func (w *metricApplier) seriesLabels() labels.Labels {
	node, namespace := w.view.opts.Series.Names(w.name.node)
	x := &w.samples
	x.builder.Reset()
	series.AddLabels(&x.builder, w.name.unit.Items[w.name.position].Key, node, namespace, w.name.unit.Name)
	x.builder.Overwrite(&x.labels)
	return x.labels
}

// storeSample adds a number to the series store, unless the store already contains the numbers of the commit.
func (w *metricApplier) storeSample(n uint32, u *templateState, position int, at int64, value item.Value) {
	if w.view.opts.Series.Store == nil || w.stored {
		return
	}
	f := value.Float()
	if math.IsNaN(f) {
		f = math.NaN() // PromQL takes one of the NaNs for the end of a series
	}
	w.name = sampleName{u, position, w.p.Node(n).ID}
	of := &u.slots[position].series
	if ms, ok := w.view.opts.Series.Store.Append(w.p.ID, of, w.labels, at, f); ok {
		w.sending.addSample(of.Labels(), ms, f)
	} else if of.IsRefused() {
		_, namespace := w.view.opts.Series.Names(w.name.node)
		w.view.refusals.add(namespace, w.name.node)
	}
}

// sampleDecoder decodes the samples of journal records into reused buffers.
type sampleDecoder struct {
	reader  wire.SampleReader
	builder labels.ScratchBuilder
	labels  labels.Labels
	stored  []wire.Sample // of a series
}

// storeSamples adds the samples in a journal record to the series store. They have no steps and no triggers.
func (w *metricApplier) storeSamples(r *wire.Samples) {
	store := w.view.opts.Series.Store
	if store == nil || w.stored {
		return
	}
	x := &w.samples
	err := x.reader.Reset(r.Block)
	for err == nil && x.reader.Next() {
		x.builder.Reset()
		for _, l := range x.reader.Labels {
			x.builder.Add(l.Name, l.Value)
		}
		x.builder.Overwrite(&x.labels)
		var of series.Series
		stored := x.stored[:0]
		for _, s := range x.reader.Samples {
			switch store.Insert(w.p.ID, &of, x.labels, s.Ms, s.Value) {
			case series.Stored:
				stored = append(stored, s)
			case series.NamespaceFull:
				w.view.refusals.add(strings.Clone(x.labels.Get(series.LabelNamespace)), 0)
			}
		}
		if x.stored = stored; len(stored) > 0 && w.sending.on && w.sending.sender.Selects(x.labels) {
			w.sending.add(x.reader.Labels, stored)
		}
		w.view.samples.Add(uint64(len(x.reader.Samples)))
	}
	if err = cmp.Or(err, x.reader.Err()); err != nil {
		w.Logger().Error("samples in the journal cannot be read and are left out", "commit", w.Position.Number, "error", err)
	}
}

// recordStoredCommit looks up whether a commit's values were stored earlier, and otherwise marks the values as
// stored. A replay then does not store the values twice.
func (w *metricApplier) recordStoredCommit() {
	w.stored = w.p.stored.Log == w.Position.Log && w.p.stored.Number >= w.Position.Number
	if !w.stored {
		w.p.stored = w.Position
	}
}

// Flush writes the full chunks of a partition to the files of the series store. A second view writes those of the live
// one.
func (v reducer) Flush(id model.Partition) {
	store := v.opts.Series.Store
	if live := v.opts.Series.Live; live != nil {
		store = live.opts.Series.Store
	}
	if store != nil {
		store.WriteChunks(id)
	}
}

// encodeSeries appends the newest series data of a partition to a snapshot, with the last stored commit. A second
// view, which stores nothing, writes the head of the live one: a start from its snapshot leaves out the values up to
// that commit.
func (v *View) encodeSeries(p *metricPartition, b []byte) []byte {
	if live := v.opts.Series.Live; live != nil {
		of := &live.partitions[p.ID]
		of.Lock()
		defer of.Unlock()
		return live.encodeSeries(of, b)
	}
	if v.opts.Series.Store == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	b = binary.LittleEndian.AppendUint64(b, p.stored.Log)
	b = binary.AppendUvarint(b, p.stored.Number)
	return v.opts.Series.Store.Encode(p.ID, b)
}

// decodeSeries reads the newest series data of a partition from a snapshot.
func (v *View) decodeSeries(p *metricPartition, d *shard.Decoder) {
	if d.Byte() == 0 {
		return
	}
	stored := journal.Position{Log: d.Fixed64(), Number: d.Uint()}
	if v.opts.Series.Store == nil {
		d.Skip()
		return
	}
	p.stored = stored
	v.opts.Series.Store.Decode(p.ID, d)
}
