package alertmanager

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/source/core"
)

// outcome is the result of handling one alert. Every alert raises exactly one.
type outcome uint8

const (
	fires outcome = iota
	resolved
	malformed  // cannot be decoded, or exceeds a limit of one alert
	nameTaken  // agents run a check of this name
	disabled   // its check is
	noLocation // no check or node could be created
	states     // no room for another event of the node, or of its namespace
	tooMany    // fire already
	unkept     // the journal did not accept it
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
	meter := core.Meter{Registerer: r, Prefix: "muster_alerts_"}
	m := &metrics{
		requests: meter.Vector("requests_total", "Requests with alerts, by outcome: ok, or the class of the error.", "outcome"),
		results:  meter.Counter("results_total", "Results that were written for alerts."),
		ended:    meter.Counter("ended_total", "Alerts that ended because no sender repeated them."),
		behind:   meter.Counter("behind_total", "Firing alerts whose endsAt was in the past when they arrived: the clock of their sender is behind."),
	}
	meter.Outcomes("received_total", "Received alerts, by outcome.", m.alerts[:], func(i int) string { return outcomeNames[i] })
	meter.Gauge("firing", "Firing alerts.", firing)
	return m
}
