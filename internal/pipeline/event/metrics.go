package event

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/wire"
)

// metrics of the view. Workers count in plain fields and add once per commit.
type metrics struct {
	received                     prometheus.Counter
	outcomes                     [outcomes]prometheus.Counter
	records                      [recordKinds]prometheus.Counter // by kind; zero: malformed
	holes                        prometheus.Counter
	transitions                  prometheus.Counter
	keepaliveExpired, ttlExpired prometheus.Counter
	evictions                    prometheus.Counter
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
		received:    counter("signals_received_total", "Signals found in the journal; the sum of muster_event_signals_total."),
		holes:       counter("stream_holes_total", "Places in streams where numbers are missing without a gap: commits of the journal are lost, else a BUG."),
		transitions: counter("transitions_total", "Transitions handed to reactions."),

		evictions:  counter("streams_forgotten_total", "Streams that a node has not used for so many others that its numbers were dropped."),
		watchEnded: counter("watches_overrun_total", "Watches ended because the reader fell too far behind."),
	}
	signals := vec("signals_total", "Signals, by what became of them.", "outcome")
	for o := range outcomes {
		m.outcomes[o] = signals.WithLabelValues(o.String())
	}
	expired := vec("deadlines_expired_total", "Deadlines that passed, by what was expected.", "expected")
	m.keepaliveExpired, m.ttlExpired = expired.WithLabelValues("keepalive"), expired.WithLabelValues("ttl")
	records := vec("records_total", "Journal entries read, by kind; those for all partitions count once per partition.", "kind")
	for kind, name := range recordNames {
		m.records[kind] = records.WithLabelValues(name)
	}
	if r == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, value)
	}
	r.MustRegister(m.received, signals, records, m.holes, m.transitions, expired, m.evictions, m.watchEnded,
		gauge("states", "Event states held.", func() float64 { return float64(v.Counts(0).States) }),
		gauge("problems", "Open problems.", func() float64 { return float64(v.Counts(0).Problems) }),
		gauge("applied_commit", "Number of the last commit applied by every worker.", func() float64 { return float64(v.Applied().Number) }),
		gauge("lag_commits", "Commits delivered and not yet applied.", func() float64 {
			return float64(v.delivered.Load()) - float64(v.Applied().Number)
		}),
	)
	return m
}

const recordKinds = 8

var recordNames = [recordKinds]string{
	"malformed", "batch", "session", "started", "intent", "forget", "action", "own",
}

func (m *metrics) record(kind wire.RecordKind) {
	if int(kind) < recordKinds {
		m.records[kind].Inc()
	}
}
