package event

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the view. Workers count in plain fields and add once per commit.
type metrics struct {
	transitions                  prometheus.Counter
	keepaliveExpired, ttlExpired prometheus.Counter
	watchEnded                   prometheus.Counter
}

func newMetrics(v *View, r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		transitions: counter("transitions_total", "Transitions handed to reactions."),
		watchEnded:  counter("watches_overrun_total", "Watches ended because the reader fell too far behind."),
	}
	expired := vec("deadlines_expired_total", "Deadlines that passed, by what was expected.", "expected")
	m.keepaliveExpired, m.ttlExpired = expired.WithLabelValues("keepalive"), expired.WithLabelValues("ttl")
	if r == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, value)
	}
	r.MustRegister(m.transitions, expired, m.watchEnded,
		gauge("states", "Event states held.", func() float64 { return float64(v.Counts(0).States) }),
		gauge("problems", "Open problems.", func() float64 { return float64(v.Counts(0).Problems) }),
	)
	return m
}
