package api

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	runs     *prometheus.CounterVec
	watches  prometheus.Gauge
	renewals *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_requests_total", Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_api_request_seconds", Help: "Time to answer, by route. Watches are left out.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"route"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_refused_total", Help: "Requests refused before any work was done, by reason.",
		}, []string{"reason"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_runs_total", Help: "Runs that people asked for (muster run), one for each node, by how they ended.",
		}, []string{"outcome"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muster_api_watches", Help: "Watches that are open.",
		}),
	}
	m.renewals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_certificate_renewals_total", Help: "Requests of nodes for a new certificate, by outcome.",
	}, []string{"outcome"})
	if r != nil {
		r.MustRegister(m.requests, m.seconds, m.refused, m.runs, m.watches, m.renewals)
	}
	return m
}
