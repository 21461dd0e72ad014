// Package admission accepts connections for all listeners of agents and people, before anybody has authenticated: it
// bounds their number, reads PROXY headers of load balancers, and limits how many TLS handshakes compute at a time. It reads the
// authorities of client certificates and their revocation lists from files (client_certificate_authorities.go).
//
// In: TCP connections (Admission.Serve). Out: a *Conn for each, or a closed connection and a count.
// A peer that has authenticated keeps its connection (Prove, ProtectRequest); the others give way when connections run short.
//
// Goroutines: one per connection, until its handler returns. Locks: Admission.mu alone. Start reading at accept_connections.go.
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
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// LingerTime limits how long a refused peer may take to read the reason of the refusal.
const LingerTime = 2 * time.Second

// handshakeGate is a semaphore that limits how many TLS handshakes run at the same time. A handshake that waits for
// its peer holds no slot (Conn.Read): slow peers block nobody.
type handshakeGate chan struct{}

// acquireSlot waits until fewer than the allowed number of TLS handshakes run.
func (g handshakeGate) acquireSlot() { g <- struct{}{} }

// releaseSlot ends a TLS handshake's use of its slot, for the next waiting handshake.
func (g handshakeGate) releaseSlot() { <-g }

// HandshakeLimits limits concurrent TLS handshakes of one listener, separately for agents and for users' clients.
// Agents reconnect by the thousand at once: they get all processors but one, so that open sessions, pages and readyz
// go on. People do not queue behind agents.
type HandshakeLimits struct{ agents, people handshakeGate }

// NewHandshakeLimits returns limits of concurrent TLS handshakes for the number of processors.
func NewHandshakeLimits() HandshakeLimits {
	n := runtime.GOMAXPROCS(0)
	return HandshakeLimits{agents: make(handshakeGate, max(1, n-1)), people: make(handshakeGate, n)}
}

// AcquireAgentSlot waits until an agent's connection may start a TLS handshake. Call it when the ClientHello is
// read, which costs little.
func (g HandshakeLimits) AcquireAgentSlot(c *Conn) { c.acquireSlot(g.agents) }

// AcquireUserSlot waits until a user's connection may start a TLS handshake.
func (g HandshakeLimits) AcquireUserSlot(c *Conn) { c.acquireSlot(g.people) }

// FreeAgentSlots returns how many more agent handshakes may start now.
func (g HandshakeLimits) FreeAgentSlots() int { return cap(g.agents) - len(g.agents) }

// acquireSlot waits for a TLS handshake slot, and remembers which semaphore to release afterwards.
func (c *Conn) acquireSlot(g handshakeGate) {
	c.gate = g
	g.acquireSlot()
}

// ReleaseHandshakeSlot releases the slot that the TLS handshake of the connection occupied.
func (c *Conn) ReleaseHandshakeSlot() {
	if c.gate != nil {
		c.gate.releaseSlot()
		c.gate = nil
	}
}

// OncePerMinute returns a rate limiter that permits one log line per minute.
func OncePerMinute() rate.Sometimes { return rate.Sometimes{Interval: time.Minute} }

// Listener has the settings of one TCP listener, such as TLS and the function to serve connections. It has TLS
// settings, limits of handshakes, and the function that serves a connection.
type Listener struct {
	TCP       net.Listener
	TLS       *tls.Config   // nil: without TLS
	Plain     bool          // beside TLS it takes connections that do not begin with a TLS handshake
	Gate      func(*Conn)   // waits for a slot of the TLS handshake: Gates.AcquireAgentSlot; nil: TLS.GetConfigForClient does
	Handshake time.Duration // from accept until Serve removes the deadline
	Log       *slog.Logger
	Warnings  []Warning // log lines of this listener, beside commonWarnings
	// Serve owns the connection: a *Conn, or a *tls.Conn above one. It calls Prove once the peer has authenticated.
	Serve func(ctx context.Context, nc net.Conn)
}

