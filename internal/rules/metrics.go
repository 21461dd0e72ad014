package rules

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/source/core"
)

// Outcomes of one evaluation of a rule.
const (
	goodEvaluation = iota
	failedEvaluation
	missedEvaluation // of a whole group: the evaluation before took longer than the interval
	evaluationOutcomes
)

// Outcomes of a sample that a rule made.
const (
	writtenSample = iota
	refusedSample // its labels or its time
	lostSample    // the journal did not accept it
	sampleOutcomes
)

// Outcomes of a change of an alert.
const (
	writtenVerdict   = iota
	unwrittenVerdict // the journal did not accept it, or its node could not be created; the next evaluation tries again
	limitedVerdict   // the namespace has too many alerts
	verdictOutcomes
)

// metrics holds the metrics of the rules engine.
type metrics struct {
	evaluations [evaluationOutcomes]prometheus.Counter
	samples     [sampleOutcomes]prometheus.Counter
	verdicts    [verdictOutcomes]prometheus.Counter
	seconds     prometheus.Counter
}

// newMetrics registers the metrics of the rules engine.
func newMetrics(r prometheus.Registerer, groups func() float64) (m metrics) {
	meter := core.Meter{Registerer: r, Prefix: "muster_rules_"}
	meter.Outcomes("evaluations_total", "Evaluations of rules, by outcome; missed ones are of whole groups, whose evaluation took longer than the interval.", m.evaluations[:], func(i int) string {
		return [evaluationOutcomes]string{"ok", "failed", "missed"}[i]
	})
	meter.Outcomes("samples_total", "Samples that rules made, by outcome.", m.samples[:], func(i int) string { return [sampleOutcomes]string{"kept", "refused", "not_stored"}[i] })
	meter.Outcomes("alert_changes_total", "Changes of alerts, by outcome; those not stored are tried again.", m.verdicts[:], func(i int) string { return [verdictOutcomes]string{"kept", "not_stored", "limit"}[i] })
	m.seconds = meter.Counter("seconds_total", "Time that evaluations of rules took.")
	meter.Gauge("groups", "RuleGroups that are evaluated.", groups)
	return m
}

// lagMetric exports how late each namespace's rules are. The lags are computed at each scrape.
type lagMetric struct{ engine *Engine }

// Describe sends the description of the metric to Prometheus' registry.
func (m lagMetric) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect sends the lag of each namespace with rule groups.
func (m lagMetric) Collect(ch chan<- prometheus.Metric) {
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "muster_rules_lag_seconds", Help: "Time since the evaluation of a RuleGroup that waits or runs was due, by namespace."}, []string{"namespace"})
	m.engine.mu.Lock()
	now := m.engine.opts.Now()
	for _, v := range m.engine.evaluators {
		lag.WithLabelValues(v.namespace).Set(v.lag(now).Seconds())
	}
	m.engine.mu.Unlock()
	lag.Collect(ch)
}
