package react

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	recorded, repeated, recordFailed, rederived prometheus.Counter
	recordSeconds                               prometheus.Histogram
	attempts                                    *prometheus.CounterVec
	deliverSeconds                              prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: name, Help: help})
	}
	m := &metrics{
		recorded:     counter("transitions_total", "Changes recorded in history."),
		repeated:     counter("repeated_total", "Changes that were in history already (after a restart)."),
		recordFailed: counter("record_failed_total", "Batches that the history store refused and that were tried again."),
		rederived:    counter("rederived_total", "Times a partition's changes were made again from the journal."),
		recordSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "record_seconds",
			Help: "Time of one history transaction.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: "delivery_attempts_total",
			Help: "Attempts to tell a handler, by outcome."}, []string{"outcome"}),
		deliverSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "delivery_seconds",
			Help: "Time of one attempt.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
	}
	if r != nil {
		r.MustRegister(m.recorded, m.repeated, m.recordFailed, m.rederived, m.recordSeconds, m.attempts, m.deliverSeconds)
	}
	return m
}

// showBehind has the metrics tell how late history is.
func (r *Reactor) showBehind(to prometheus.Registerer) {
	if to != nil {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "react", Name: "behind_seconds",
			Help: "Age of the oldest change that history does not hold yet; zero: none waits."}, func() float64 { return r.Behind().Seconds() }))
	}
}
