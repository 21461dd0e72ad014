package muster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/wire"
)

// Listener accepts TLS connections of agents and of users' clients on one TCP port. A client that offers the ALPN
// protocol muster.v1 must show a node's certificate and becomes a session. Clients that do not offer muster.v1 show
// no certificate and go to an http.Server.
type Listener struct {
	tcp        net.Listener
	server     *Server
	log        *slog.Logger
	config     *tls.Config
	gates      admission.HandshakeLimits
	people     connQueue
	assets     connQueue // agents that fetch archives
	peopleOnly bool      // the listener is for people only; agents have a listener of their own
}

// Listen returns the listener for agents and users' clients. It accepts nothing before Run.
func Listen(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger) *Listener {
	return newListener(l, authority, server, log, true)
}

// ListenPeople returns a TLS listener for people's browsers and commands, which accepts no agents. Its TLS
// handshake refuses clients that offer only the agent protocol muster.v1.
func ListenPeople(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger) *Listener {
	return newListener(l, authority, server, log, false)
}

// newListener returns a TLS listener that accepts people's browsers and commands. If agents is set, it also
// serves agents.
func newListener(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger, agents bool) *Listener {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	gates := admission.NewHandshakeLimits()
	names := newServerNameCheck(authority, server.metrics, log)
	return &Listener{
		tcp: l, server: server, log: log, gates: gates, config: newTLSConfig(authority, server, gates, names, agents),
		people: newConnQueue(l.Addr()), assets: newConnQueue(l.Addr()),
		peopleOnly: !agents,
	}
}

// newTLSConfig returns the TLS configuration of a listener, with a client certificate required only for agents.
func newTLSConfig(authority *pki.Authority, server *Server, gates admission.HandshakeLimits, names *serverNameCheck, admitAgents bool) *tls.Config {
	people := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: authority.GetCertificate,
	}
	agents := people.Clone()
	agents.NextProtos = []string{wire.Subprotocol}
	agents.ClientAuth = tls.RequireAndVerifyClientCert
	agents.ClientCAs = authority.Pool()
	// Hello checks whether the node exists and is not revoked, also after a resumption: its refusal is a sentence, a TLS
	// alert is not.
	agents.VerifyConnection = func(state tls.ConnectionState) error {
		if _, err := pki.NodeOf(state.PeerCertificates[0]); err != nil {
			return fmt.Errorf("%w: %w", admission.ErrNoNode, err)
		}
		return nil
	}
	assets := agents.Clone()
	assets.NextProtos = []string{wire.AssetProtocol}
	tickets := &ticketKeys{authority: authority, now: server.cfg.Now, configs: []*tls.Config{people, agents, assets}}
	tickets.rotate()
	people.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		tickets.rotate()
		conn := hello.Conn.(*admission.Conn)
		if admitAgents && slices.Contains(hello.SupportedProtos, wire.Subprotocol) {
			gates.AcquireAgentSlot(conn)
			names.checkRequestedName(hello.ServerName, true)
			return agents, nil
		}
		if admitAgents && slices.Contains(hello.SupportedProtos, wire.AssetProtocol) {
			gates.AcquireAgentSlot(conn)
			return assets, nil
		}
		gates.AcquireUserSlot(conn)
		names.checkRequestedName(hello.ServerName, false)
		return nil, nil
	}
	return people
}

// People returns a listener with the TLS connections of people (browsers, commands) and of agents that enrol. It is
// for http.Server.Serve.
func (l *Listener) People() net.Listener { return &l.people }

// Run accepts connections, and passes each to its server, until ctx ends.
func (l *Listener) Run(ctx context.Context) error {
	defer close(l.people.done)
	fetches := l.server.assetServer()
	go func() { _ = fetches.Serve(&l.assets) }()
	defer fetches.Close()
	defer close(l.assets.done)
	listener := admission.Listener{TCP: l.tcp, TLS: l.config, Handshake: l.server.cfg.Limits.Handshake, Log: l.log, Serve: l.serve}
	if l.peopleOnly {
		listener.Warnings = []admission.Warning{{Causes: []string{"tls_alpn"}, Text: "refused an agent on the listener for people; " +
			"an agent that joined before --listen-agents was set learns the new address only while the old one serves it: " +
			"restart without --listen-agents and with --agent-servers NEW,OLD, and with --listen-agents a minute later"}}
	}
	return l.server.admission.Serve(ctx, &listener)
}

// serve passes a connection to the agents' or the users' server, as its ALPN protocol demands.
func (l *Listener) serve(ctx context.Context, nc net.Conn) {
	conn := nc.(*tls.Conn)
	state := conn.ConnectionState()
	switch state.NegotiatedProtocol {
	case wire.Subprotocol:
		l.server.ServeConn(ctx, conn, certificateIdentity(state.PeerCertificates))
	case wire.AssetProtocol:
		_ = conn.SetDeadline(time.Time{})
		l.assets.addConn(&assetConn{Conn: conn, proof: certificateIdentity(state.PeerCertificates)})
	default:
		_ = conn.SetDeadline(time.Time{})
		l.people.addConn(conn)
	}
}

