package zabbix

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// system is the name of Zabbix in the node registrations of intent. Nodes of other systems may have the same names.
const system = "zabbix"

// Config has the settings of a Server and the services that the Server calls.
type Config struct {
	Journal core.Appender
	Nodes   Nodes
	// Namespaces returns the namespaces that allow an address to send values of their nodes.
	Namespaces func(from netip.Addr) []string
	View       SequenceReader
	// LogPositions returns up to which positions the server has the logs of a node, by itemNumber. It waits until a commit is applied.
	LogPositions func(ctx context.Context, node model.NodeID, after journal.Position) (map[uint64]wire.LogPosition, error)
	// CertificateRequired reports whether a namespace takes values only from hosts that a certificate proves.
	CertificateRequired func(namespace string) bool
	// TLS has the server's certificate. The listener takes connections with and without TLS; nil: without.
	TLS *tls.Config
	// Authorities are the CAs of client certificates; nil: the server asks for none.
	Authorities *admission.Authorities
	// Discovered returns the items that discovery rules made on a node: those with a key or, if it is empty, all; nil: there are none.
	Discovered func(node model.NodeID, key string) []DiscoveredItem
	Polled     func() []model.NodeID                                                // the nodes with spec.zabbixAgent, ascending; nil: none is polled
	Dial       func(ctx context.Context, network, address string) (net.Conn, error) // opens connections to polled agents
	Intent     NodeRegistry
	Limiter    *core.Limiter
	Pressures  *core.FillLevels // requests with values wait for them
	Admission  *admission.Admission
	Limits     Limits

	Now        func() time.Time      // default time.Now
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Nodes is the directory of nodes and assignments that the Zabbix source reads.
type Nodes interface {
	NodeByName(namespace, name string) (model.NodeID, bool)
	Node(id model.NodeID) *directory.Node
	NamespaceByName(name string) (model.NamespaceID, bool)
	AssignmentOf(node model.NodeID) *directory.Assignment
	AssignmentVersion(node model.NodeID) (revision uint64, ok bool)
	// Revision changes with each change of nodes and assignments.
	Revision() int64
	// CatchUp returns when applied changes are in force.
	CatchUp(ctx context.Context) error
}

// SequenceReader reads the last received sequence number of each value stream of a node. *shard.Shard
// implements it.
type SequenceReader interface {
	LastNumbers(ctx context.Context, node model.NodeID, after journal.Position) ([]wire.StreamLast, error)
}

// NodeRegistry finds and creates the nodes of Zabbix agents. *intent.Service implements it.
type NodeRegistry interface {
	LookupNode(uid uuid.UUID) (intent.NodeInfo, bool)
	RegisterExternal(ctx context.Context, by intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error)
	RecordReport(info intent.NodeInfo, received intent.AgentReport) (limit, reason string)
}

// Limits has the limits of connections, requests and values. Zero: the default.
type Limits struct {
	MessageBytes int           // one request, also decompressed; default 16 MiB
	AllBytes     int64         // all whole requests that are handled at the same time, beside their beginnings; default 64 MiB
	ValueBytes   int           // one value; default 256 KiB
	Request      time.Duration // from accept until the request is read; default 30 s
}

// setDefaults fills zero values with defaults and fails if a dependency is missing.
func (c *Config) setDefaults() error {
	if c.Journal == nil || c.Nodes == nil || c.Namespaces == nil || c.CertificateRequired == nil || c.View == nil || c.LogPositions == nil || c.Intent == nil || c.Limiter == nil || c.Pressures == nil || c.Admission == nil {
		return errors.New("BUG: source of Zabbix senders without journal, nodes, namespaces, certificates, view, positions in logs, intent, limiter, pressures or admission")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
	l := &c.Limits
	l.MessageBytes = cmp.Or(l.MessageBytes, 16<<20)
	l.AllBytes = cmp.Or(l.AllBytes, 64<<20)
	l.ValueBytes = cmp.Or(l.ValueBytes, 256<<10)
	l.Request = cmp.Or(l.Request, 30*time.Second)
	return nil
}

// Server answers the requests of Zabbix senders and agents.
type Server struct {
	cfg        Config
	metrics    *metrics
	memory     *memoryLimit // of the requests that are handled
	items      itemIndexes
	agents     agentStates
	poller     poller
	logRefusal rate.Sometimes
	logFailure [outcomes]rate.Sometimes

	refusedHosts [outcomes]valueNode // without values, by reason; never changed
}

// New returns a server for Zabbix agents and senders, after a check of its configuration.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, metrics: newMetrics(cfg.Registerer), memory: newMemoryLimit(cfg.Limits.AllBytes), logRefusal: admission.OncePerMinute(),
		poller: poller{wake: make(chan struct{}, 1), agents: map[model.NodeID]*polledAgent{}}}
	s.metrics.showPolled(cfg.Registerer, &s.poller)
	for i := range s.logFailure {
		s.logFailure[i] = admission.OncePerMinute()
		s.refusedHosts[i].out = outcome(i)
	}
	return s, nil
}

