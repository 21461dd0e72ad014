package muster

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/wsconn"
)

// Door is a listener for agents of another protocol. Its connections share places, PROXY
// headers and the gate of handshakes with our own agents'.
type Door struct {
	TCP    net.Listener
	TLS    *tls.Config // nil: without
	Within time.Duration
	// Serve owns the connection. It is told by Prove when it knows who that is.
	Serve func(ctx context.Context, nc net.Conn)
}

// Open accepts until ctx ends; it returns when all that it served have returned.
func (s *Server) Open(ctx context.Context, d *Door) error {
	gates, told := newGates(), newTold()
	return s.accept(ctx, d.TCP, func(g *guest) {
		_ = g.SetDeadline(time.Now().Add(d.Within))
		if err := s.proxies.introduce(ctx, g); err != nil {
			s.metrics.handshakes.WithLabelValues(proxyFailure(err)).Inc()
			g.Close()
			return
		}
		if d.TLS == nil {
			d.Serve(ctx, g)
			return
		}
		g.enter(gates.agents)
		conn := tls.Server(g, d.TLS)
		err := conn.HandshakeContext(ctx)
		g.opened()
		if err != nil {
			why := tlsFailure(err)
			s.metrics.handshakes.WithLabelValues(why).Inc()
			s.cfg.Log.Debug("TLS handshake", "peer", g.RemoteAddr(), "error", err)
			if !strings.HasPrefix(why, "tls_certificate") {
				g.Close()
				return
			}
			told.certificate.Do(func() {
				s.cfg.Log.Warn("an agent's certificate is refused; of others within a minute only the metrics tell", "peer", g.RemoteAddr(), "error", err)
			})
			wsconn.Part(g, partWithin) // it reads why
			return
		}
		d.Serve(ctx, conn)
	})
}

// Prove lets a connection of a Door keep its place: who it is, is known.
func Prove(nc net.Conn) {
	if g := guestOf(nc); g != nil {
		g.prove()
	}
}
