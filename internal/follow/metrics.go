package follow

import "github.com/prometheus/client_golang/prometheus"

// collector exports the states of the followers.
type collector struct{ set *Set }

type stateMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*State) float64
}

func (*collector) metrics() []stateMetric {
	one := func(name, help string, kind prometheus.ValueType, value func(*State) float64) stateMetric {
		return stateMetric{prometheus.NewDesc("muster_stream_"+name, help, []string{"namespace", "handler"}, nil), kind, value}
	}
	return []stateMetric{
		one("behind_seconds", "Age of the oldest commit of the journal that the handler was not told of; zero: it was told of all.", prometheus.GaugeValue, func(s *State) float64 { return s.Behind.Seconds() }),
		one("behind_bytes", "Journal from there on.", prometheus.GaugeValue, func(s *State) float64 { return float64(s.BehindBytes) }),
		one("connections", "Connections that are open.", prometheus.GaugeValue, func(s *State) float64 { return float64(s.Connections) }),
		one("lines_total", "Lines written, also those that came again.", prometheus.CounterValue, func(s *State) float64 { return float64(s.Lines) }),
		one("again_total", "Times that lines were written again because connections broke.", prometheus.CounterValue, func(s *State) float64 { return float64(s.Again) }),
		one("skipped_total", "Results that the handler was never told of, because it was too far behind.", prometheus.CounterValue, func(s *State) float64 { return float64(s.Skipped) }),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics() {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.set.States() {
		for _, m := range c.metrics() {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.Handler.Namespace, s.Handler.Name)
		}
	}
}
