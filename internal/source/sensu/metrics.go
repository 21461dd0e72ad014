package sensu

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/source/core"
)

// outcome is the result of handling one message. Every message raises exactly one.
type outcome uint8

const (
	alive       outcome = iota // a keepalive went to the journal
	kept                       // a result went to the journal
	malformed                  // cannot be decoded
	other                      // of another entity than the session's
	unassigned                 // of a check that the node's assignment does not name
	empty                      // neither a check nor metrics
	states                     // no room for another event of the node or its namespace
	displaced                  // the session has ended already
	unkept                     // the journal did not accept it
	unknownKind                // of a type that agents do not send
	disabled                   // of a disabled passive check
	uncreated                  // its passive check could not be created
	outcomes
)

var outcomeNames = [outcomes]string{"keepalive", "kept", "malformed", "other_entity", "unassigned", "empty", "states", "displaced", "unkept", "unknown_type", "disabled", "unmade"}

type metrics struct {
	core.SessionMetrics
	messages      [outcomes]prometheus.Counter
	secrets       *prometheus.CounterVec
	requests      prometheus.Counter
	impossible    prometheus.Counter
	overdue       prometheus.Counter
	throttled     prometheus.Counter
	valuesLost    prometheus.Counter
	passwordLocks prometheus.Counter
}

func newMetrics(r prometheus.Registerer, sessions, listsExpire func() float64) *metrics {
	meter := core.Meter{Registerer: r, Prefix: "muster_sensu_"}
	m := &metrics{
		SessionMetrics: meter.Sessions(core.SessionNames{Messages: "messages", Handshakes: "logins", Archives: "assets", Agents: "Sensu agents"}, sessions),
		secrets:        meter.Vector("secrets_total", "Runs with secrets, by outcome: given, failed (a value was not found), refused (the assignment changed meanwhile).", "outcome"),
		requests:       meter.Counter("requests_total", "Runs of checks requested of Sensu agents."),
		impossible:     meter.Counter("impossible_total", "Due runs that a Sensu agent cannot do; the event has the reason."),
		overdue:        meter.Counter("overdue_total", "Requests sent while the one before was not answered."),
		throttled:      meter.Counter("throttled_total", "Pauses in reading from a Sensu agent by a limit of its node or namespace."),
		valuesLost:     meter.Counter("values_lost_total", "Values of Sensu agents' metrics that were dropped: no number, a name or tag too long, or more than a result holds."),
		passwordLocks:  meter.Counter("guessing_total", "Addresses of Sensu agents locked after too many wrong passwords, until they were quiet for half a minute."),
	}
	meter.Outcomes("messages_total", "Messages from Sensu agents, by outcome.", m.messages[:], func(i int) string { return outcomeNames[i] })
	meter.Gauge("crl_until_timestamp_seconds", "Expiry of the first revocation list of Sensu agents. 0: never, or there are none.", listsExpire)
	return m
}
