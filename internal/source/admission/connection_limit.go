package admission

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Admission limits the open connections of all listeners together. File descriptors must remain for files and
// databases. An authenticated peer keeps its connection. When the limit is reached, a new connection replaces the
// unauthenticated one that has been silent for longest: an attacker that opens connections and says nothing evicts its
// own, and an agent still gets in.
type Admission struct {
	max       int // 0: no limit
	log       *slog.Logger
	crowded   rate.Sometimes // limiter of the log line at the limit
	balancers loadBalancers
	metrics   metrics

	mu              sync.Mutex
	open            int
	provenAgents    int       // open connections that Prove has marked as authenticated
	provenByRequest int       // open connections of people that ProtectRequest has marked as authenticated
	silentConns     list.List // *Conn of unauthenticated peers that are being read now; the longest silence first
}

// metrics holds the counters of refused connections and failed handshakes.
type metrics struct {
	evicted, full prometheus.Counter
	handshakes    *prometheus.CounterVec
}

// minSilence is the shortest time for which a connection must have been silent to be evicted.
const minSilence = time.Second

// New returns an Admission for at most maxConnections open connections. Zero means no limit. Connections from the
// balancers' networks must begin with a PROXY header. handshakes counts failed handshakes by outcome. log gets a line
// when all connections are in use.
func New(maxConnections int, balancerNetworks []netip.Prefix, handshakes *prometheus.CounterVec, r prometheus.Registerer, log *slog.Logger) *Admission {
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_connections_refused_total", Help: "Connections closed at the limit, by reason: evicted (an idle unauthenticated connection) or full (the new connection).",
	}, []string{"reason"})
	a := &Admission{max: maxConnections, log: log, crowded: OncePerMinute(), balancers: loadBalancers{networks: balancerNetworks},
		metrics: metrics{closed.WithLabelValues("evicted"), closed.WithLabelValues("full"), handshakes}}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	r.MustRegister(closed,
		gauge("muster_connections", "Open connections of agents and people.", func() float64 { a.mu.Lock(); defer a.mu.Unlock(); return float64(a.open) }),
		gauge("muster_connections_limit", "Limit of connections; the other file descriptors are reserved for files. 0: no limit.", func() float64 { return float64(maxConnections) }))
	return a
}

// reservedForUsers returns how many of the allowed connections agents cannot take from users. Agent sessions
// above that number may be closed while they are silent.
func (a *Admission) reservedForUsers() int { return min(a.max/8, 64) }

// admitConn accepts a new connection within the limit, or closes a silent connection in exchange, or refuses.
// It may close a silent connection for the new one. After a refusal it returns nil.
func (a *Admission) admitConn(nc net.Conn) *Conn {
	a.mu.Lock()
	var evicted *Conn
	if a.max > 0 && a.open >= a.max {
		first := a.silentConns.Front()
		if first == nil || time.Since(first.Value.(*Conn).silentSince) < minSilence {
			a.mu.Unlock()
			a.metrics.full.Inc()
			nc.Close()
			a.logLimitReached()
			return nil
		}
		evicted = first.Value.(*Conn)
		a.removeSilentLocked(evicted)
		a.releaseLocked(evicted)
	}
	a.open++
	a.mu.Unlock()
	if evicted != nil {
		a.metrics.evicted.Inc()
		evicted.Conn.Close()
		a.logLimitReached()
	}
	return &Conn{Conn: nc, admission: a}
}

// logLimitReached logs that the connection limit is reached, at most once a minute.
func (a *Admission) logLimitReached() {
	a.crowded.Do(func() {
		a.log.Warn("the server is at its limit of connections: closed an idle unauthenticated connection, or the new one; at most one line a minute, see muster_connections_refused_total",
			"places", a.max, "for_people", a.reservedForUsers(), "hint", "raise the limit of open files: systemctl edit muster: [Service] LimitNOFILE=N")
	})
}

// Limit wraps a listener, so that its connections count towards the limit for all listeners together.
func (a *Admission) Limit(l net.Listener) net.Listener { return limitedListener{l, a} }

// limitedListener is a net.Listener whose accepted connections count towards the limit of an Admission.
type limitedListener struct {
	net.Listener
	admission *Admission
}

// Accept returns the next connection, after the Admission has admitted the connection.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admission.admitConn(nc); c != nil {
			return c, nil
		}
	}
}

// releaseLocked removes a closed connection from the count of open connections. Further calls do nothing.
func (a *Admission) releaseLocked(c *Conn) {
	if c.released {
		return
	}
	c.released = true
	a.open--
	if c.provenByRequest {
		a.provenByRequest--
	}
	if c.provenAgent {
		a.provenAgents--
	}
}

// removeSilentLocked removes a connection from the silent connections, which new connections may replace at the
// limit. Only silent connections are replaced.
func (a *Admission) removeSilentLocked(c *Conn) {
	if c.silentElement != nil {
		a.silentConns.Remove(c.silentElement)
		c.silentElement = nil
	}
}

