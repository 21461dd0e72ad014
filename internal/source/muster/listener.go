package muster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Listener shares one TCP listener between agents and people. A client that offers the ALPN protocol muster.v1 must show a
// node's certificate and becomes a session. Others show none and go to an http.Server.
type Listener struct {
	tcp        net.Listener
	server     *Server
	log        *slog.Logger
	config     *tls.Config
	gates      admission.Gates
	people     connQueue
	assets     connQueue // agents that fetch archives
	once       logOnce
	peopleOnly bool // agents have another listener
}

// logOnce limits log lines on refused connections to one a minute each. Metrics count all.
type logOnce struct{ certificate, unlistedProxy, noProxyHeader, agentAmongPeople rate.Sometimes }

// Listen returns the shared listener. Nothing is accepted before Run.
func Listen(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger) *Listener {
	return listen(l, authority, server, log, true)
}

// ListenPeople returns a listener for people: the handshake refuses clients that offer muster.v1 only.
func ListenPeople(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger) *Listener {
	return listen(l, authority, server, log, false)
}

func listen(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger, agents bool) *Listener {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	gates := admission.NewGates()
	names := newServerNames(authority, server.metrics, log)
	once := admission.OncePerMinute
	return &Listener{
		tcp: l, server: server, log: log, gates: gates, config: tlsConfig(authority, server, gates, names, agents),
		people: newConnQueue(l.Addr()), assets: newConnQueue(l.Addr()),
		once: logOnce{once(), once(), once(), once()}, peopleOnly: !agents,
	}
}

func tlsConfig(authority *pki.Authority, server *Server, gates admission.Gates, names *serverNames, admitAgents bool) *tls.Config {
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
			gates.EnterAgent(conn)
			names.check(hello.ServerName, true)
			return agents, nil
		}
		if admitAgents && slices.Contains(hello.SupportedProtos, wire.AssetProtocol) {
			gates.EnterAgent(conn)
			return assets, nil
		}
		gates.EnterPerson(conn)
		names.check(hello.ServerName, false)
		return nil, nil
	}
	return people
}

// People returns the connections of browsers, commands and enrolling agents, after TLS, for http.Server.Serve.
func (l *Listener) People() net.Listener { return &l.people }

// Run accepts until ctx ends.
func (l *Listener) Run(ctx context.Context) error {
	defer close(l.people.done)
	fetches := l.server.assetServer()
	go func() { _ = fetches.Serve(&l.assets) }()
	defer fetches.Close()
	defer close(l.assets.done)
	return l.server.admission.Accept(ctx, l.tcp, l.server.cfg.Log, func(c *admission.Conn) { l.serve(ctx, c) })
}

// serve reads the PROXY header, makes the TLS handshake, and passes the connection on by its ALPN protocol.
func (l *Listener) serve(ctx context.Context, c *admission.Conn) {
	_ = c.SetDeadline(time.Now().Add(l.server.cfg.Limits.Handshake))
	if err := l.server.admission.ReadProxyHeader(ctx, c); err != nil {
		l.refuseProxy(c, err)
		return
	}
	conn := tls.Server(c, l.config)
	err := conn.HandshakeContext(ctx)
	c.LeaveGate()
	if err != nil {
		l.refuseTLS(c, err)
		return
	}
	state := conn.ConnectionState()
	switch state.NegotiatedProtocol {
	case wire.Subprotocol:
		l.server.ServeConn(ctx, conn, proofOf(state.PeerCertificates))
	case wire.AssetProtocol:
		_ = conn.SetDeadline(time.Time{})
		l.assets.put(&assetConn{Conn: conn, proof: proofOf(state.PeerCertificates)})
	default:
		_ = conn.SetDeadline(time.Time{})
		l.people.put(conn)
	}
}

// refuseProxy closes a load balancer's connection without a valid PROXY header.
func (l *Listener) refuseProxy(c *admission.Conn, err error) {
	cause := admission.ProxyFailure(err)
	l.server.metrics.Handshakes.WithLabelValues(cause).Inc()
	l.log.Debug("PROXY header", "peer", c.RemoteAddr(), "cause", cause, "error", err)
	if cause == "proxy_missing" || cause == "proxy_malformed" {
		l.once.noProxyHeader.Do(func() {
			l.log.Warn("refused a connection from a network of --proxy-from without a PROXY header; let the load balancer send one "+
				"(HAProxy: send-proxy-v2 on its server lines) or remove the network from the list; at most one line a minute, see muster_session_handshakes_total",
				"peer", c.RemoteAddr(), "error", err)
		})
	}
	c.Close()
}