// Listen answers requests, with and without TLS, until ctx ends.
func (s *Server) Listen(ctx context.Context, l net.Listener) error {
	config := s.cfg.TLS
	if config != nil && s.cfg.Authorities != nil {
		config = config.Clone()
		s.cfg.Authorities.ConfigureTLS(config)
	}
	return s.cfg.Admission.Serve(ctx, &admission.Listener{TCP: l, TLS: config, Plain: true, Gate: admission.NewHandshakeLimits().AcquireAgentSlot,
		Handshake: s.cfg.Limits.Request, Log: s.cfg.Log, Serve: s.serve})
}

// answerTime limits the time to write an answer.
const answerTime = 30 * time.Second

// serve reads and answers the one request of a connection. A request that is not in Zabbix' protocol gets no answer; one that is too long
// gets the reason.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	p, err := peerOf(nc)
	if err != nil {
		s.refuse(nc, "malformed", err)
		return
	}
	h, err := readHeader(nc, s.cfg.Limits.MessageBytes)
	if err != nil && model.ClassOf(err) != model.TooLarge {
		s.refuse(nc, "malformed", err)
		return
	}
	var answer *reply
	result := "malformed"
	if err == nil {
		answer, result, err = s.handle(ctx, nc, h, p)
	}
	if err != nil {
		s.refuse(nc, result, err)
		answer = &reply{Response: "failed", Info: model.OneLine(err)}
	} else {
		s.metrics.requests.WithLabelValues(result).Inc()
	}
	if answer == nil {
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic("BUG: " + err.Error()) // texts and numbers have an encoding
	}
	_ = nc.SetWriteDeadline(time.Now().Add(answerTime))
	if _, err = nc.Write(appendFrame(nil, h.flags, body)); err == nil && answer.Response == "failed" {
		wsconn.CloseGracefully(nc, admission.LingerTime) // the request may not be read to its end
	}
}

// reply is the JSON answer to a request.
type reply struct {
	Response string         `json:"response"` // success, failed
	Info     string         `json:"info,omitempty"`
	Data     *[]activeCheck `json:"data,omitempty"`
}

// refuse counts and logs a refused request.
func (s *Server) refuse(nc net.Conn, result string, err error) {
	s.metrics.requests.WithLabelValues(result).Inc()
	s.logRefusal.Do(func() {
		s.cfg.Log.Warn("refused a request of a Zabbix sender or agent; at most one line a minute, see muster_zabbix_requests_total", "peer", nc.RemoteAddr().String(), "err", err)
	})
}

// handle reads, decodes and handles one request. It begins with the payload after the header. result is a metric
// label. Without answer and error the peer gets none.
func (s *Server) handle(ctx context.Context, nc net.Conn, h frameHeader, p *peer) (answer *reply, result string, err error) {
	if p.namespaces = s.cfg.Namespaces(p.address); len(p.namespaces) == 0 {
		return nil, "address", model.Errorf(model.Forbidden, "no namespace allows address %s to send values", p.address).
			WithHint("muster edit namespace NAME, and add to spec: zabbixFrom: [%s]", p.address)
	}
	if err := s.checkCertificate(p); err != nil {
		return nil, "certificate", err
	}
	admission.MarkAuthenticated(nc)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Request)
	defer cancel()
	room := requestMemory{of: s.memory, all: int64(h.size + h.plain)}
	defer room.release()
	payload, err := readPayload(nc, h, func(n int) error { return room.acquire(ctx, n) })
	switch {
	case room.full:
		return nil, "busy", model.Errorf(model.Unavailable, "the server is handling too many large requests").WithHint("send it again")
	case err != nil:
		return nil, "malformed", err
	}
	s.metrics.bytes.Add(float64(h.size))
	r, err := parseRequest(payload)
	if err != nil {
		return nil, "malformed", err
	}
	result = strings.ReplaceAll(r.Request, " ", "_")
	switch r.Request {
	case "sender data":
		answer, err = s.storeSenderData(ctx, p, r, len(payload))
	case "agent data":
		answer, err = s.storeAgentData(ctx, p, r, len(payload))
	case "active checks":
		answer, err = s.answerActiveChecks(ctx, p, r)
	case "active check heartbeat":
		answer, err = s.handleHeartbeat(ctx, p, r)
	default:
		return nil, "unknown", model.Errorf(model.Invalid, "this server does not answer the request %q", model.Truncate(r.Request, 100)).
			WithHint("docs/from-zabbix.md lists the senders and agents that may connect")
	}
	if err != nil {
		result = model.ClassOf(err).Label()
	}
	return answer, result, err
}

