package rules

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/source/remotewrite"
	"github.com/muster-fleet/muster/internal/wire"
)

// sampleAppendable writes the samples that Prometheus' rule engine records for one namespace to the journal. It
// implements storage.AppendableV2.
type sampleAppendable struct {
	engine    *Engine
	namespace string
}

// AppenderV2 returns a collector for the samples that one rule records.
func (a sampleAppendable) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return &sampleAppender{ctx: ctx, to: a}
}

// sampleAppender collects the samples that one rule records, until Commit writes the samples. Commit writes the
// samples to the journal.
type sampleAppender struct {
	ctx  context.Context
	to   sampleAppendable
	list []remotewrite.SeriesSample
}

// errHistogram is the error about a native histogram, which the series store does not keep.
var errHistogram = errors.New("the result is a native histogram: record numbers, such as histogram_quantile(…)")

// Append adds a recorded sample of a rule to the collected samples, without writing to the journal yet.
func (a *sampleAppender) Append(_ storage.SeriesRef, l labels.Labels, _, t int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram, _ storage.AppendV2Options) (storage.SeriesRef, error) {
	if h != nil || fh != nil {
		return 0, errHistogram
	}
	list := make([]wire.SeriesLabel, 0, l.Len())
	l.Range(func(l labels.Label) {
		if l.Name != labelNamespace { // each series of a rule has it, and JournalEntries sets it
			list = append(list, wire.SeriesLabel{Name: l.Name, Value: l.Value})
		}
	})
	a.list = append(a.list, remotewrite.SeriesSample{Labels: list, Sample: wire.Sample{Ms: t, Value: v}})
	return 0, nil
}

// Commit writes the rule's samples to the journal, and waits until the next rule can query the samples. The next rule
// can read them then.
func (a *sampleAppender) Commit() error {
	e := a.to.engine
	entries, refused := remotewrite.JournalEntries(a.to.namespace, a.list, e.opts.Now())
	if refused != nil {
		e.metrics.samples[refusedSample].Inc()
	}
	if len(entries) == 0 {
		return refused
	}
	if err := e.opts.RecordSamples(a.ctx, entries); err != nil {
		e.metrics.samples[lostSample].Add(float64(len(a.list)))
		return err
	}
	e.metrics.samples[writtenSample].Add(float64(len(a.list)))
	return refused
}

// Rollback discards the samples that the rule has recorded so far.
func (a *sampleAppender) Rollback() error { return nil }