// refuseTLS closes a connection whose handshake failed. The peer can read the reason: the TLS alert, or a sentence if it
// does not speak TLS.
func (l *Listener) refuseTLS(c *admission.Conn, err error) {
	cause := c.Failure(err)
	l.server.metrics.Handshakes.WithLabelValues(cause).Inc()
	l.log.Debug("TLS handshake", "peer", c.RemoteAddr(), "cause", cause, "error", err)
	switch {
	case cause == "tls_timeout", cause == "tls_gone", cause == "proxy_check":
		c.Close()
		return
	case cause == "proxy_not_listed":
		l.once.unlistedProxy.Do(func() {
			l.log.Warn("refused a connection that begins with a PROXY header from a network that is not listed; if it is your load balancer, "+
				"add --proxy-from "+model.HostOf(c.RemoteAddr().String())+"; at most one line a minute, see muster_session_handshakes_total", "peer", c.RemoteAddr())
		})
	case cause == "tls_plain_http":
		_, _ = io.WriteString(c, plainHTTPAnswer)
	case cause == "tls_alpn" && l.peopleOnly:
		l.once.agentAmongPeople.Do(func() {
			l.log.Warn("refused an agent on the listener for people; an agent that joined before --listen-agents was set learns the new address only while the old one "+
				"serves it: restart without --listen-agents and with --agent-servers NEW,OLD, and with --listen-agents a minute later; "+
				"at most one line a minute, see muster_session_handshakes_total", "peer", c.RemoteAddr())
		})
	case strings.HasPrefix(cause, "tls_certificate"):
		l.once.certificate.Do(func() {
			l.log.Warn("refused a client's certificate; at most one line a minute, see muster_session_handshakes_total", "peer", c.RemoteAddr(), "error", err)
		})
	}
	wsconn.CloseGracefully(c, admission.LingerTime)
}

const plainHTTPAnswer = "HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nThis port speaks TLS: write https:// before the address.\n"

// proofOf cannot fail: VerifyConnection has read the same certificate.
func proofOf(chain []*x509.Certificate) Proof {
	uid, err := pki.NodeOf(chain[0])
	if err != nil {
		panic("BUG: verified certificate names no node: " + err.Error())
	}
	return Proof{Node: uid, Key: pki.FingerprintOf(chain[0])}
}

// connQueue hands accepted connections to an http.Server.
type connQueue struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

func newConnQueue(addr net.Addr) connQueue {
	return connQueue{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (q *connQueue) put(nc net.Conn) {
	select {
	case q.conns <- nc:
	case <-q.done:
		nc.Close()
	}
}

func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case nc := <-q.conns:
		return nc, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener belongs to Listener.Run.
func (q *connQueue) Close() error { return nil }

func (q *connQueue) Addr() net.Addr { return q.addr }

// ServePlain accepts agents without TLS on a loopback listener and believes the node id in Hello: for benchmarks. It
// refuses other addresses.
func ServePlain(ctx context.Context, l net.Listener, server *Server) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return fmt.Errorf("listen for agents without TLS on %s: want a loopback address", l.Addr())
	}
	return server.admission.Accept(ctx, l, server.cfg.Log, func(c *admission.Conn) { server.ServeConn(ctx, c, Proof{}) })
}

// serverNames counts and logs names of the server that clients ask for and its certificate does not have. Clients of
// people refuse the certificate then; agents verify by the CA alone.
type serverNames struct {
	authority      *pki.Authority
	metrics        *metrics
	log            *slog.Logger
	people, agents rate.Sometimes
}

func newServerNames(authority *pki.Authority, m *metrics, log *slog.Logger) *serverNames {
	return &serverNames{authority: authority, metrics: m, log: log, people: admission.OncePerMinute(), agents: admission.OncePerMinute()}
}

// check examines the name that a client asks for; empty: it asks for none, or for an address.
func (n *serverNames) check(name string, agent bool) {
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
		return // a stranger chose the text
	}
	once.Do(func() {
		n.log.Log(context.Background(), level, text, "name", name, "advertise", strings.Join(pki.Advertise(n.authority.Names(), name), ","))
	})
}

// isHostName reports whether a text may be pasted into a command as a name.
func isHostName(text string) bool {
	return len(text) <= 253 && strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !strings.HasPrefix(text, "-")
}

// ticketKeys gives TLS configurations keys for session tickets that survive a restart of the server. A fleet that
// reconnects at once resumes its TLS sessions, which costs a fraction of a handshake with certificates. Hello checks the
// node all the same.
type ticketKeys struct {
	authority *pki.Authority
	now       func() time.Time
	configs   []*tls.Config
	day       atomic.Int64 // of the keys in use
}

// rotate puts the keys of the day in force.
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
