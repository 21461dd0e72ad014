package muster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/source/core"
)

// frameOutcome is the outcome of a message (frame) received from an agent, such as kept or malformed. Every
// frame raises exactly one.
type frameOutcome uint8

const (
	batchKept           frameOutcome = iota // a batch went to the journal
	batchRepeated                           // a batch that the journal has already: acknowledged again
	numbersMissing                          // missing numbers without a gap: session closed
	frameMalformed                          // cannot be decoded: session closed
	batchOversized                          // more signals than allowed: session closed
	tooManyStreams                          // too many streams: session closed
	journalRefused                          // the journal did not accept it: session closed
	sessionDisplaced                        // the session has ended already
	serverStalled                           // it may have waited while the server stood still: session closed, sent again with its age
	assignmentConfirmed                     // the agent confirms an assignment
	agentLeaves                             // the agent leaves
	agentStats                              // a report of the agent on itself
	requestTooSoon                          // a report or request within the least interval, or over its limit: ignored
	runAnswered                             // output or end of a requested run
	answerUnrequested                       // output of an unknown or cancelled run: ignored
	factsChanged                            // facts, labels or groups of the machine changed
	secretsRequested                        // a request for secrets: they are found and sent
	unknownKind                             // a message of a later protocol version: ignored
	outcomes
)

var outcomeNames = [outcomes]string{
	"kept", "repeated", "numbers_missing", "malformed", "oversized", "streams", "not_stored", "replaced", "stalled", "confirmed", "bye", "stats", "too_fast", "run_result", "not_requested", "facts", "secrets", "unknown_kind",
}

// signalDecision is the server's decision about one result or other item in a batch, such as accepted. It is a
// label for metrics.
type signalDecision uint8

const (
	admitted signalDecision = iota
	refusedDefinition
	refusedOutput
	refusedStates
	refusedKind
	refusedMalformed
	refusedProxy   // a result names a proxy node that the sender's assignment does not have
	droppedBySpool // signals that the agent's spool dropped, by a gap
	verdicts
)

var verdictNames = [verdicts]string{"admitted", "unknown_definition", "output", "states", "kind", "malformed", "proxy", "gap"}

// metrics holds the metrics of the server for Muster agents.
type metrics struct {
	core.SessionMetrics
	controls                   prometheus.Counter // received pings and pongs
	frames                     [outcomes]prometheus.Counter
	signals                    [verdicts]prometheus.Counter
	sent                       *prometheus.CounterVec
	acks                       prometheus.Counter // the counter of Ack messages in sent
	throttled                  *prometheus.CounterVec
	limits                     *prometheus.CounterVec
	secrets                    *prometheus.CounterVec
	unknownNames               *prometheus.CounterVec
	resent                     prometheus.Counter
	leftOutUnits, refusedUnits prometheus.Counter
}

// newMetrics registers the metrics of the server for Muster agents.
func newMetrics(r prometheus.Registerer, sessions, pressure func() float64) *metrics {
	meter, server := core.Meter{Registerer: r, Prefix: "muster_session_"}, core.Meter{Registerer: r, Prefix: "muster_"}
	m := &metrics{
		SessionMetrics: meter.Sessions(core.SessionNames{Messages: "frames", Handshakes: "handshakes", Archives: "asset_requests", Agents: "agents"}, sessions),
		controls:       meter.Counter("controls_received_total", "Pings and pongs from agents."),
		resent:         meter.Counter("assignments_resent_total", "Complete assignments sent again because the agent had another hash than expected."),
		leftOutUnits:   meter.Counter("units_left_out_total", "Units left out of assignments because the agent does not support them."),
		refusedUnits:   meter.Counter("units_refused_total", "Units of assignments that agents refuse to run."),
		sent:           meter.Vector("sent_total", "Messages sent to agents, by kind.", "kind"),
		throttled:      meter.Vector("throttled_total", "Pauses in reading from an agent, by limit.", "limit"),
		secrets: server.Vector("secrets_total",
			"Requests of agents for secrets, by outcome: given, refused (no check of the node names the secret), failed (no value found).", "outcome"),
		limits: server.Vector("limits_met_total", "Refusals and pauses by limits, by namespace and limit.", "namespace", "limit"),
		unknownNames: server.Vector("tls_names_unknown_total",
			"Connections to a name that is not in the server's certificate, by client: people (refused) or agents (accepted).", "who"),
	}
	m.acks = m.sent.WithLabelValues("ack")
	meter.Outcomes("frames_total", "Messages from agents after Hello, by outcome.", m.frames[:], func(i int) string { return outcomeNames[i] })
	meter.Outcomes("signals_total", "Signals in batches, by verdict.", m.signals[:], func(i int) string { return verdictNames[i] })
	meter.Gauge("pressure", "Highest fill level of journal queue, journal budget and dispatcher queue, from 0 to 1. Back-pressure begins at 0.25 for agents that send values, at 0.5 for all agents, and ends below half of that.", pressure)
	return m
}

// fleetMetrics exports the statistics that agents report about themselves, summed over the fleet. One series
// per node would be too many. The sums are computed at each scrape.
type fleetMetrics struct{ server *Server }

// Describe sends the descriptions of all fleet metrics to Prometheus' registry.
func (m fleetMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect sums the agents' statistics over the fleet, and sends the sums as metrics.
func (m fleetMetrics) Collect(ch chan<- prometheus.Metric) {
	const prefix = "muster_agents_"
	spooled := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: prefix + "spooled_signals", Help: "Signals in the spools.", Buckets: []float64{0, 10, 100, 1000, 10_000, 100_000}})
	memory := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: prefix + "resident_bytes", Help: "Resident memory of agents that measure it.", Buckets: []float64{10 << 20, 20 << 20, 40 << 20, 80 << 20, 160 << 20}})
	reports := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "reporting", Help: "Connected agents with statistics; the other muster_agents metrics count these."})
	maxSpooled := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "spooled_signals_max", Help: "Signals in the fullest spool."})
	counts := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "counts", Help: "Sums of the agents' counters since each agent started; an agent that disconnects is subtracted."}, []string{"what"})
	var sums [8]prometheus.Gauge
	for i, what := range [...]string{"runs", "forks", "skipped", "late", "bytes_sent", "gave_way", "refused", "lost"} {
		sums[i] = counts.WithLabelValues(what)
	}
	most := uint64(0)
	m.server.registry.ForEach(func(x *session) {
		r := x.report.Load()
		if r == nil {
			return
		}
		reports.Inc()
		most = max(most, r.Spooled)
		spooled.Observe(float64(r.Spooled))
		if r.ResidentBytes > 0 {
			memory.Observe(float64(r.ResidentBytes))
		}
		for i, n := range [...]uint64{r.Runs, r.Forks, r.Skipped, r.Late, r.BytesSent, r.Evicted, r.Refused, r.Lost} {
			sums[i].Add(float64(n))
		}
	})
	maxSpooled.Set(float64(most))
	for _, c := range []prometheus.Collector{reports, maxSpooled, spooled, memory, counts} {
		c.Collect(ch)
	}
}
