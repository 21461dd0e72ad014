package snapshot

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	saved, failed, cycles, unusable, bytes prometheus.Counter
	encode                                 prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "snapshot", Name: name, Help: help})
	}
	m := &metrics{
		saved:    counter("saved_total", "Snapshots of partitions that took their name."),
		failed:   counter("failures_total", "Snapshots that could not be saved."),
		cycles:   counter("cycles_total", "Rounds through all partitions."),
		unusable: counter("unusable_total", "Snapshots found that could not be used: damaged, ahead of the journal, of another life."),
		bytes:    counter("written_bytes_total", "Bytes of snapshots written."),
		encode: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "muster", Subsystem: "snapshot", Name: "encode_seconds",
			Help: "How long a partition was held to encode it.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 10),
		}),
	}
	if r != nil {
		r.MustRegister(m.saved, m.failed, m.cycles, m.unusable, m.bytes, m.encode)
	}
	return m
}
