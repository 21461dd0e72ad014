package core

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Meter registers the metrics of one source under its name prefix.
type Meter struct {
	Registerer prometheus.Registerer
	Prefix     string // muster_session_, muster_sensu_ …
}

// Counter creates a counter, registers the counter for Prometheus and returns the counter.
func (m Meter) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: m.Prefix + name, Help: help})
	m.Registerer.MustRegister(c)
	return c
}

// Vector registers and returns a counter vector, a counter with labels.
func (m Meter) Vector(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Prefix + name, Help: help}, labels)
	m.Registerer.MustRegister(c)
	return c
}

// Gauge registers a gauge, whose value a function computes at each scrape.
func (m Meter) Gauge(name, help string, value func() float64) {
	m.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.Prefix + name, Help: help}, value))
}

// Outcomes registers a counter of received messages with a label for the outcome, such as applied. It fills
// list with the counter of each outcome. Every message raises exactly one outcome, so the sum of all is the
// number of messages.
func (m Meter) Outcomes(name, help string, list []prometheus.Counter, text func(i int) string) {
	v := m.Vector(name, help, "outcome")
	for i := range list {
		list[i] = v.WithLabelValues(text(i))
	}
}

// SessionMetrics holds the metrics that all sources with agent sessions have.
type SessionMetrics struct {
	Received   prometheus.Counter     // received messages; the sum over all outcomes
	Bytes      prometheus.Counter     // bytes of the received messages
	Handshakes *prometheus.CounterVec // by outcome: welcome, or the reason of the refusal
	Ended      *prometheus.CounterVec // sessions, by cause
	Archives   *prometheus.CounterVec // requests for archives of Assets, by outcome
	Stuck      prometheus.Counter     // writers that were replaced, because their peer did not read
}

// SessionNames holds the words that name and describe the session metrics of one source.
type SessionNames struct {
	Messages   string // plural: frames, messages
	Handshakes string
	Archives   string
	Agents     string // agents, Sensu agents
}

// Sessions registers the metrics of the agents' sessions, such as their number and received bytes. sessions counts the
// connected nodes.
func (m Meter) Sessions(n SessionNames, sessions func() float64) SessionMetrics {
	m.Gauge("sessions", fmt.Sprintf("Nodes that now have a session of %s.", n.Agents), sessions)
	return SessionMetrics{
		Received:   m.Counter(n.Messages+"_received_total", fmt.Sprintf("Messages from %s: the sum of %s%s_total.", n.Agents, m.Prefix, n.Messages)),
		Bytes:      m.Counter("bytes_received_total", "Bytes of these messages."),
		Handshakes: m.Vector(n.Handshakes+"_total", fmt.Sprintf("Handshakes of %s, by outcome: welcome, or the reason of the refusal.", n.Agents), "outcome"),
		Ended:      m.Vector("ended_total", fmt.Sprintf("Sessions of %s that ended, by cause.", n.Agents), "cause"),
		Archives:   m.Vector(n.Archives+"_total", fmt.Sprintf("Requests of %s for asset archives, by outcome.", n.Agents), "outcome"),
		Stuck:      m.Counter("writers_stuck_total", "Sessions whose write timed out because the peer did not read."),
	}
}
