package muster

import (
	"github.com/prometheus/client_golang/prometheus"
)

// outcome is a way out of the handler of one frame. Every frame raises exactly one.
type outcome uint8

const (
	kept        outcome = iota // a batch went to the journal
	repeated                   // a batch that is kept already: acknowledged again
	hole                       // a jump that no gap explains: session closed
	malformed                  // cannot be decoded: session closed
	oversized                  // more signals than allowed: session closed
	streams                    // too many streams: session closed
	unkept                     // the journal took it not: session closed
	displaced                  // the session is over already
	holding                    // the agent confirms an assignment
	leaving                    // the agent says Bye
	stats                      // the agent about itself
	hasty                      // the same again too soon: ignored
	ran                        // output or the end of a run that was asked for
	unasked                    // the same of none that was asked for, or of one that was taken back: ignored
	facts                      // what the agent says of its machine has changed
	asksSecrets                // values are found and sent
	unknownKind                // a message of a later version: ignored
	outcomes
)

var outcomeNames = [outcomes]string{
	"kept", "repeated", "hole", "malformed", "oversized", "streams", "unkept", "displaced", "holding", "bye", "stats", "hasty", "ran", "unasked", "facts", "secrets", "unknown_kind",
}

// verdict is what became of one signal of a batch.
type verdict uint8

const (
	admitted verdict = iota
	refusedChunk
	refusedOutput
	refusedStates
	refusedKind
	refusedMalformed
	refusedProxy // about a node that the sender's assignment does not name
	gapped       // given up by the agent's spool
	verdicts
)

var verdictNames = [verdicts]string{"admitted", "unknown_chunk", "output", "states", "kind", "malformed", "proxy", "gap"}

type metrics struct {
	received                prometheus.Counter
	controls                prometheus.Counter // pings and pongs
	frames                  [outcomes]prometheus.Counter
	signals                 [verdicts]prometheus.Counter
	handshakes              *prometheus.CounterVec
	assets                  *prometheus.CounterVec
	ended                   *prometheus.CounterVec
	sent                    *prometheus.CounterVec
	acks                    prometheus.Counter // of sent
	throttled               *prometheus.CounterVec
	limited                 *prometheus.CounterVec
	secrets                 *prometheus.CounterVec
	misnamed                *prometheus.CounterVec
	resent                  prometheus.Counter
	leftUnits, refusedUnits prometheus.Counter
	stuck                   prometheus.Counter
	bytes                   prometheus.Counter
}

func newMetrics(r prometheus.Registerer, sessions, pressure func() float64) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_session_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_session_" + name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		received:     counter("frames_received_total", "Messages from agents after Hello: the sum of muster_session_frames_total."),
		bytes:        counter("bytes_received_total", "Bytes of these messages."),
		controls:     counter("controls_received_total", "Pings and pongs from agents."),
		stuck:        counter("writers_stuck_total", "Times that a writer was replaced because a peer did not read."),
		resent:       counter("assignments_resent_total", "Whole assignments sent again because the agent held another hash than expected."),
		leftUnits:    counter("units_left_out_total", "Units left out of assignments sent, because the agent does not understand them."),
		refusedUnits: counter("units_refused_total", "Units of assignments that agents held and refused to put in force."),
		assets:       vector("asset_requests_total", "Requests of agents for archives of Assets, by outcome.", "outcome"),
		handshakes:   vector("handshakes_total", "Hellos, by outcome: welcome, or the code of Refuse.", "outcome"),
		ended:        vector("ended_total", "Sessions that ended, by cause.", "cause"),
		sent:         vector("sent_total", "Messages to agents, by kind.", "kind"),
		throttled:    vector("throttled_total", "Times that reading from an agent paused, by the limit that it met.", "limit"),
	}
	m.secrets = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_secrets_total", Help: "Secrets that agents asked for, by what came of it: given, refused (no check of the node names it), failed (it could not be had).",
	}, []string{"outcome"})
	r.MustRegister(m.secrets)
	m.limited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_limits_met_total", Help: "Refusals (and, of rates, pauses) because of a limit, by namespace and limit.",
	}, []string{"namespace", "limit"})
	r.MustRegister(m.limited)
	m.misnamed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_tls_names_unknown_total", Help: "Connections to a name that the server's certificate does not have, by who came: people (whose clients refuse that) or agents (which do not mind).",
	}, []string{"who"})
	r.MustRegister(m.misnamed)
	m.acks = m.sent.WithLabelValues("ack")
	frames := vector("frames_total", "Messages from agents after Hello, by outcome.", "outcome")
	for i := range m.frames {
		m.frames[i] = frames.WithLabelValues(outcomeNames[i])
	}
	signals := vector("signals_total", "Signals in batches, by what became of them.", "outcome")
	for i := range m.signals {
		m.signals[i] = signals.WithLabelValues(verdictNames[i])
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muster_session_sessions", Help: "Agents connected now.",
	}, sessions))
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muster_session_pressure", Help: "How full the fullest of what fills under overload is (queue and budget of the journal, reactions), from 0 to 1: agents are slowed down from 0.5 on, until it is below 0.25.",
	}, pressure))
	return m
}
