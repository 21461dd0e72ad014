package sensu

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
)

// Config holds the settings and dependencies of a Server.
type Config struct {
	core.Config
	// Limiter, Admission and Archives are shared with Muster's own agents.
	Limiter   *core.Limiter
	Admission *admission.Admission
	Archives  *core.Archives

	Access      Access
	Intent      Intent
	View        View
	Limits      Limits
	Authorities *admission.Authorities // of agents' certificates; nil: certificates are not accepted

	Checks Checks

	// Handler returns a declared handler, from memory. Agents name the handler of their deregistration.
	Handler func(namespace, name string) (*model.HandlerSpec, bool)
	// HasPipeline reports whether a pipeline is in force: a handler or handler set of Sensu's events has one.
	HasPipeline func(route.Name) bool

	Rand func() uint64 // default math/rand's
}

// Access is the interface that authenticates agents by certificate or password. *access.Service implements it.
type Access interface {
	LoginProgram(ctx context.Context, role, name, password string, admit access.PasswordThrottle) (access.Program, error)
	AgentProgram(name string) (access.Program, error)
	Current(p *access.Program) bool
}

// Intent is the interface that reads and changes declared resources and nodes. *intent.Service implements it.
// RegisterExternal, Get and Apply may wait for SQL; the rest is in memory.
type Intent interface {
	CheckNamespace(name string) error
	LookupNode(uid uuid.UUID) (intent.NodeInfo, bool)
	Tombstone(uid uuid.UUID) (intent.Tombstone, bool)
	RegisterExternal(ctx context.Context, by intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error)
	RecordReport(info intent.NodeInfo, received intent.AgentReport) (limit, reason string)

	LimitsFor(namespace string) model.Limits
	Get(ctx context.Context, key intent.Key) (*model.Resource, error)
	core.Declarer
}

// Checks is the interface that finds declared checks, and passive checks for unrequested events.
type Checks interface {
	FilterContext(node, runner model.NodeID, check model.CheckID) directory.FilterContext
	// Keepalive returns the keepalive check of a node with its handlers and pipelines.
	Keepalive(node model.NodeID) *model.CheckDefinition
	PassiveCheck(namespace, name string) (directory.PassiveCheck, bool)
	PassiveChecks(namespace, source string) []model.CheckID
	// CatchUp returns when applied changes are in force.
	CatchUp(ctx context.Context) error
}

// View is the interface that reports existing events of a node and limits on new events.
type View interface {
	Admit(node model.NodeID, definition *model.CheckDefinition) (code, reason string)
	// HasEvent reports whether a node has an event of a check.
	HasEvent(node model.NodeID, check model.CheckID) bool
}

// Limits has the limits of Sensu agents' sessions and messages. Zero: the default.
type Limits struct {
	core.SessionLimits
	MessageBytes int           // one message; default 1 MiB
	RefusalDelay time.Duration // before a connection that is refused after its handshake is closed; default 30 s
	FirstWithin  time.Duration // a new check runs once within this; default 10 s
}

// setDefaults fills zero values with defaults and fails if a dependency is missing.
func (c *Config) setDefaults() error {
	if c.Limiter == nil || c.Admission == nil || c.Archives == nil || c.Intent == nil || c.View == nil || c.Checks == nil || c.Handler == nil || c.HasPipeline == nil {
		return errors.New("BUG: the source of Sensu agents needs limiter, admission, archives, intent, view, checks and handlers")
	}
	if c.Rand == nil {
		c.Rand = rand.Uint64
	}
	l := &c.Limits
	l.SetDefaults(15*time.Second, 60*time.Second, 180*time.Second) // agents wait 15 s for their handshake
	l.MessageBytes = cmp.Or(l.MessageBytes, 1<<20)
	l.RefusalDelay = cmp.Or(l.RefusalDelay, 30*time.Second)
	l.FirstWithin = cmp.Or(l.FirstWithin, 10*time.Second)
	return c.Config.Complete()
}

// messageOutcome is the outcome of an agent's message, such as kept or refused, as a label for metrics. Every
// message raises exactly one.
type messageOutcome uint8

const (
	keepaliveKept    messageOutcome = iota // a keepalive went to the journal
	resultKept                             // a result went to the journal
	messageMalformed                       // a message that cannot be decoded
	otherEntity                            // an event of another entity than the session's
	checkUnassigned                        // an event of a check that the node's assignment does not name
	emptyEvent                             // the event has neither a check nor metrics
	stateLimit                             // no room for another event of the node or its namespace
	sessionDisplaced                       // the session has ended already
	notJournaled                           // the journal did not accept it
	unknownKind                            // a message of a type that agents do not send
	disabledCheck                          // an event of a disabled passive check
	creationFailed                         // the passive check of the event could not be created
	outcomes
)

var outcomeNames = [outcomes]string{"keepalive", "kept", "malformed", "other_entity", "unassigned", "empty", "states", "replaced", "not_stored", "unknown_type", "disabled", "not_created"}

// metrics holds the metrics of the Sensu source.
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

// newMetrics registers the metrics of the Sensu source.
func newMetrics(r prometheus.Registerer, sessions, listsExpire func() float64) *metrics {
	meter := core.Meter{Registerer: r, Prefix: "muster_sensu_"}
	m := &metrics{
		SessionMetrics: meter.Sessions(core.SessionNames{Messages: "messages", Handshakes: "logins", Archives: "assets", Agents: "Sensu agents"}, sessions),
		secrets:        meter.Vector("secrets_total", "Runs with secrets, by outcome: given, failed (a value was not found), refused (the assignment changed meanwhile).", "outcome"),
		requests:       meter.Counter("requests_total", "Check runs requested from Sensu agents."),
		impossible:     meter.Counter("impossible_total", "Due runs that a Sensu agent cannot perform; the event has the reason."),
		overdue:        meter.Counter("overdue_total", "Check requests sent while the previous request had no answer."),
		throttled:      meter.Counter("throttled_total", "Pauses in reading from a Sensu agent by a limit of its node or namespace."),
		valuesLost:     meter.Counter("values_lost_total", "Dropped metric values of Sensu agents: not a number, a name or tag too long, or too many for one result."),
		passwordLocks:  meter.Counter("guessing_total", "Addresses of Sensu agents locked after too many wrong passwords, until half a minute passes without an attempt."),
	}
	meter.Outcomes("messages_total", "Messages from Sensu agents, by outcome.", m.messages[:], func(i int) string { return outcomeNames[i] })
	meter.Gauge("crl_until_timestamp_seconds", "Expiry of the first revocation list of Sensu agents. 0: never, or there are none.", listsExpire)
	return m
}
