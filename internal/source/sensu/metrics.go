package sensu

import (
	"github.com/prometheus/client_golang/prometheus"
)

// outcome is a way out of the handler of one message. Every message raises exactly one.
type outcome uint8

const (
	alive       outcome = iota // a keepalive went to the journal
	kept                       // a result went to the journal
	malformed                  // cannot be read
	other                      // speaks of another node than the session's
	unassigned                 // of a check that the node's assignment does not name
	empty                      // neither a check nor metrics
	states                     // no room for another event of the node, or of its namespace
	displaced                  // the session is over already
	unkept                     // the journal took it not
	unknownKind                // of a type that agents do not send
	disabled                   // of a passive check that is disabled
	unmade                     // its passive check could not be made
	outcomes
)

var outcomeNames = [outcomes]string{"keepalive", "kept", "malformed", "other_entity", "unassigned", "empty", "states", "displaced", "unkept", "unknown_type", "disabled", "unmade"}

type metrics struct {
	received   prometheus.Counter
	bytes      prometheus.Counter
	messages   [outcomes]prometheus.Counter
	logins     *prometheus.CounterVec
	ended      *prometheus.CounterVec
	assets     *prometheus.CounterVec
	secrets    *prometheus.CounterVec
	asked      prometheus.Counter
	cannot     prometheus.Counter
	overdue    prometheus.Counter
	throttled  prometheus.Counter
	valuesLost prometheus.Counter
	stuck      prometheus.Counter
	guessing   prometheus.Counter
}

func newMetrics(r prometheus.Registerer, sessions, listsUntil func() float64) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_sensu_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_sensu_" + name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		received:   counter("messages_received_total", "Messages from Sensu's agents: the sum of muster_sensu_messages_total."),
		bytes:      counter("bytes_received_total", "Bytes of these messages."),
		logins:     vector("logins_total", "Connections of Sensu's agents, by outcome: welcome, or why not.", "outcome"),
		ended:      vector("ended_total", "Sessions of Sensu's agents that ended, by cause.", "cause"),
		assets:     vector("assets_total", "Archives of assets that Sensu's agents asked for, by outcome.", "outcome"),
		secrets:    vector("secrets_total", "Runs with secrets that Sensu's agents were to be asked for, by outcome: given, failed (they could not be found), refused (the assignment had changed meanwhile).", "outcome"),
		asked:      counter("requests_total", "Runs of checks that Sensu's agents were asked for."),
		cannot:     counter("impossible_total", "Runs that were due and that a Sensu agent cannot do: the event says why."),
		overdue:    counter("overdue_total", "Requests sent while the one before was not answered."),
		throttled:  counter("throttled_total", "Times that reading from a Sensu agent paused, because of a limit of its node or namespace."),
		valuesLost: counter("values_lost_total", "Values of metrics that Sensu's agents sent and that are not kept: no number, a name or tag too long, or more than a result takes."),
		stuck:      counter("writers_stuck_total", "Times that a writer was replaced because a peer did not read."),
		guessing:   counter("guessing_total", "Times that an address of Sensu's agents had shown too many wrong passwords: once until it was quiet for half a minute."),
	}
	messages := vector("messages_total", "Messages from Sensu's agents, by what became of them.", "outcome")
	for i := range m.messages {
		m.messages[i] = messages.WithLabelValues(outcomeNames[i])
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "muster_sensu_sessions", Help: "Nodes whose Sensu agents are connected now."}, sessions))
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "muster_sensu_crl_until_timestamp_seconds", Help: "When the first of the revocation lists of Sensu's agents is out of date. 0: never, or there are none."}, listsUntil))
	return m
}
