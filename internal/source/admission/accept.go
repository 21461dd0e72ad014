// Package admission accepts connections for all listeners of agents and people, before anybody has authenticated: it
// bounds their number, reads PROXY headers of load balancers, and limits how many TLS handshakes compute at a time.
//
// In: TCP connections (Admission.Accept, Admission.Serve). Out: a *Conn for each, or a closed connection and a count.
// A peer that has authenticated keeps its connection (Prove, Vouch); the others give way when connections run short.
//
// Goroutines: one per connection, until its handler returns. Locks: Admission.mu alone. Start reading at accept.go.
package admission

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// LingerTime bounds how long a refused peer may take to read the reason.
const LingerTime = 2 * time.Second

// gate limits how many TLS handshakes compute at a time. A handshake that waits for its peer holds no slot (Conn.Read):
// slow peers block nobody.
type gate chan struct{}

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }

// Gates limits the handshakes of one listener. Agents reconnect by the thousand at once: they get all processors but
// one, so that open sessions, pages and readyz go on. People do not queue behind agents.
type Gates struct{ agents, people gate }

// NewGates returns gates for the processors of this machine.
func NewGates() Gates {
	n := runtime.GOMAXPROCS(0)
	return Gates{agents: make(gate, max(1, n-1)), people: make(gate, n)}
}

// EnterAgent makes the handshake of c wait for a slot of agents. Call it when the ClientHello is read, which costs little.
func (g Gates) EnterAgent(c *Conn) { c.enter(g.agents) }

// EnterPerson makes the handshake of c wait for a slot of people.
func (g Gates) EnterPerson(c *Conn) { c.enter(g.people) }

// FreeAgentSlots returns the number of agent handshakes that may begin now.
func (g Gates) FreeAgentSlots() int { return cap(g.agents) - len(g.agents) }

func (c *Conn) enter(g gate) {
	c.gate = g
	g.enter()
}

// LeaveGate gives the slot of a finished handshake back.
func (c *Conn) LeaveGate() {
	if c.gate != nil {
		c.gate.leave()
		c.gate = nil
	}
}

// OncePerMinute returns a limiter for a line of the log: metrics count all occurrences.
func OncePerMinute() rate.Sometimes { return rate.Sometimes{Interval: time.Minute} }

// Accept serves every admitted connection on a goroutine of its own, until ctx ends. It returns when all have returned.
func (a *Admission) Accept(ctx context.Context, tcp net.Listener, log *slog.Logger, serve func(*Conn)) error {
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
		if err != nil { // no free descriptor, or the peer gave up: it passes
			log.Warn("accept connection", "address", tcp.Addr(), "error", err)
			_ = pause.For(ctx, 50*time.Millisecond)
			continue
		}
		if c := a.admit(nc); c != nil {
			serving.Go(func() { serve(c) })
		}
	}
}

// Listener is a listener for agents of one protocol.
type Listener struct {
	TCP       net.Listener
	TLS       *tls.Config   // nil: without TLS
	Handshake time.Duration // from accept until Serve removes the deadline
	Log       *slog.Logger
	// Serve owns the connection. It calls Prove once the peer has authenticated.
	Serve func(ctx context.Context, nc net.Conn)
}

// Serve accepts the connections of a listener until ctx ends and makes their TLS handshakes. It returns when all have
// returned.
func (a *Admission) Serve(ctx context.Context, l *Listener) error {
	gates, certificate := NewGates(), OncePerMinute()
	return a.Accept(ctx, l.TCP, l.Log, func(c *Conn) {
		_ = c.SetDeadline(time.Now().Add(l.Handshake))
		if err := a.ReadProxyHeader(ctx, c); err != nil {
			a.metrics.handshakes.WithLabelValues(ProxyFailure(err)).Inc()
			c.Close()
			return
		}
		if l.TLS == nil {
			l.Serve(ctx, c)
			return
		}
		gates.EnterAgent(c)
		conn := tls.Server(c, l.TLS)
		err := conn.HandshakeContext(ctx)
		c.LeaveGate()
		if err == nil {
			l.Serve(ctx, conn)
			return
		}
		cause := c.Failure(err)
		a.metrics.handshakes.WithLabelValues(cause).Inc()
		l.Log.Debug("TLS handshake", "peer", c.RemoteAddr(), "error", err)
		if !strings.HasPrefix(cause, "tls_certificate") {
			c.Close()
			return
		}
		certificate.Do(func() {
			l.Log.Warn("refused an agent's certificate; at most one line a minute, see muster_session_handshakes_total", "peer", c.RemoteAddr(), "error", err)
		})
		wsconn.CloseGracefully(c, LingerTime) // the peer reads the TLS alert
	})
}

