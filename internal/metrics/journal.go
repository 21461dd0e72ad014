package journal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of one log. A nil *Metrics counts nothing.
type Metrics struct {
	latency    prometheus.Histogram
	entries    prometheus.Histogram
	bytes      prometheus.Histogram
	entryBytes prometheus.Histogram
	written    prometheus.Counter
	raw        prometheus.Counter
	syncs      prometheus.Counter
	torn       prometheus.Counter
	size       prometheus.Gauge
	budget     prometheus.Gauge
	queued     prometheus.Gauge
	blocked    prometheus.Gauge
}

// NewMetrics registers the metrics of the log called name: "journal", "spool".
func NewMetrics(reg prometheus.Registerer, name string) *Metrics {
	labels := prometheus.Labels{"log": name}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muster_journal_" + name, Help: help, ConstLabels: labels, Buckets: buckets,
		})
		reg.MustRegister(h)
		return h
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_journal_" + name, Help: help, ConstLabels: labels})
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_journal_" + name, Help: help, ConstLabels: labels})
		reg.MustRegister(g)
		return g
	}
	return &Metrics{
		latency:    histogram("commit_seconds", "From taking a batch to its being on disk.", prometheus.ExponentialBuckets(50e-6, 2, 20)),
		entries:    histogram("commit_entries", "Entries in one commit.", prometheus.ExponentialBuckets(1, 2, 15)),
		bytes:      histogram("commit_bytes", "Bytes of one commit on disk.", prometheus.ExponentialBuckets(64, 2, 16)),
		entryBytes: histogram("entry_bytes", "Bytes on disk per entry, mean of each commit.", prometheus.ExponentialBuckets(8, 2, 16)),
		written:    counter("written_bytes_total", "Bytes of commits written to disk."),
		raw:        counter("raw_bytes_total", "Bytes of entries before compression."),
		syncs:      counter("syncs_total", "Calls of fdatasync for commits."),
		torn:       counter("torn_commits_total", "Last commits that were cut when opening."),
		size:       gauge("size_bytes", "Bytes of the log on disk."),
		budget:     gauge("budget_bytes", "Bytes the log may take."),
		queued:     gauge("queued_bytes", "Bytes of entries that wait to be committed."),
		blocked:    gauge("blocked", "1 while the disk refuses commits."),
	}
}

func (m *Metrics) committed(took time.Duration, c *commit, size int) {
	if m == nil {
		return
	}
	m.latency.Observe(took.Seconds())
	m.entries.Observe(float64(c.head.entries))
	m.bytes.Observe(float64(size))
	if c.head.entries > 0 {
		m.entryBytes.Observe(float64(size) / float64(c.head.entries))
	}
	m.written.Add(float64(size))
	m.raw.Add(float64(c.head.raw))
}

func (m *Metrics) synced() {
	if m != nil {
		m.syncs.Inc()
	}
}

func (m *Metrics) gauges(s *Stats) {
	if m == nil {
		return
	}
	m.size.Set(float64(s.SizeBytes))
	m.budget.Set(float64(s.BudgetBytes))
	m.queued.Set(float64(s.QueuedBytes))
	blocked := 0.0
	if s.Blocked != nil {
		blocked = 1
	}
	m.blocked.Set(blocked)
}

func (m *Metrics) wasTorn() {
	if m != nil {
		m.torn.Inc()
	}
}
