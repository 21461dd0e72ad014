// Package metrics exports the counts of packages that are also linked into the agent
// (journal, queues): they do not import Prometheus, which would make the agent
// 1.6 MB larger. Every other package registers its own metrics.
//
// No goroutines; Queues has a lock for the labels that it keeps. Values are read at each scrape. Start reading at journal_and_queue_metrics.go.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/queue"
)

// Journal exports the metrics of one journal (an append-only log) to Prometheus.
type Journal struct {
	reg                              prometheus.Registerer
	labels                           prometheus.Labels
	latency, entries, signals, bytes prometheus.Histogram
	entryBytes, signalBytes          prometheus.Histogram
}

// NewJournal registers the metrics of a journal (append-only log) that is not open yet. Later, pass its Committed to
// journal.Options and call Open.
func NewJournal(reg prometheus.Registerer, name string) *Journal {
	j := &Journal{reg: reg, labels: prometheus.Labels{"log": name}}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muster_journal_" + name, Help: help, ConstLabels: j.labels, Buckets: buckets,
		})
		reg.MustRegister(h)
		return h
	}
	j.latency = histogram("commit_seconds", "Seconds from the receipt of a batch to its sync on disk.", prometheus.ExponentialBuckets(50e-6, 2, 20))
	j.entries = histogram("commit_entries", "Number of records (frames of signals and others) in one commit.", prometheus.ExponentialBuckets(1, 2, 15))
	j.signals = histogram("commit_signals", "Number of signals (results and heartbeats of agents) in one commit with signals.", prometheus.ExponentialBuckets(1, 2, 20))
	j.bytes = histogram("commit_bytes", "Bytes of one commit on disk.", prometheus.ExponentialBuckets(64, 2, 16))
	j.entryBytes = histogram("entry_bytes", "Mean bytes on disk per record of one commit.", prometheus.ExponentialBuckets(8, 2, 16))
	j.signalBytes = histogram("signal_bytes", "Mean bytes on disk per signal of one commit with signals.", prometheus.ExponentialBuckets(4, 2, 16))
	return j
}

// Committed adds the size and duration of a journal commit to the histograms.
func (j *Journal) Committed(c journal.CommitStats) {
	j.latency.Observe(c.Duration.Seconds())
	j.entries.Observe(float64(c.Entries))
	j.bytes.Observe(float64(c.Bytes))
	if c.Entries > 0 {
		j.entryBytes.Observe(float64(c.Bytes) / float64(c.Entries))
	}
	if c.Signals > 0 {
		j.signals.Observe(float64(c.Signals))
		j.signalBytes.Observe(float64(c.Bytes) / float64(c.Signals))
	}
}

// RegisterStats registers the metrics that read the statistics of an opened journal. They are read at each scrape.
func (j *Journal) RegisterStats(log journal.Journal) {
	counter := func(name, help string, of func(journal.Stats) uint64) {
		j.reg.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "muster_journal_" + name, Help: help, ConstLabels: j.labels},
			func() float64 { return float64(of(log.Stats())) }))
	}
	gauge := func(name, help string, of func(journal.Stats) int64) {
		j.reg.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "muster_journal_" + name, Help: help, ConstLabels: j.labels},
			func() float64 { return float64(of(log.Stats())) }))
	}
	counter("written_bytes_total", "Bytes of commits written to disk.", func(s journal.Stats) uint64 { return s.WrittenBytes })
	counter("raw_bytes_total", "Bytes of records before compression.", func(s journal.Stats) uint64 { return s.RawBytes })
	counter("syncs_total", "Number of calls of fdatasync for commits.", func(s journal.Stats) uint64 { return s.Syncs })
	counter("torn_commits_total", "Number of incomplete last commits that were truncated when the journal was opened.", func(s journal.Stats) uint64 { return s.TornCommits })
	gauge("size_bytes", "Bytes of the journal on disk.", func(s journal.Stats) int64 { return s.SizeBytes })
	gauge("budget_bytes", "Maximum bytes of the journal on disk.", func(s journal.Stats) int64 { return s.BudgetBytes })
	gauge("queued_bytes", "Bytes of records that wait for a commit.", func(s journal.Stats) int64 { return s.QueuedBytes })
	gauge("blocked", "1 while the disk refuses commits.", func(s journal.Stats) int64 {
		if s.Blocked != nil {
			return 1
		}
		return 0
	})
}