// Warning is a log message about refused connections with a cause that an operator can remove. ADDRESS in its
// text becomes the peer's address.
type Warning struct {
	Causes []string // beginnings of metric labels
	Text   string
}

// commonWarnings returns the log lines about refused connections that are the same for all listeners.
func commonWarnings() []Warning {
	return []Warning{
		{[]string{"tls_certificate"}, "refused an agent's certificate"},
		{[]string{"proxy_not_listed"}, "refused a connection that begins with a PROXY header from a network that is not listed; " +
			"if it is your load balancer, add --proxy-from ADDRESS"},
		{[]string{"proxy_missing", "proxy_malformed"}, "refused a connection from a network of --proxy-from without a PROXY header; " +
			"let the load balancer send one (HAProxy: send-proxy-v2 on its server lines) or remove the network from the list"},
	}
}

// refusalLog counts and logs the refused connections of one listener. It logs each warning once a minute at most.
type refusalLog struct {
	handshakes *prometheus.CounterVec
	log        *slog.Logger
	warnings   []Warning
	once       []rate.Sometimes // limiter of each warning's log line
}

// newRefusalLog returns the counter of a listener's refused connections, which also logs the refusals.
func (a *Admission) newRefusalLog(l *Listener) *refusalLog {
	r := &refusalLog{handshakes: a.metrics.handshakes, log: l.Log, warnings: append(commonWarnings(), l.Warnings...)}
	for range r.warnings {
		r.once = append(r.once, OncePerMinute())
	}
	return r
}

// record counts a refused connection by cause, and logs a warning once a minute at most.
func (r *refusalLog) record(c *Conn, cause string, err error) {
	r.handshakes.WithLabelValues(cause).Inc()
	r.log.Debug("refused a connection", "peer", c.RemoteAddr(), "cause", cause, "error", err)
	i := slices.IndexFunc(r.warnings, func(w Warning) bool {
		return slices.ContainsFunc(w.Causes, func(begin string) bool { return strings.HasPrefix(cause, begin) })
	})
	if i < 0 {
		return
	}
	r.once[i].Do(func() {
		text := strings.ReplaceAll(r.warnings[i].Text, "ADDRESS", model.HostOf(c.RemoteAddr().String()))
		r.log.Warn(text+"; at most one line a minute, see muster_session_handshakes_total", "peer", c.RemoteAddr(), "error", err)
	})
}

// Serve accepts connections and serves each on its own goroutine, until ctx ends. It reads their PROXY headers, makes
// their TLS handshakes, and serves each on a goroutine of its own. It returns when all have returned.
func (a *Admission) Serve(ctx context.Context, l *Listener) error {
	defer context.AfterFunc(ctx, func() { l.TCP.Close() })()
	refused, failed := a.newRefusalLog(l), OncePerMinute()
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		nc, err := l.TCP.Accept()
		if ctx.Err() != nil {
			if err == nil {
				nc.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept connections on %s: %w", l.TCP.Addr(), err)
		}
		if err != nil { // temporary: no file descriptor is free, or the peer gave up
			failed.Do(func() {
				l.Log.Warn("cannot accept connections; the server retries; at most one line a minute", "address", l.TCP.Addr(), "error", err,
					"hint", "if too many files are open: systemctl edit muster: [Service] LimitNOFILE=N")
			})
			_ = pause.For(ctx, 50*time.Millisecond)
			continue
		}
		if c := a.admitConn(nc); c != nil {
			serving.Go(func() { a.serveConn(ctx, l, c, refused) })
		}
	}
}

