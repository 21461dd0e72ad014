package muster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Listener shares one TCP listener between agents and people: who offers the ALPN
// protocol muster.v1 is asked for a node's certificate and becomes a session,
// everybody else is never asked for one and is left to an http.Server.
type Listener struct {
	tcp    net.Listener
	server *Server
	log    *slog.Logger
	config *tls.Config
	gates  gates
	people peopleListener
	assets peopleListener // agents that fetch archives
	told   told
	apart  bool // agents have a listener of their own
}

// told are what is logged once a minute at most; the metrics count all of it.
type told struct{ certificate, unlisted, introduced, strayed rate.Sometimes }

func newTold() told {
	minute := func() rate.Sometimes { return rate.Sometimes{Interval: time.Minute} }
	return told{minute(), minute(), minute(), minute()}
}

// Listen makes the shared listener; nothing is accepted before Run.
func Listen(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger) *Listener {
	return listen(l, authority, server, log, true)
}

// ListenPeople makes a listener for everybody but agents: who offers nothing but
// muster.v1 is refused in the handshake.
func ListenPeople(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger) *Listener {
	return listen(l, authority, server, log, false)
}

func listen(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger, agents bool) *Listener {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	gates := newGates()
	names := newNames(authority, server.metrics, log)
	return &Listener{
		tcp: l, server: server, log: log, gates: gates, config: tlsConfig(authority, server, gates, names, agents),
		people: peopleListener{addr: l.Addr(), conns: make(chan net.Conn), done: make(chan struct{})},
		assets: peopleListener{addr: l.Addr(), conns: make(chan net.Conn), done: make(chan struct{})},
		told:   newTold(), apart: !agents,
	}
}

func tlsConfig(authority *pki.Authority, server *Server, gates gates, names *names, letAgentsIn bool) *tls.Config {
	people := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: authority.GetCertificate,
	}
	agents := people.Clone()
	agents.NextProtos = []string{wire.Subprotocol}
	agents.ClientAuth = tls.RequireAndVerifyClientCert
	agents.ClientCAs = authority.Pool()
	// Whether the node is known and not revoked is asked at Hello, also after a
	// resumption: so it is told in a sentence, not in a TLS alert.
	agents.VerifyConnection = func(state tls.ConnectionState) error {
		if _, err := pki.NodeOf(state.PeerCertificates[0]); err != nil {
			return fmt.Errorf("%w: %w", errNoNode, err)
		}
		return nil
	}
	assets := agents.Clone()
	assets.NextProtos = []string{wire.AssetProtocol}
	tickets := &tickets{authority: authority, now: server.cfg.Now, configs: []*tls.Config{people, agents, assets}}
	tickets.renew()
	people.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		tickets.renew()
		conn := hello.Conn.(*guest)
		if letAgentsIn && slices.Contains(hello.SupportedProtos, wire.Subprotocol) {
			conn.enter(gates.agents)
			names.look(hello.ServerName, true)
			return agents, nil
		}
		if letAgentsIn && slices.Contains(hello.SupportedProtos, wire.AssetProtocol) {
			conn.enter(gates.agents)
			return assets, nil
		}
		conn.enter(gates.people)
		names.look(hello.ServerName, false)
		return nil, nil
	}
	return people
}

// errNoNode: a certificate of our CA that is no node's.
var errNoNode = errors.New("certificate is no node's")

// People yields connections of browsers, the CLI and enrolling agents, TLS done; it
// is for http.Server.Serve.
func (l *Listener) People() net.Listener { return &l.people }

// Run accepts until ctx ends.
func (l *Listener) Run(ctx context.Context) error {
	defer close(l.people.done)
	fetches := l.server.assetServer()
	go func() { _ = fetches.Serve(&l.assets) }()
	defer fetches.Close()
	defer close(l.assets.done)
	return l.server.accept(ctx, l.tcp, func(g *guest) { l.handshake(ctx, g) })
}

// accept gives every connection that finds a place a goroutine; it returns when all of
// them have returned after ctx ended.
func (s *Server) accept(ctx context.Context, tcp net.Listener, serve func(*guest)) error {
	defer context.AfterFunc(ctx, func() { tcp.Close() })()
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		nc, err := tcp.Accept()
		if ctx.Err() != nil {
			if err == nil {
				nc.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept connections on %s: %w", tcp.Addr(), err)
		}
		if err != nil { // out of descriptors, or the peer gave up: it passes
			s.cfg.Log.Warn("accept connection", "address", tcp.Addr(), "error", err)
			pause.For(ctx, 50*time.Millisecond)
			continue
		}
		if g := s.places.enter(nc); g != nil {
			serving.Go(func() { serve(g) })
		}
	}
}

