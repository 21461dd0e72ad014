package op

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts all operations. A subject registers its own.
type Metrics struct {
	Requests *prometheus.CounterVec
	Seconds  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	registry prometheus.Registerer // nil: none
}

func newMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		registry: r,
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_requests_total", Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		Seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_api_request_seconds", Help: "Time to answer, by route. Watches are left out.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"route"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_refused_total", Help: "Requests refused before any work was done, by reason.",
		}, []string{"reason"}),
	}
	m.Register(m.Requests, m.Seconds, m.refused)
	return m
}

// Register adds metrics of a subject.
func (m *Metrics) Register(c ...prometheus.Collector) {
	if m.registry != nil {
		m.registry.MustRegister(c...)
	}
}

// CountRefusal counts a request that was refused before any work was done.
func (r *Routes) CountRefusal(reason string) { r.Metrics.refused.WithLabelValues(reason).Inc() }