// serveConn handles the PROXY header and TLS handshake of one connection. Then it serves or refuses the connection.
// The peer can read the reason: the TLS alert, or a sentence if it speaks HTTP without TLS.
func (a *Admission) serveConn(ctx context.Context, l *Listener, c *Conn, refused *refusalLog) {
	_ = c.SetDeadline(time.Now().Add(l.Handshake))
	if err := a.readProxyHeader(ctx, c); err != nil {
		refused.record(c, proxyFailureLabel(err), err)
		c.Close()
		return
	}
	if l.TLS == nil || l.Plain && !c.beginsTLS(ctx) {
		l.Serve(ctx, c)
		return
	}
	if l.Gate != nil {
		l.Gate(c)
	}
	conn := tls.Server(c, l.TLS)
	err := conn.HandshakeContext(ctx)
	c.ReleaseHandshakeSlot()
	if err == nil {
		l.Serve(ctx, conn)
		return
	}
	cause := c.handshakeFailureLabel(err)
	refused.record(c, cause, err)
	switch cause {
	case "tls_timeout", "tls_gone", "proxy_check":
		c.Close()
		return
	case "tls_plain_http":
		_, _ = io.WriteString(c, plainHTTPAnswer)
	}
	wsconn.CloseGracefully(c, LingerTime)
}

// beginsTLS reports whether the first byte of a connection begins a TLS handshake. It waits for that byte until the connection's
// deadline or the end of ctx. The byte is read again.
func (c *Conn) beginsTLS(ctx context.Context) bool {
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })()
	var first [1]byte
	n, err := c.Read(first[:])
	if err != nil || n == 0 {
		return false // Serve gets the error
	}
	c.unread = append(first[:], c.unread...)
	return first[0] == handshakeRecord
}

// handshakeRecord is the content type of a TLS record with a handshake message.
const handshakeRecord = 0x16

const plainHTTPAnswer = "HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" +
	"This port speaks TLS: write https:// before the address.\n"

// ErrNoNode means that the client certificate is of our CA but names no node.
var ErrNoNode = errors.New("certificate names no node")

// handshakeFailureLabel returns the cause of a failed TLS handshake as a label for metrics. A health check of a load
// balancer has a label of its own, because no agent failed.
func (c *Conn) handshakeFailureLabel(err error) string {
	cause := tlsFailureLabel(err)
	if cause == "tls_gone" && c.healthCheck {
		return "proxy_check"
	}
	return cause
}

// tlsFailureLabel returns the metric label for an error of a TLS handshake.
func tlsFailureLabel(err error) string {
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var network net.Error
	switch {
	case errors.As(err, &record):
		if isHTTPRequest(record.RecordHeader) {
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

// isHTTPRequest reports whether a connection begins with a plain HTTP request instead of TLS.
func isHTTPRequest(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "CONNE", "PRI *":
		return true
	}
	return false
}

// loadBalancers has the networks of the load balancers from which the server accepts a PROXY header. The header
// has the client's address. Only their headers are believed.
type loadBalancers struct {
	networks []netip.Prefix
	readers  sync.Pool // *bufio.Reader, while a header is read
}

// isListed reports whether a connection comes from a configured load balancer.
func (b *loadBalancers) isListed(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(b.networks, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Errors of connections from a load balancer; the comments are their metric labels.
var (
	errHealthCheck     = errors.New("connection without data, such as a health check") // proxy_check
	errNoHeader        = errors.New("no PROXY header")                                 // proxy_missing
	errMalformedHeader = errors.New("PROXY header cannot be read")                     // proxy_malformed
)

// readProxyHeader reads the client's address from the PROXY header of a load balancer's connection. It waits until the
// connection's deadline or the end of ctx. Bytes behind the header are read again.
func (a *Admission) readProxyHeader(ctx context.Context, c *Conn) error {
	b := &a.balancers
	if !b.isListed(c.RemoteAddr()) {
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
	// A header without an address (LOCAL, UNKNOWN, a socket file) is about the balancer itself, as in its health checks.
	if peer, _, ok := header.TCPAddrs(); ok && header.Command.IsProxy() {
		c.peer = peer
	} else {
		c.healthCheck = true
	}
	return nil
}

// proxyFailureLabel returns the metric label of an error of readProxyHeader.
func proxyFailureLabel(err error) string {
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

// isProxyHeader reports whether the first bytes of a connection begin a PROXY header instead of a TLS record.
func isProxyHeader(head [5]byte) bool {
	return string(head[:]) == string(proxyproto.SIGV1) || strings.HasPrefix(string(proxyproto.SIGV2), string(head[:]))
}
