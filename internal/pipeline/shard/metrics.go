package shard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/wire"
)

// metrics of the shard. Workers count in plain fields and add once per commit. Their names
// begin with muster_event, as the names of the event view's own metrics do: dashboards and
// recorded results know one set.
type metrics struct {
	received  prometheus.Counter
	outcomes  [outcomes]prometheus.Counter
	records   [recordKinds]prometheus.Counter // by kind; zero: malformed
	holes     prometheus.Counter
	evictions prometheus.Counter
}

func newMetrics(s *Shard, r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		received:  counter("signals_received_total", "Signals found in the journal; the sum of muster_event_signals_total."),
		holes:     counter("stream_holes_total", "Places in streams where numbers are missing without a gap: commits of the journal are lost, else a BUG."),
		evictions: counter("streams_forgotten_total", "Streams that a node has not used for so many others that its numbers were dropped."),
	}
	signals := vec("signals_total", "Signals, by outcome.", "outcome")
	for o := range outcomes {
		m.outcomes[o] = signals.WithLabelValues(o.String())
	}
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
	r.MustRegister(m.received, signals, records, m.holes, m.evictions,
		gauge("applied_commit", "Number of the last commit applied by every worker.", func() float64 { return float64(s.Applied().Number) }),
		gauge("lag_commits", "Commits delivered and not yet applied.", func() float64 {
			return float64(s.delivered.Load()) - float64(s.Applied().Number)
		}),
	)
	return m
}

const recordKinds = 9

var recordNames = [recordKinds]string{
	"malformed", "batch", "session", "started", "intent", "forget", "action", "own", "proxied",
}

func (m *metrics) record(kind wire.RecordKind) {
	if int(kind) < recordKinds {
		m.records[kind].Inc()
	}
}
