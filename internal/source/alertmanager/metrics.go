package alertmanager

import "github.com/prometheus/client_golang/prometheus"

// outcome is what becomes of one alert of a request. Every alert raises exactly one.
type outcome uint8

const (
	fires     outcome = iota // it fires
	resolved                 // it does no more
	malformed                // it cannot be read, or breaks a limit of one alert
	taken                    // its name is a check that agents run
	unwanted                 // its check is disabled
	places                   // no check or node could be made for it
	states                   // no room for another event of the node, or of its namespace
	many                     // too many fire
	unkept                   // the journal took it not
	outcomes
)

var outcomeNames = [outcomes]string{"fires", "resolved", "malformed", "name_taken", "disabled", "places", "states", "too_many", "unkept"}

type metrics struct {
	requests *prometheus.CounterVec
	alerts   [outcomes]prometheus.Counter
	results  prometheus.Counter
	ended    prometheus.Counter
	behind   prometheus.Counter
}

func newMetrics(r prometheus.Registerer, firing func() float64) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_alerts_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_alerts_requests_total", Help: "Requests that bring alerts in, as to an Alertmanager, by outcome: ok, or the class of the error."}, []string{"outcome"}),
		results:  counter("results_total", "Results that were made of alerts."),
		ended:    counter("ended_total", "Alerts that ended because nobody said them any more."),
		behind:   counter("behind_total", "Alerts that fire though their endsAt was over when they came: the clock of their sender is behind."),
	}
	alerts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_alerts_received_total", Help: "Alerts that came in, by what became of them."}, []string{"outcome"})
	r.MustRegister(m.requests, alerts, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "muster_alerts_firing", Help: "Alerts that fire now."}, firing))
	for i := range m.alerts {
		m.alerts[i] = alerts.WithLabelValues(outcomeNames[i])
	}
	return m
}
