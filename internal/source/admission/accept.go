package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

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
