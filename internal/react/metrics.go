package react

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	recorded, repeated, recordFailed, rederived, replayed prometheus.Counter
	unopened                                              prometheus.Counter
	missed                                                *prometheus.CounterVec
	recordSeconds                                         prometheus.Histogram
	attempts                                              *prometheus.CounterVec
	deliverSeconds                                        prometheus.Histogram
	seen, passed, failed                                  prometheus.Counter // by pipelines
	seeSeconds                                            prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: name, Help: help})
	}
	m := &metrics{
		recorded:     counter("transitions_total", "Changes recorded in history."),
		repeated:     counter("repeated_total", "Changes that were in history already (after a restart)."),
		recordFailed: counter("record_failed_total", "Batches that the history store refused and that were tried again."),
		unopened:     counter("unopened_total", "Problems that closed and whose opening history never got, though somebody was to be told of it."),
		missed: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: "missed_total",
			Help: "Problems in which history and events differed when the server started, by what was done: opened and closed are told late; adopted are only written down."}, []string{"done"}),
		rederived: counter("rederived_total", "Times the queue had overflowed and changes were made again from the journal."),
		replayed:  counter("rederived_commits_total", "Commits of the journal that were read again for that."),
		recordSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "record_seconds",
			Help: "Time of one history transaction.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}),
		seen:   counter("pipeline_events_total", "Events that were shown to pipelines kept from Sensu."),
		passed: counter("pipeline_passed_total", "Messages for the handlers of their workflows."),
		failed: counter("pipeline_failed_total", "Expressions of filters that could not be evaluated."),
		seeSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "pipeline_seconds",
			Help: "Time in which at most 500 events were shown to pipelines.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10)}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: "delivery_attempts_total",
			Help: "Attempts to tell a handler, by outcome."}, []string{"outcome"}),
		deliverSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "delivery_seconds",
			Help: "Time of one attempt.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
	}
	if r != nil {
		r.MustRegister(m.recorded, m.repeated, m.unopened, m.missed, m.recordFailed, m.rederived, m.replayed, m.recordSeconds, m.attempts, m.deliverSeconds,
			m.seen, m.passed, m.failed, m.seeSeconds)
	}
	return m
}

// showBehind has the metrics tell how late history is.
func (r *Reactor) showBehind(to prometheus.Registerer) {
	if to == nil {
		return
	}
	for _, g := range []struct {
		name, help string
		of         func(Lag) float64
	}{
		{"behind_seconds", "Age of the oldest change that history does not hold yet; zero: none waits.", func(l Lag) float64 { return l.Age.Seconds() }},
		{"behind_bytes", "Journal from that change on, which cannot be cut.", func(l Lag) float64 { return float64(l.Bytes) }},
		{"behind_commits", "Commits of the journal from that change on.", func(l Lag) float64 { return float64(l.Commits) }},
		{"rederiving", "1 while changes are made again from the journal, because the queue overflowed.", func(l Lag) float64 {
			if l.Again {
				return 1
			}
			return 0
		}},
	} {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "react", Name: g.name, Help: g.help},
			func() float64 { return g.of(r.Lag()) }))
	}
}
