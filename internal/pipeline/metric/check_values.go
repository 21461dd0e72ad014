package metric

import (
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/wire"
)

// keepCheckValues adds the numbers in a result of a check, and their thresholds, to the series store. They have no steps and no triggers.
func (w *metricApplier) keepCheckValues(n uint32, s *wire.Signal, from *shard.Arrival) {
	if w.result.Decode(s.Body) != nil || len(w.result.Extra) == 0 {
		return
	}
	executed := w.p.nodes[n].sendTime(w.Received, from) - from.Age(s.AtMs) // also without a store: it moves the sender's clock
	store := w.view.opts.Series.Store
	if store == nil || w.stored {
		return
	}
	check := w.Definition(s.Definition).AsCheck()
	extra, err := wire.DecodeExtra(w.result.Extra)
	if check == nil || err != nil {
		return
	}
	node, namespace := w.view.opts.Series.Names(w.p.Node(n).ID)
	x := &w.samples
	var perfdata perfdataReader
	perfdata.reset(check, w.result.Output)
	for i := range extra.Values {
		value := &extra.Values[i]
		ms := executed / 1e6
		if at := value.At.UnixMilli(); !value.At.IsZero() {
			ms = min(at, w.Received/1e6)
		}
		if slices.ContainsFunc(slices.Collect(maps.Values(value.Tags)), func(text string) bool { return len(text) > maxLabelValue }) {
			continue // remote stores refuse such a series
		}
		keepCheckValue(w, value, bound{value: value.Value}, check.Name, node, namespace, ms)
		x.findBounds(check, value, perfdata.next(value))
		for _, of := range x.bounds {
			keepCheckValue(w, value, of, check.Name, node, namespace, ms)
		}
	}
}

// keepCheckValue adds a number in a result of a check, or a bound of it, to the series store.
func keepCheckValue(w *metricApplier, value *model.Value, b bound, check, node, namespace string, ms int64) {
	x := &w.samples
	x.setLabels(value, b, check, node, namespace)
	var of series.Series
	if w.view.opts.Series.Store.Insert(w.p.ID, &of, x.labels, ms, b.value) {
		w.sending.addSample(x.labels, ms, b.value)
	}
	w.view.samples.Add(1)
}

// labelBound is the label of the end of a threshold: min or max.
const labelBound = "bound"

// maxLabelValue bounds the value of a label, in bytes.
const maxLabelValue = 2048

// setLabels sets the labels of the series of a number in results of a check, or of a bound of it. Tags of the number are labels, unless another label has the name.
func (x *sampleApplier) setLabels(value *model.Value, of bound, check, node, namespace string) {
	b := &x.builder
	b.Reset()
	b.Add(series.LabelMetric, series.MetricName(value.Name)+of.suffix)
	b.Add(series.LabelCheck, check)
	b.Add(series.LabelItem, value.Name)
	b.Add(series.LabelNode, node)
	b.Add(series.LabelNamespace, namespace)
	taken := []string{series.LabelMetric, series.LabelCheck, series.LabelItem, series.LabelNode, series.LabelNamespace, series.LabelTemplate}
	if of.label != "" {
		b.Add(labelBound, of.label)
		taken = append(taken, labelBound)
	}
	for _, tag := range slices.Sorted(maps.Keys(value.Tags)) {
		if name := strings.ReplaceAll(series.MetricName(tag), ":", "_"); value.Tags[tag] != "" && !slices.Contains(taken, name) {
			b.Add(name, value.Tags[tag])
			taken = append(taken, name)
		}
	}
	b.Sort()
	b.Overwrite(&x.labels)
}