// handshake hears whose connection it is, makes TLS and gives it to whom it is for.
func (l *Listener) handshake(ctx context.Context, g *guest) {
	_ = g.SetDeadline(time.Now().Add(l.server.cfg.Limits.Handshake))
	if err := l.server.proxies.introduce(ctx, g); err != nil {
		l.unintroduced(g, err)
		return
	}
	conn := tls.Server(g, l.config)
	err := conn.HandshakeContext(ctx)
	g.opened()
	if err != nil {
		l.failed(g, err)
		return
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == wire.AssetProtocol {
		_ = conn.SetDeadline(time.Time{})
		l.assets.give(&fetcher{Conn: conn, proof: proven(state.PeerCertificates)})
		return
	}
	if state.NegotiatedProtocol != wire.Subprotocol {
		_ = conn.SetDeadline(time.Time{})
		l.people.give(conn)
		return
	}
	l.server.ServeConn(ctx, conn, proven(state.PeerCertificates))
}

// unintroduced counts and closes a balancer's connection that does not say whose it is.
func (l *Listener) unintroduced(g *guest, err error) {
	why := proxyFailure(err)
	l.server.metrics.handshakes.WithLabelValues(why).Inc()
	l.log.Debug("PROXY header", "peer", g.RemoteAddr(), "why", why, "error", err)
	if why == "proxy_missing" || why == "proxy_malformed" {
		l.told.introduced.Do(func() {
			l.log.Warn("a connection from an address in --proxy-from must begin with a PROXY header, and is refused; let the balancer send one "+
				"(HAProxy: send-proxy-v2 on its server lines) or take the address off the list; of others within a minute only the metrics tell",
				"peer", g.RemoteAddr(), "error", err)
		})
	}
	g.Close()
}

// failed counts and closes. A peer that is there reads why: the alert of TLS, or words
// where it does not speak TLS.
func (l *Listener) failed(g *guest, err error) {
	why := tlsFailure(err)
	if why == "tls_gone" && g.check {
		why = "proxy_check"
	}
	l.server.metrics.handshakes.WithLabelValues(why).Inc()
	l.log.Debug("TLS handshake", "peer", g.RemoteAddr(), "why", why, "error", err)
	switch why {
	case "tls_timeout", "tls_gone", "proxy_check":
		g.Close()
		return
	case "proxy_not_listed":
		l.told.unlisted.Do(func() {
			l.log.Warn("a connection begins with a PROXY header, and is refused: only peers that are listed are believed; if this is your balancer, "+
				"add --proxy-from "+model.HostOf(g.RemoteAddr().String())+"; of others within a minute only the metrics tell", "peer", g.RemoteAddr())
		})
	case "tls_plain_http":
		_, _ = io.WriteString(g, plainHTTPAnswer)
	}
	if l.apart && why == "tls_alpn" {
		l.told.strayed.Do(func() {
			l.log.Warn("an agent came to the address for people, and is refused; if it joined before there was one for agents, it learns that only while it is "+
				"served here: restart without --listen-agents and with --agent-servers NEW,OLD, and with --listen-agents a minute later; "+
				"of others within a minute only the metrics tell", "peer", g.RemoteAddr())
		})
	}
	if strings.HasPrefix(why, "tls_certificate") {
		l.told.certificate.Do(func() {
			l.log.Warn("a client's certificate is refused; of others within a minute only the metrics tell", "peer", g.RemoteAddr(), "error", err)
		})
	}
	wsconn.Part(g, partWithin)
}

// proven cannot fail: VerifyConnection has read the same certificate.
func proven(chain []*x509.Certificate) Proof {
	uid, err := pki.NodeOf(chain[0])
	if err != nil {
		panic("BUG: verified certificate names no node: " + err.Error())
	}
	return Proof{Node: uid, Key: pki.FingerprintOf(chain[0])}
}

// peopleListener hands over connections that are accepted already.
type peopleListener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

func (p *peopleListener) give(nc net.Conn) {
	select {
	case p.conns <- nc:
	case <-p.done:
		nc.Close()
	}
}

func (p *peopleListener) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener belongs to Listener.Run.
func (p *peopleListener) Close() error { return nil }

func (p *peopleListener) Addr() net.Addr { return p.addr }

// ServePlain accepts agents without TLS on a loopback listener, believing the node
// id in Hello: for benchmarks. It refuses any other address.
func ServePlain(ctx context.Context, l net.Listener, server *Server) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return fmt.Errorf("listen for agents without TLS on %s: only loopback addresses may", l.Addr())
	}
	return server.accept(ctx, l, func(g *guest) { server.ServeConn(ctx, g, Proof{}) })
}
