package muster

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Path is where agents open their session.
const Path = "/agent/v1/session"

// Server holds the sessions of all agents.
type Server struct{ cfg Config }

// New checks the configuration and registers the metrics; nothing runs before Run.
func New(cfg Config) (*Server, error) { return nil, errors.New("not yet") }

// Run writes acknowledgements and assignments and keeps house until ctx ends; then
// it closes every session. Drain first for a planned stop.
func (s *Server) Run(ctx context.Context) error { return errors.New("not yet") }

// ServeConn speaks the protocol on one connection until it ends. node is the id
// proven by the client certificate; the zero id believes Hello (plain loopback
// connections only).
func (s *Server) ServeConn(ctx context.Context, conn net.Conn, node uuid.UUID) {}

// Drain tells every agent to come back after a jittered time of about retry, and
// returns when they have gone or ctx ends.
func (s *Server) Drain(ctx context.Context, retry time.Duration) {}

// RunNow asks an agent for one run out of schedule; a NotFound error when the node
// has no session here.
func (s *Server) RunNow(node model.NodeID, chunk model.ChunkID) error { return errors.New("not yet") }

// Disconnect ends a node's session, if any: it was revoked or deleted, or its
// keepalive or limits changed and must be agreed again.
func (s *Server) Disconnect(node model.NodeID, code, sentence string) {}

// Connected says whether the node has a session here.
func (s *Server) Connected(node model.NodeID) bool { return false }

// Sessions is the number of sessions.
func (s *Server) Sessions() int { return 0 }