// Conn is an accepted connection that counts towards the connection limit until its end.
type Conn struct {
	net.Conn
	admission *Admission
	gate      handshakeGate // slot held while TLS computes, given back while TLS waits for bytes; nil: none
	proven    atomic.Bool   // the peer has authenticated

	// The PROXY header sets these fields, before other bytes are read.
	peer        net.Addr // client of the load balancer; nil: the peer of the TCP connection
	unread      []byte   // bytes that were read behind the PROXY header; Read returns these first
	healthCheck bool     // the load balancer connected for a health check

	// Admission.mu guards the rest.
	silentSince     time.Time
	silentElement   *list.Element
	released        bool
	provenByRequest bool
	provenAgent     bool
}

// RemoteAddr returns the client's address, taken from a load balancer's PROXY header if present. The address
// comes from the PROXY header, if the connection began with one.
func (c *Conn) RemoteAddr() net.Addr {
	if c.peer != nil {
		return c.peer
	}
	return c.Conn.RemoteAddr()
}

// Read reads from the client, and counts the connection as silent until the client has authenticated. While an
// unauthenticated peer is read, its connection may be evicted.
func (c *Conn) Read(b []byte) (int, error) {
	if len(c.unread) > 0 {
		n := copy(b, c.unread)
		if c.unread = c.unread[n:]; len(c.unread) == 0 {
			c.unread = nil
		}
		return n, nil
	}
	if c.proven.Load() {
		return c.Conn.Read(b)
	}
	if c.gate != nil {
		c.gate.releaseSlot()
		defer c.gate.acquireSlot()
	}
	a := c.admission
	a.mu.Lock()
	if !c.released {
		c.silentSince = time.Now()
		c.silentElement = a.silentConns.PushBack(c)
	}
	a.mu.Unlock()
	n, err := c.Conn.Read(b)
	a.mu.Lock()
	a.removeSilentLocked(c)
	a.mu.Unlock()
	return n, err
}

// SyscallConn returns the operating system's connection, if the client has authenticated, or an error.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	f, ok := c.Conn.(syscall.Conn)
	if !ok || len(c.unread) > 0 || !c.proven.Load() {
		return nil, errors.ErrUnsupported
	}
	return f.SyscallConn()
}

// CloseWrite closes the server's sending half of the connection, for wsconn.CloseGracefully.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Close closes the connection and removes the connection from the count.
func (c *Conn) Close() error {
	c.admission.mu.Lock()
	c.admission.removeSilentLocked(c)
	c.admission.releaseLocked(c)
	c.admission.mu.Unlock()
	return c.Conn.Close()
}

// MarkAuthenticated protects the agent's connection from replacement by new connections, because the agent has
// authenticated. This protects its connection from eviction. Its connection is never evicted, unless agents have taken
// all places but those of people.
func (c *Conn) MarkAuthenticated() {
	a := c.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.released || c.provenAgent || a.max > 0 && a.provenAgents >= a.max-a.reservedForUsers() {
		return
	}
	a.provenAgents++
	c.provenAgent = true
	c.markAuthenticatedLocked()
}

// markAuthenticatedLocked protects an authenticated client's connection from replacement, for callers with the
// lock. The caller holds the lock.
func (c *Conn) markAuthenticatedLocked() {
	c.proven.Store(true)
	c.admission.removeSilentLocked(c)
}

// MarkAuthenticated records that a connection's client has authenticated, and so protects the connection from
// replacement. No new connection then replaces it.
func MarkAuthenticated(nc net.Conn) {
	if c := countedConnOf(nc); c != nil {
		c.MarkAuthenticated()
	}
}

// countedConnOf returns the counted connection (Conn) inside a TLS connection, or nil.
func countedConnOf(nc net.Conn) *Conn {
	for {
		if c, ok := nc.(*Conn); ok {
			return c
		}
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = below.NetConn()
	}
}

// connContextKey is the key under which a request's context stores its connection.
type connContextKey struct{}

// WithConn stores the connection in the context of its requests, for a later call of ProtectRequest.
func WithConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connContextKey{}, countedConnOf(nc))
}

// ProtectRequest protects the connection of an HTTP request whose user has authenticated from replacement by
// new connections. People get at most a quarter of all connections in this way.
func ProtectRequest(ctx context.Context) {
	c, _ := ctx.Value(connContextKey{}).(*Conn)
	if c == nil || c.proven.Load() {
		return
	}
	a := c.admission
	a.mu.Lock()
	ok := !c.released && (a.max == 0 || a.provenByRequest < a.max/4)
	if ok {
		c.provenByRequest = true
		a.provenByRequest++
		c.markAuthenticatedLocked()
	}
	a.mu.Unlock()
}
