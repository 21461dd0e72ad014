package muster

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/muster-fleet/muster/internal/pki"
)

// Listener shares one TCP listener between agents and people by ALPN.
type Listener struct{}

// Listen makes the shared listener. people, the second result of it, is for
// http.Server.Serve (TLS is already done).
func Listen(l net.Listener, authority *pki.Authority, server *Server, log *slog.Logger) *Listener {
	return &Listener{}
}

// People yields connections of browsers, the CLI and enrolling agents.
func (l *Listener) People() net.Listener { return nil }

// Run accepts until ctx ends.
func (l *Listener) Run(ctx context.Context) error { return errors.New("not yet") }

// Config is the TLS configuration in use, for tests.
func (l *Listener) Config() *tls.Config { return nil }

// ServePlain accepts agents without TLS on a loopback listener, believing the node
// id in Hello: for benchmarks. It refuses any other address.
func ServePlain(ctx context.Context, l net.Listener, server *Server) error {
	return errors.New("not yet")
}