// outcome is how the server handled a received value, as a label for metrics. Every value raises exactly one.
type outcome uint8

const (
	kept          outcome = iota // in the journal
	unknownHost                  // no node has this name
	ambiguousHost                // nodes of several namespaces have this name
	proxyHost                    // the node is a proxy node
	unprovenHost                 // its namespace requires a certificate of the host
	unknownKey                   // no Template of the node has this item
	otherItem                    // the item is no trapper item
	trapperItem                  // an agent sends it, but senders do
	noValue                      // a sender's row without a value
	notNumbered                  // a value of an agent without a number, or of another host
	repeated                     // the journal has the value of this number already
	wrongTime                    // the time lies in the future, or before 1970
	tooLong                      // the value is too long
	overLimit                    // a limit of the node or namespace
	notJournaled                 // the journal did not accept it
	outcomes
)

var outcomeNames = [outcomes]string{"kept", "unknown_host", "ambiguous_host", "proxy_node", "unproven_host", "unknown_key", "other_item", "trapper_item", "no_value", "not_numbered", "repeated", "time", "too_long", "limited", "not_stored"}

// reasons has a sentence for people for each outcome.
var reasons = [outcomes]string{
	unknownHost:   "no node has this name",
	ambiguousHost: "several namespaces that allow this address have a node with this name",
	proxyHost:     "the node is a proxy node, which no Template reaches",
	unprovenHost:  "its namespace requires TLS with a certificate that names this host",
	unknownKey:    "no Template of the node has this item",
	otherItem:     "the item has no trapper: true",
	trapperItem:   "the item has trapper: true, which senders send",
	noValue:       "it has no value",
	notNumbered:   "the agent states no number of the value, or another host",
	repeated:      "the agent sent this value before",
	wrongTime:     "the time of the value is more than 10 minutes in the future, or before 1970",
	tooLong:       "the value is too long",
	overLimit:     "the node or its namespace is at a limit; muster describe namespace shows it",
	notJournaled:  "the server's journal takes no values now",
}

// metrics holds the metrics of the Zabbix source.
type metrics struct {
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	values   [outcomes]prometheus.Counter
	polls    [pollOutcomes]prometheus.Counter
}

// newMetrics registers the metrics of the Zabbix source.
func newMetrics(r prometheus.Registerer) *metrics {
	meter := core.Meter{Registerer: r, Prefix: "muster_zabbix_"}
	m := &metrics{
		requests: meter.Vector("requests_total", "Requests of Zabbix senders and agents, by outcome: the request, or the reason of the refusal.", "outcome"),
		bytes:    meter.Counter("bytes_received_total", "Bytes of these requests."),
	}
	meter.Outcomes("values_total", "Values from Zabbix senders and agents, by outcome.", m.values[:], func(i int) string { return outcomeNames[i] })
	return m
}

// count counts values in the metrics by outcome, and logs refused values at most once a minute.
func (s *Server) count(out outcome, n int, host, key string) {
	s.metrics.values[out].Add(float64(n))
	if out != kept {
		s.logFailure[out].Do(func() {
			s.cfg.Log.Warn("refused a value from a Zabbix sender or agent; at most one line a minute and reason, see muster_zabbix_values_total",
				"host", host, "key", key, "reason", reasons[out])
		})
	}
}

// failedText returns a text about a refused value, with the reason, for the answer to the sender.
func failedText(out outcome, host, key string) string {
	return fmt.Sprintf("%s %s: %s", model.Truncate(host, 100), model.Truncate(key, 200), reasons[out])
}
