package admission

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Admission bounds the connections of all listeners together, so that journal, stores and commands always find a free
// file descriptor. An authenticated peer keeps its connection. When the limit is reached, a new connection replaces the
// unauthenticated one that has been silent for longest: an attacker that opens connections and says nothing evicts its
// own, and an agent still gets in.
type Admission struct {
	max       int // 0: no limit
	balancers balancers
	metrics   metrics

	mu      sync.Mutex
	open    int
	vouched int       // open connections of people that ProveRequest has kept
	silent  list.List // of *Conn: unauthenticated, being read now; the longest wait first
}

// metrics counts refused connections and failed handshakes.
type metrics struct {
	evicted, full prometheus.Counter
	handshakes    *prometheus.CounterVec
}

// minSilence is the shortest time for which a connection must have been silent to be evicted.
const minSilence = time.Second

// New returns an Admission for at most maxConnections (0: no limit). Connections from the balancers' networks must begin
// with a PROXY header. handshakes counts failed handshakes by outcome.
func New(maxConnections int, balancerNetworks []netip.Prefix, handshakes *prometheus.CounterVec, r prometheus.Registerer) *Admission {
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_connections_refused_total", Help: "Connections closed at the limit of connections, by reason: an unauthenticated one that was silent (evicted), or the new one (full).",
	}, []string{"reason"})
	a := &Admission{max: maxConnections, balancers: balancers{networks: balancerNetworks},
		metrics: metrics{closed.WithLabelValues("evicted"), closed.WithLabelValues("full"), handshakes}}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	r.MustRegister(closed,
		gauge("muster_connections", "Open connections of agents and people.", func() float64 { a.mu.Lock(); defer a.mu.Unlock(); return float64(a.open) }),
		gauge("muster_connections_limit", "Limit of connections; the other file descriptors are reserved for files. 0: no limit.", func() float64 { return float64(maxConnections) }))
	return a
}

// admit counts a new connection; nil: the limit is reached, and nc is closed.
func (a *Admission) admit(nc net.Conn) *Conn {
	a.mu.Lock()
	var evicted *Conn
	if a.max > 0 && a.open >= a.max {
		first := a.silent.Front()
		if first == nil || time.Since(first.Value.(*Conn).silentSince) < minSilence {
			a.mu.Unlock()
			a.metrics.full.Inc()
			nc.Close()
			return nil
		}
		evicted = first.Value.(*Conn)
		a.endSilenceLocked(evicted)
		a.releaseLocked(evicted)
	}
	a.open++
	a.mu.Unlock()
	if evicted != nil {
		a.metrics.evicted.Inc()
		evicted.Conn.Close()
	}
	return &Conn{Conn: nc, admission: a}
}

// releaseLocked ends the count of a connection, once.
func (a *Admission) releaseLocked(c *Conn) {
	if c.released {
		return
	}
	c.released = true
	a.open--
	if c.vouched {
		a.vouched--
	}
}

func (a *Admission) endSilenceLocked(c *Conn) {
	if c.silence != nil {
		a.silent.Remove(c.silence)
		c.silence = nil
	}
}

// Conn is a counted connection, from accept to close.
type Conn struct {
	net.Conn
	admission *Admission
	gate      gate        // held while TLS computes, given back while it waits for bytes; nil: none
	proven    atomic.Bool // the peer has authenticated

	// Set by the PROXY header, before anything else is read.
	peer        net.Addr // the balancer's client; nil: the connection's own peer
	unread      []byte   // read behind the header; Read returns it first
	healthCheck bool     // the balancer connects for itself

	// Admission.mu guards the rest.
	silentSince time.Time
	silence     *list.Element
	released    bool
	vouched     bool
}

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr {
	if c.peer != nil {
		return c.peer
	}
	return c.Conn.RemoteAddr()
}

// Read implements net.Conn. While an unauthenticated peer is read, its connection may be evicted.
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
		c.gate.leave()
		defer c.gate.enter()
	}
	a := c.admission
	a.mu.Lock()
	if !c.released {
		c.silentSince = time.Now()
		c.silence = a.silent.PushBack(c)
	}
	a.mu.Unlock()
	n, err := c.Conn.Read(b)
	a.mu.Lock()
	a.endSilenceLocked(c)
	a.mu.Unlock()
	return n, err
}

// SyscallConn implements syscall.Conn for authenticated peers: reads past Read need no eviction.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	f, ok := c.Conn.(syscall.Conn)
	if !ok || len(c.unread) > 0 || !c.proven.Load() {
		return nil, errors.ErrUnsupported
	}
	return f.SyscallConn()
}

// CloseWrite ends the server's half of the connection, for wsconn.CloseGracefully.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.admission.mu.Lock()
	c.admission.endSilenceLocked(c)
	c.admission.releaseLocked(c)
	c.admission.mu.Unlock()
	return c.Conn.Close()
}

// Prove keeps the connection: its peer has authenticated.
func (c *Conn) Prove() {
	c.proven.Store(true)
	c.admission.mu.Lock()
	c.admission.endSilenceLocked(c)
	c.admission.mu.Unlock()
}

// Prove keeps the counted connection under nc, if there is one: its peer has authenticated.
func Prove(nc net.Conn) {
	if c := connOf(nc); c != nil {
		c.Prove()
	}
}

// connOf returns the counted connection under TLS; nil: there is none.
func connOf(nc net.Conn) *Conn {
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

type connKey struct{}

// WithConn implements http.Server.ConnContext, so that ProveRequest finds the connection of a request.
func WithConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(nc))
}

// ProveRequest keeps the connection of an authenticated request. People keep a quarter of the limit at most.
func ProveRequest(ctx context.Context) {
	c, _ := ctx.Value(connKey{}).(*Conn)
	if c == nil || c.proven.Load() {
		return
	}
	a := c.admission
	a.mu.Lock()
	ok := !c.released && (a.max == 0 || a.vouched < a.max/4)
	if ok {
		c.vouched = true
		a.vouched++
	}
	a.mu.Unlock()
	if ok {
		c.Prove()
	}
}