// certificateIdentity returns the node id and public key in a verified client certificate of an agent. It
// cannot fail, because VerifyConnection has read the same certificate.
func certificateIdentity(chain []*x509.Certificate) Proof {
	uid, err := pki.NodeOf(chain[0])
	if err != nil {
		panic("BUG: verified certificate names no node: " + err.Error())
	}
	return Proof{Node: uid, Key: pki.FingerprintOf(chain[0])}
}

// connQueue is a net.Listener that hands connections accepted by Listener.Run to an http.Server.
type connQueue struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

// newConnQueue returns an empty queue of accepted connections.
func newConnQueue(addr net.Addr) connQueue {
	return connQueue{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// addConn queues a connection for Accept, or closes the connection if the server is stopping.
func (q *connQueue) addConn(nc net.Conn) {
	select {
	case q.conns <- nc:
	case <-q.done:
		nc.Close()
	}
}

// Accept returns the next queued connection to the HTTP server.
func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case nc := <-q.conns:
		return nc, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing, because Listener.Run owns the listener.
func (q *connQueue) Close() error { return nil }

// Addr returns the address of the TCP listener.
func (q *connQueue) Addr() net.Addr { return q.addr }

// ServePlain serves agents without TLS on a loopback listener, for benchmarks only. It trusts the node id in Hello. It
// refuses other addresses.
func ServePlain(ctx context.Context, l net.Listener, server *Server) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return fmt.Errorf("listen for agents without TLS on %s: expected a loopback address such as 127.0.0.1", l.Addr())
	}
	return server.admission.Serve(ctx, &admission.Listener{TCP: l, Handshake: server.cfg.Limits.Handshake, Log: server.cfg.Log,
		Serve: func(ctx context.Context, nc net.Conn) { server.ServeConn(ctx, nc, Proof{}) }})
}

// serverNameCheck counts and logs host names that clients request but the server's certificate lacks. TLS
// clients request the names. Clients of people refuse the certificate then; agents verify by the CA alone.
type serverNameCheck struct {
	authority      *pki.Authority
	metrics        *metrics
	log            *slog.Logger
	people, agents rate.Sometimes
}

// newServerNameCheck returns a check of the host names that TLS clients request against the certificate.
func newServerNameCheck(authority *pki.Authority, m *metrics, log *slog.Logger) *serverNameCheck {
	return &serverNameCheck{authority: authority, metrics: m, log: log, people: admission.OncePerMinute(), agents: admission.OncePerMinute()}
}

// checkRequestedName counts and logs a requested host name that is missing in the server's certificate.
func (n *serverNameCheck) checkRequestedName(name string, agent bool) {
	if name == "" {
		return
	}
	cert, err := n.authority.GetCertificate(nil)
	if err != nil || cert.Leaf.VerifyHostname(name) == nil {
		return
	}
	who, once, level := "people", &n.people, slog.LevelWarn
	text := "clients use a name that is not in the server's certificate: commands and browsers refuse it; add the name with --advertise (the CA stays: no agent joins again)"
	if agent {
		who, once, level = "agents", &n.agents, slog.LevelInfo
		text = "agents use a name that is not in the server's certificate; agents accept it, people's clients refuse it: add the name with --advertise"
	}
	n.metrics.unknownNames.WithLabelValues(who).Inc()
	if !isHostName(name) {
		return // the name was chosen by an unauthenticated client, so the log must not contain it
	}
	once.Do(func() {
		n.log.Log(context.Background(), level, text, "name", name, "advertise", strings.Join(pki.Advertise(n.authority.Names(), name), ","))
	})
}

// isHostName reports whether a text has only characters of host names. Such a text can safely stand in a suggested
// command.
func isHostName(text string) bool {
	return len(text) <= 253 && strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !strings.HasPrefix(text, "-")
}

// ticketKeys derives TLS session-ticket keys that stay valid across a restart of the server. A fleet that reconnects
// at once resumes its TLS sessions, which costs a fraction of a handshake with certificates. Hello checks the node
// all the same.
type ticketKeys struct {
	authority *pki.Authority
	now       func() time.Time
	configs   []*tls.Config
	day       atomic.Int64 // of the keys in use
}

// rotate installs the TLS session ticket keys of the present day in all TLS configurations.
func (t *ticketKeys) rotate() {
	now := t.now()
	day := now.Unix() / 86400
	if old := t.day.Load(); old == day || !t.day.CompareAndSwap(old, day) {
		return
	}
	keys := t.authority.TicketKeys(now)
	for _, c := range t.configs {
		c.SetSessionTicketKeys(keys)
	}
}