// Queues exports depth, capacity and overflow of all queues to Prometheus.
type Queues struct {
	Of *queue.Registry

	mu     sync.Mutex
	labels map[queueLabels][]*dto.LabelPair // a page has all queues, so their labels are made once
}

// queueLabels identifies one metric of one queue, as key of a map of Prometheus labels.
type queueLabels struct {
	desc *prometheus.Desc
	name string
}

// queueMetric is one value, such as the depth of a queue, on the Prometheus metrics page.
type queueMetric struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair
	counter bool // else a gauge
	value   float64
}

// Desc returns the Prometheus description of the queue metric.
func (m *queueMetric) Desc() *prometheus.Desc { return m.desc }

// Write copies labels and value of a queue metric into a Prometheus message for the metrics page.
func (m *queueMetric) Write(out *dto.Metric) error {
	out.Label = m.labels
	if m.counter {
		out.Counter = &dto.Counter{Value: &m.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &m.value}
	}
	return nil
}

var (
	depthDesc    = prometheus.NewDesc("muster_queue_depth", "Depth of the queue.", []string{"queue", "unit"}, nil)
	capacityDesc = prometheus.NewDesc("muster_queue_capacity", "Capacity of the queue.", []string{"queue", "unit"}, nil)
	passedDesc   = prometheus.NewDesc("muster_queue_passed_total", "Total accepted by the queue since the start.", []string{"queue"}, nil)
	overflowDesc = prometheus.NewDesc("muster_queue_overflow_total", "Number of items that met a full queue, by outcome.", []string{"queue", "policy"}, nil)
)

// Describe sends the descriptions of all queue metrics to Prometheus.
func (q *Queues) Describe(ch chan<- *prometheus.Desc) {
	ch <- depthDesc
	ch <- capacityDesc
	ch <- passedDesc
	ch <- overflowDesc
}

// Collect sends the current metrics of all queues to Prometheus.
func (q *Queues) Collect(ch chan<- prometheus.Metric) {
	q.mu.Lock()
	defer q.mu.Unlock()
	send := func(desc *prometheus.Desc, counter bool, value float64, values ...string) {
		key := queueLabels{desc, values[0]}
		labels, known := q.labels[key]
		if !known {
			labels = prometheus.MakeLabelPairs(desc, values)
			q.labels[key] = labels
		}
		ch <- &queueMetric{desc, labels, counter, value}
	}
	if q.labels == nil {
		q.labels = map[queueLabels][]*dto.LabelPair{}
	}
	for _, i := range q.Of.List() {
		send(depthDesc, false, float64(i.Depth), i.Name, i.Unit)
		send(capacityDesc, false, float64(i.Capacity), i.Name, i.Unit)
		send(passedDesc, true, float64(i.Passed), i.Name)
		send(overflowDesc, true, float64(i.Overflow), i.Name, string(i.Policy))
	}
}

// Consumers exports to Prometheus how far each reader of a journal (consumer) is behind. The largest value names the
// consumer that keeps the journal from being cut.
type Consumers struct {
	List *journal.Consumers
	// Lag returns the bytes of the journal after a position.
	Lag func(journal.Position) int64
}

var behindDesc = prometheus.NewDesc("muster_journal_consumer_behind_bytes",
	"Approximate number of bytes of the journal that a consumer still needs.", []string{"consumer"}, nil)

// Describe sends the descriptions of all metrics about journal readers to Prometheus.
func (c Consumers) Describe(ch chan<- *prometheus.Desc) { ch <- behindDesc }

// Collect sends the metrics of all readers of the journal (consumers) to Prometheus.
func (c Consumers) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c.List.List() {
		ch <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, float64(c.Lag(one.At)), one.Name)
	}
}
