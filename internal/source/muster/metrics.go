package muster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/source/core"
)

// outcome is the result of handling one frame. Every frame raises exactly one.
type outcome uint8

const (
	kept        outcome = iota // a batch went to the journal
	repeated                   // a batch that the journal has: acknowledged again
	hole                       // missing numbers without a gap: session closed
	malformed                  // cannot be decoded: session closed
	oversized                  // more signals than allowed: session closed
	streams                    // too many streams: session closed
	unkept                     // the journal did not accept it: session closed
	displaced                  // the session has ended already
	holding                    // the agent confirms an assignment
	bye                        // the agent leaves
	stats                      // a report of the agent on itself
	tooSoon                    // a report or request within the least interval, or over its limit: ignored
	runAnswer                  // output or end of a requested run
	unrequested                // the same of an unknown or cancelled run: ignored
	facts                      // facts, labels or groups of the machine changed
	secrets                    // a request for secrets: they are found and sent
	unknownKind                // a message of a later protocol version: ignored
	outcomes
)

var outcomeNames = [outcomes]string{
	"kept", "repeated", "hole", "malformed", "oversized", "streams", "unkept", "displaced", "holding", "bye", "stats", "hasty", "ran", "unasked", "facts", "secrets", "unknown_kind",
}

// verdict is the decision on one signal of a batch.
type verdict uint8

const (
	admitted verdict = iota
	refusedChunk
	refusedOutput
	refusedStates
	refusedKind
	refusedMalformed
	refusedProxy // names a proxy node that the sender's assignment does not have
	gapped       // dropped by the agent's spool
	verdicts
)

var verdictNames = [verdicts]string{"admitted", "unknown_chunk", "output", "states", "kind", "malformed", "proxy", "gap"}

type metrics struct {
	core.SessionMetrics
	controls                   prometheus.Counter // pings and pongs
	frames                     [outcomes]prometheus.Counter
	signals                    [verdicts]prometheus.Counter
	sent                       *prometheus.CounterVec
	acks                       prometheus.Counter // of sent
	throttled                  *prometheus.CounterVec
	limits                     *prometheus.CounterVec
	secrets                    *prometheus.CounterVec
	unknownNames               *prometheus.CounterVec
	resent                     prometheus.Counter
	leftOutUnits, refusedUnits prometheus.Counter
}

func newMetrics(r prometheus.Registerer, sessions, pressure func() float64) *metrics {
	meter, server := core.Meter{Registerer: r, Prefix: "muster_session_"}, core.Meter{Registerer: r, Prefix: "muster_"}
	m := &metrics{
		SessionMetrics: meter.Sessions(core.SessionNames{Messages: "frames", Handshakes: "handshakes", Archives: "asset_requests", Agents: "agents"}, sessions),
		controls:       meter.Counter("controls_received_total", "Pings and pongs from agents."),
		resent:         meter.Counter("assignments_resent_total", "Whole assignments sent again because the agent held another hash than expected."),
		leftOutUnits:   meter.Counter("units_left_out_total", "Units left out of assignments because the agent does not understand them."),
		refusedUnits:   meter.Counter("units_refused_total", "Units of assignments that agents hold and refuse to put in force."),
		sent:           meter.Vector("sent_total", "Messages to agents, by kind.", "kind"),
		throttled:      meter.Vector("throttled_total", "Pauses in reading from an agent, by the limit that caused them.", "limit"),
		secrets: server.Vector("secrets_total",
			"Secrets that agents asked for, by outcome: given, refused (no check of the node names it), failed (the value was not found).", "outcome"),
		limits: server.Vector("limits_met_total", "Refusals and pauses by limits, by namespace and limit.", "namespace", "limit"),
		unknownNames: server.Vector("tls_names_unknown_total",
			"Connections to a name that the server's certificate lacks, by client: people (whose clients refuse it) or agents (which accept it).", "who"),
	}
	m.acks = m.sent.WithLabelValues("ack")
	meter.Outcomes("frames_total", "Messages from agents after Hello, by outcome.", m.frames[:], func(i int) string { return outcomeNames[i] })
	meter.Outcomes("signals_total", "Signals in batches, by verdict.", m.signals[:], func(i int) string { return verdictNames[i] })
	meter.Gauge("pressure", "Highest fill level of journal queue, journal budget and reactions, from 0 to 1. Agents that send values are slowed from 0.25 on, all agents from 0.5 on, until it is below half of that.", pressure)
	return m
}

// fleetMetrics sums the reports of connected agents over the fleet, because a label per node would be a series per node.
// It is computed at each scrape.
type fleetMetrics struct {
	server *Server

	reports    *prometheus.Desc
	maxSpooled *prometheus.Desc
	spooled    *prometheus.Desc
	memory     *prometheus.Desc
	sums       *prometheus.Desc
}

func newFleetMetrics(s *Server) *fleetMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("muster_agents_"+name, help, labels, nil)
	}
	return &fleetMetrics{server: s,
		reports:    desc("told", "Connected agents that have sent a report on themselves; the other metrics here are of these."),
		maxSpooled: desc("spooled_signals_max", "Signals in the fullest spool."),
		spooled:    desc("spooled_signals", "Signals in the spools."),
		memory:     desc("resident_bytes", "Resident memory of agents that measure it."),
		sums:       desc("counts", "Sums of the agents' counters since each agent started; an agent that disconnects is subtracted.", "what"),
	}
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.reports, m.maxSpooled, m.spooled, m.memory, m.sums} {
		ch <- d
	}
}

// histogram counts values by upper bounds.
type histogram struct {
	bounds []float64
	within map[float64]uint64
	n      uint64
	sum    float64
}

func newHistogram(bounds ...float64) *histogram {
	h := &histogram{bounds: bounds, within: map[float64]uint64{}}
	for _, b := range bounds {
		h.within[b] = 0
	}
	return h
}

func (h *histogram) add(v float64) {
	h.n++
	h.sum += v
	for _, b := range h.bounds {
		if v <= b {
			h.within[b]++
		}
	}
}

// Collect implements prometheus.Collector.
func (m *fleetMetrics) Collect(ch chan<- prometheus.Metric) {
	spooled, memory := newHistogram(0, 10, 100, 1000, 10_000, 100_000), newHistogram(10<<20, 20<<20, 40<<20, 80<<20, 160<<20)
	most := uint64(0)
	counts := [...]struct {
		what string
		n    float64
	}{{what: "runs"}, {what: "forks"}, {what: "skipped"}, {what: "late"}, {what: "bytes_sent"}, {what: "gave_way"}, {what: "refused"}, {what: "lost"}}
	m.server.registry.ForEach(func(x *session) {
		r := x.report.Load()
		if r == nil {
			return
		}
		most = max(most, r.Spooled)
		spooled.add(float64(r.Spooled))
		if r.ResidentBytes > 0 {
			memory.add(float64(r.ResidentBytes))
		}
		for i, n := range [...]uint64{r.Runs, r.Forks, r.Skipped, r.Late, r.BytesSent, r.Evicted, r.Refused, r.Lost} {
			counts[i].n += float64(n)
		}
	})
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.reports, float64(spooled.n))
	gauge(m.maxSpooled, float64(most))
	ch <- prometheus.MustNewConstHistogram(m.spooled, spooled.n, spooled.sum, spooled.within)
	ch <- prometheus.MustNewConstHistogram(m.memory, memory.n, memory.sum, memory.within)
	for _, c := range counts {
		gauge(m.sums, c.n, c.what)
	}
}