// ErrNoNode means that a client certificate of our CA names no node.
var ErrNoNode = errors.New("certificate names no node")

// Failure returns the metric label of a failed TLS handshake on c: the probe of a balancer's health check is no failure
// of an agent.
func (c *Conn) Failure(err error) string {
	cause := tlsFailure(err)
	if cause == "tls_gone" && c.healthCheck {
		return "proxy_check"
	}
	return cause
}

func tlsFailure(err error) string {
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var network net.Error
	switch {
	case errors.As(err, &record):
		if isHTTP(record.RecordHeader) {
			return "tls_plain_http"
		}
		if isProxyHeader(record.RecordHeader) {
			return "proxy_not_listed"
		}
		return "tls_no_tls"
	case errors.As(err, &certificate):
		if errors.As(certificate.Err, &invalid) && invalid.Reason == x509.Expired {
			return "tls_certificate_expired"
		}
		if errors.As(certificate.Err, new(x509.UnknownAuthorityError)) {
			return "tls_certificate_of_another_ca"
		}
		return "tls_certificate"
	case errors.Is(err, ErrNoNode):
		return "tls_certificate"
	case strings.Contains(err.Error(), "client didn't provide a certificate"):
		return "tls_no_certificate"
	case strings.Contains(err.Error(), "unsupported application protocols"):
		return "tls_alpn"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "tls_timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return "tls_gone"
	}
	return "tls"
}

// isHTTP reports whether the bytes in place of a TLS record's header begin a plain HTTP request.
func isHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "CONNE", "PRI *":
		return true
	}
	return false
}

// balancers are load balancers whose connections begin with a PROXY header (version 1 or 2) that names the client. Only
// their headers are believed.
type balancers struct {
	networks []netip.Prefix
	readers  sync.Pool // *bufio.Reader, while a header is read
}

func (b *balancers) contain(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(b.networks, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Failures of a balancer's connection, with their metric labels.
var (
	errHealthCheck     = errors.New("opened and closed: a health check") // proxy_check
	errNoHeader        = errors.New("no PROXY header")                   // proxy_missing
	errMalformedHeader = errors.New("PROXY header cannot be read")       // proxy_malformed
)

// ReadProxyHeader reads the PROXY header of a balancer's connection, which then has the address of the balancer's client.
// It waits until the connection's deadline or the end of ctx. Bytes behind the header are read again.
func (a *Admission) ReadProxyHeader(ctx context.Context, c *Conn) error {
	b := &a.balancers
	if !b.contain(c.RemoteAddr()) {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })()
	r, _ := b.readers.Get().(*bufio.Reader)
	if r == nil {
		r = bufio.NewReader(nil)
	}
	r.Reset(c)
	defer func() {
		r.Reset(nil)
		b.readers.Put(r)
	}()
	if _, err := r.Peek(1); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return errHealthCheck
	}
	header, err := proxyproto.Read(r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(err, proxyproto.ErrNoProxyProtocol):
		return errNoHeader
	case err != nil:
		return errors.Join(errMalformedHeader, err)
	}
	if n := r.Buffered(); n > 0 {
		unread, _ := r.Peek(n)
		c.unread = slices.Clone(unread)
	}
	// A header without an address (LOCAL, UNKNOWN, a socket file) is of the balancer itself, as in its health checks.
	if peer, _, ok := header.TCPAddrs(); ok && header.Command.IsProxy() {
		c.peer = peer
	} else {
		c.healthCheck = true
	}
	return nil
}

// ProxyFailure returns the metric label of an error of ReadProxyHeader.
func ProxyFailure(err error) string {
	switch {
	case errors.Is(err, errHealthCheck):
		return "proxy_check"
	case errors.Is(err, errNoHeader):
		return "proxy_missing"
	case errors.Is(err, errMalformedHeader):
		return "proxy_malformed"
	}
	return "proxy_timeout"
}

// isProxyHeader reports whether the bytes in place of a TLS record's header begin a PROXY header.
func isProxyHeader(head [5]byte) bool {
	return string(head[:]) == string(proxyproto.SIGV1) || strings.HasPrefix(string(proxyproto.SIGV2), string(head[:]))
}
