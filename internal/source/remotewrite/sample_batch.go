package remotewrite

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Names of labels with a meaning here.
const (
	labelMetric    = "__name__"
	labelNamespace = "namespace"
	labelExported  = "exported_namespace" // the label namespace that the sender gave
)

// blockBytes limits the size of the samples of one record, beside its last series.
const blockBytes = 256 << 10

// sampleBatch collects the accepted samples of one request, separately for each partition of the journal.
type sampleBatch struct {
	namespace string
	limits    *Limits
	oldest    int64 // allowed time, Unix ms
	newest    int64

	sections [model.Partitions]*wire.SampleBlock
	entries  []journal.Entry
	kept     int
	refused  [outcomes]int
	reason   string // of the first refusal

	idle  []*wire.SampleBlock // empty
	block []byte              // memory of finish
}

// reset empties the batch for the samples of another request.
func (b *sampleBatch) reset(namespace string, limits *Limits, now time.Time) {
	*b = sampleBatch{
		namespace: namespace, limits: limits, oldest: now.Add(-limits.Age).UnixMilli(), newest: now.Add(limits.MaxAhead).UnixMilli(),
		entries: b.entries[:0], idle: b.idle, block: b.block,
	}
}

// SeriesSample is one sample of a series that the server itself computed, with the series' labels.
type SeriesSample struct {
	Labels []wire.SeriesLabel
	wire.Sample
}

// JournalEntries returns the records of samples that the server itself computed, such as the results of recording rules. The
// error is about the first refused sample. It changes the labels.
func JournalEntries(namespace string, list []SeriesSample, now time.Time) ([]journal.Entry, error) {
	var limits Limits
	limits.setDefaults()
	var b sampleBatch
	b.reset(namespace, &limits, now)
	for i := range list {
		b.add(list[i].Labels, []wire.Sample{list[i].Sample})
	}
	b.finishAll()
	if b.reason != "" {
		return b.entries, model.Errorf(model.Invalid, "refused %d of %d samples: %s", len(list)-b.kept, len(list), b.reason)
	}
	return b.entries, nil
}

// refuse counts samples as refused for a reason, and keeps the first reason for the answer.
func (b *sampleBatch) refuse(out outcome, n int, reason string) {
	if b.refused[out] += n; b.reason == "" {
		b.reason = reason
	}
}

// add adds the samples of a series to the batch, or refuses the series. It changes labels. ok is false if the labels
// are refused.
func (b *sampleBatch) add(labels []wire.SeriesLabel, samples []wire.Sample) (ok bool) {
	labels = setNamespace(labels, b.namespace)
	if reason := b.labelError(labels); reason != "" {
		b.refuse(badLabels, len(samples), reason)
		return false
	}
	b.addTimely(sectionOf(labels), labels, samples)
	return true
}

// addTimely adds a series' samples to the batch, but refuses samples with too old or future times. Others are
// too old or too far ahead. The labels are those under which the server stores the series.
func (b *sampleBatch) addTimely(section int, labels []wire.SeriesLabel, samples []wire.Sample) {
	timely := samples[:0]
	for _, s := range samples {
		switch {
		case s.Ms > b.newest:
			b.refuse(future, 1, "a sample is more than 10 minutes ahead of the server's clock: "+metricName(labels))
		case s.Ms < b.oldest:
			b.refuse(tooOld, 1, "a sample is older than 24 hours: "+metricName(labels))
		default:
			timely = append(timely, s)
		}
	}
	if len(timely) == 0 {
		return
	}
	block := b.sections[section]
	if block == nil {
		block = b.emptyBlock()
		b.sections[section] = block
	}
	block.Add(labels, timely)
	if b.kept += len(timely); block.Size() >= blockBytes {
		b.finish(section)
	}
}

// emptyBlock returns an empty block of samples, and reuses the memory of an earlier request if possible.
func (b *sampleBatch) emptyBlock() *wire.SampleBlock {
	if n := len(b.idle); n > 0 {
		block := b.idle[n-1]
		b.idle = b.idle[:n-1]
		return block
	}
	return new(wire.SampleBlock)
}

