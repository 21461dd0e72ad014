package muster

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// places bounds the connections of all listeners together, so that journal, stores and
// commands always find a free descriptor. Who has shown who he is (a session, a token)
// keeps his place. When all are taken, a newcomer gets that of the stranger for whom we
// have waited longest: whoever opens connections and says nothing pushes out himself,
// and an agent that comes meanwhile gets in.
type places struct {
	most    int // 0: no bound
	evicted prometheus.Counter
	refused prometheus.Counter

	mu      sync.Mutex
	taken   int
	vouched int
	waiting list.List // of *guest: strangers from whom we read now, the longest wait first
}

// patience is how long a stranger may keep us waiting when places are short.
const patience = time.Second

func newPlaces(most int, r prometheus.Registerer) *places {
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_connections_refused_total", Help: "Connections closed because all places were taken, by who: a stranger that was silent (evicted), or the newcomer (full).",
	}, []string{"reason"})
	p := &places{most: most, evicted: closed.WithLabelValues("evicted"), refused: closed.WithLabelValues("full")}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	r.MustRegister(closed,
		gauge("muster_connections", "Connections of agents and people now.", func() float64 { p.mu.Lock(); defer p.mu.Unlock(); return float64(p.taken) }),
		gauge("muster_connections_limit", "Connections at the same time; descriptors above it are kept for files. 0: no limit.", func() float64 { return float64(most) }))
	return p
}

// enter gives a connection a place; nil: there is none, and nc is closed.
func (p *places) enter(nc net.Conn) *guest {
	p.mu.Lock()
	var out *guest
	if p.most > 0 && p.taken >= p.most {
		first := p.waiting.Front()
		if first == nil || time.Since(first.Value.(*guest).since) < patience {
			p.mu.Unlock()
			p.refused.Inc()
			nc.Close()
			return nil
		}
		out = first.Value.(*guest)
		p.stop(out)
		p.leave(out)
	}
	p.taken++
	p.mu.Unlock()
	if out != nil {
		p.evicted.Inc()
		out.Conn.Close()
	}
	return &guest{Conn: nc, places: p}
}

// leave gives a place back, once. The caller holds the lock.
func (p *places) leave(g *guest) {
	if g.left {
		return
	}
	g.left = true
	p.taken--
	if g.vouched {
		p.vouched--
	}
}

// stop ends a wait. The caller holds the lock.
func (p *places) stop(g *guest) {
	if g.waits != nil {
		p.waiting.Remove(g.waits)
		g.waits = nil
	}
}

// guest is a connection with its place, from accept to close.
type guest struct {
	net.Conn
	places *places
	gate   gate        // while TLS shakes hands: given back while it waits for bytes; nil: none
	proven atomic.Bool // who he is, is known

	// Of a balancer's connection, set before anything else reads from it. See proxies.
	peer  net.Addr // of whom it speaks for; nil: the connection's own
	ahead []byte   // read behind the header, to be read again
	check bool     // the balancer speaks for itself

	// Of places, by its lock.
	since   time.Time
	waits   *list.Element
	left    bool
	vouched bool
}

// RemoteAddr implements net.Conn.
func (g *guest) RemoteAddr() net.Addr {
	if g.peer != nil {
		return g.peer
	}
	return g.Conn.RemoteAddr()
}

// Read implements net.Conn.
func (g *guest) Read(b []byte) (int, error) {
	if len(g.ahead) > 0 {
		n := copy(b, g.ahead)
		if g.ahead = g.ahead[n:]; len(g.ahead) == 0 {
			g.ahead = nil
		}
		return n, nil
	}
	if g.proven.Load() {
		return g.Conn.Read(b)
	}
	if g.gate != nil {
		g.gate.leave()
		defer g.gate.enter()
	}
	g.places.mu.Lock()
	if !g.left {
		g.since = time.Now()
		g.waits = g.places.waiting.PushBack(g)
	}
	g.places.mu.Unlock()
	n, err := g.Conn.Read(b)
	g.places.mu.Lock()
	g.places.stop(g)
	g.places.mu.Unlock()
	return n, err
}

// SyscallConn implements syscall.Conn, for who is known and sends much: what is read there is
// nobody's wait for a place.
func (g *guest) SyscallConn() (syscall.RawConn, error) {
	f, ok := g.Conn.(syscall.Conn)
	if !ok || len(g.ahead) > 0 || !g.proven.Load() {
		return nil, errors.ErrUnsupported
	}
	return f.SyscallConn()
}

// CloseWrite says that nothing more comes; wsconn.Part uses it.
func (g *guest) CloseWrite() error {
	if w, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.places.mu.Lock()
	g.places.stop(g)
	g.places.leave(g)
	g.places.mu.Unlock()
	return g.Conn.Close()
}

// enter lets the handshake compute in the gate that it was given when it had said who it
// is (the ClientHello, which costs next to nothing).
func (g *guest) enter(at gate) {
	g.gate = at
	at.enter()
}

// opened ends the TLS handshake: its place at the gate is for others.
func (g *guest) opened() {
	if g.gate != nil {
		g.gate.leave()
		g.gate = nil
	}
}

// prove lets the guest keep his place.
func (g *guest) prove() {
	g.proven.Store(true)
	g.places.mu.Lock()
	g.places.stop(g)
	g.places.mu.Unlock()
}

// guestOf finds the guest under TLS; nil: there is none.
func guestOf(nc net.Conn) *guest {
	for {
		if g, ok := nc.(*guest); ok {
			return g
		}
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = below.NetConn()
	}
}

type guestKey struct{}

// WithConn is for http.Server.ConnContext: Vouch finds the connection again.
func WithConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, guestOf(nc))
}

// Vouch says that the caller of a request has shown who he is: his connection keeps its
// place. People get a quarter of them at most.
func Vouch(ctx context.Context) {
	g, _ := ctx.Value(guestKey{}).(*guest)
	if g == nil || g.proven.Load() {
		return
	}
	p := g.places
	p.mu.Lock()
	ok := !g.left && (p.most == 0 || p.vouched < p.most/4)
	if ok {
		g.vouched = true
		p.vouched++
	}
	p.mu.Unlock()
	if ok {
		g.prove()
	}
}