// finish converts the collected samples of one journal partition to a journal entry.
func (b *sampleBatch) finish(section int) {
	block := b.sections[section]
	b.block = block.Append(b.block[:0])
	n := len(b.entries)
	b.entries = slices.Grow(b.entries, 1)[:n+1]
	b.entries[n] = journal.Entry{Section: journal.Section(section), Data: wire.AppendRecord(b.entries[n].Data[:0], &wire.Record{
		Kind: wire.RecordSamples, Samples: &wire.Samples{Block: b.block},
	})}
	b.sections[section] = nil
	block.Reset()
	b.idle = append(b.idle, block)
}

// finishAll converts the collected samples to journal entries, one for each journal partition with samples.
func (b *sampleBatch) finishAll() {
	for section, block := range b.sections {
		if block != nil {
			b.finish(section)
		}
	}
}

// setNamespace sorts the labels of a series, and adds a label with the namespace's name as value. If the sender
// gave a label of that name, it is renamed. Labels without a value are left out, as in Prometheus.
func setNamespace(labels []wire.SeriesLabel, namespace string) []wire.SeriesLabel {
	labels = slices.DeleteFunc(labels, func(l wire.SeriesLabel) bool { return l.Value == "" })
	for i := range labels {
		if labels[i].Name == labelNamespace {
			labels[i].Name = labelExported
		}
	}
	labels = append(labels, wire.SeriesLabel{Name: labelNamespace, Value: namespace})
	slices.SortFunc(labels, func(x, y wire.SeriesLabel) int { return strings.Compare(x.Name, y.Name) })
	return labels
}

// labelError returns the reason to refuse a series because of its labels, or an empty text. The labels are sorted.
func (b *sampleBatch) labelError(labels []wire.SeriesLabel) string {
	if len(labels) > b.limits.Labels {
		return "a series has too many labels: " + metricName(labels)
	}
	size := 0
	for i, l := range labels {
		size += len(l.Name) + len(l.Value)
		switch {
		case l.Name == "" || !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value):
			return "a label has no name or is not UTF-8: " + metricName(labels)
		case len(l.Name) > b.limits.LabelBytes || len(l.Value) > b.limits.LabelBytes:
			return "label " + model.Truncate(l.Name, 100) + " is too long: " + metricName(labels)
		case i > 0 && labels[i-1].Name == l.Name:
			return "a series has the label " + model.Truncate(l.Name, 100) + " twice: " + metricName(labels)
		}
	}
	if size > b.limits.SeriesBytes {
		return "the labels of a series are too long: " + metricName(labels)
	}
	if valueOfLabel(labels, labelMetric) == "" {
		return "a series has no label __name__"
	}
	return ""
}

// metricName returns the metric name from the labels of a series, shortened for error messages.
func metricName(labels []wire.SeriesLabel) string {
	return model.Truncate(strings.ToValidUTF8(cmp.Or(valueOfLabel(labels, labelMetric), "(no name)"), "\uFFFD"), 200)
}

// valueOfLabel returns the value of a series' label, or an empty text for a missing label.
func valueOfLabel(labels []wire.SeriesLabel, name string) string {
	for _, l := range labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// sectionOf returns the journal partition that stores a series, by a stable hash of labels. All series of one
// Prometheus target have the same section.
func sectionOf(labels []wire.SeriesLabel) int {
	var h xxhash.Digest
	h.Reset()
	write := func(l *wire.SeriesLabel) {
		_, _ = h.WriteString(l.Name)
		_, _ = h.WriteString("\xff")
		_, _ = h.WriteString(l.Value)
		_, _ = h.WriteString("\xff")
	}
	target := false
	for i := range labels {
		if l := &labels[i]; l.Name == "job" || l.Name == "instance" {
			target = true
			write(l)
		}
	}
	for i := range labels {
		if l := &labels[i]; !target || l.Name == labelNamespace {
			write(l)
		}
	}
	return int(h.Sum64() % model.Partitions)
}
