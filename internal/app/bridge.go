package app

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/source/sensu"
	"github.com/muster-fleet/muster/internal/wire"
)

// openBridge opens the session layer of Sensu's agents, where they may come.
func (s *Server) openBridge(context.Context) (err error) {
	if s.cfg.SensuListen == "" || s.cfg.SensuListen == "off" {
		return nil
	}
	var authorities *sensu.Authorities
	if s.cfg.SensuClientCA != "" {
		if authorities, err = sensu.OpenAuthorities(s.cfg.SensuClientCA, s.log); err != nil {
			return err
		}
	}
	if s.cfg.SensuClientCRL != "" {
		if err = authorities.OpenRevoked(s.cfg.SensuClientCRL, s.now()); err != nil {
			return err
		}
	}
	s.sensuCA = authorities
	s.bridge, err = sensu.New(sensu.Config{
		Authorities: authorities,
		Agents:      s.sessions, Journal: s.journal, Access: s.access, Intent: s.intent, View: eventIndex{s.view}, Assignments: s.planner, Checks: s.planner, Handler: s.planner.Handler,
		Limits: sensu.Limits{
			MessageBytes: int(s.cfg.MaxFrame), UnackedBytes: int(s.cfg.MaxUnacked),
			Keepalive: time.Duration(s.cfg.KeepaliveInterval), Timeout: time.Duration(s.cfg.KeepaliveTimeout),
		},
		Secret: s.secretText, OnClone: s.monitor.Clone, OnRan: s.turns.Ran, OnEnded: s.turns.Ended, Now: s.now, Queues: s.queues, Log: s.log, Registerer: s.registry,
	})
	return err
}

// eventIndex implements sensu.Config.View.
type eventIndex struct{ *event.View }

func (v eventIndex) Known(node model.NodeID, check model.CheckID) bool {
	_, ok := v.Get(node, check)
	return ok
}

// serveSensu accepts Sensu's agents.
func (s *Server) serveSensu(ctx context.Context) error {
	if s.bridge == nil {
		return nil
	}
	config := s.sensuTLS()
	if config == nil {
		s.log.Warn("Sensu's agents come without TLS: whoever listens on the way reads their password and results", "address", s.sensu.Addr().String())
	}
	s.log.Info("Sensu's agents may come", "address", s.sensu.Addr().String(), "tls", config != nil)
	return s.bridge.Listen(ctx, s.sensu, config)
}

// sensuTLS has the certificate of all listeners; nil: they come without.
func (s *Server) sensuTLS() *tls.Config {
	if s.cfg.SensuTLS == "off" {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.authority.GetCertificate}
	if s.sensuCA != nil {
		s.sensuCA.Admit(config)
	}
	return config
}

// bridgeChanged lets a node's session begin anew, if it has a Sensu agent.
func (s *Server) bridgeChanged(node model.NodeID) {
	if s.bridge != nil {
		s.bridge.Disconnect(node)
	}
}

// connectedNodes is how many have a session, whosever agent they have.
func (s *Server) connectedNodes() int {
	n := s.sessions.Sessions()
	if s.bridge != nil {
		n += s.bridge.Sessions()
	}
	return n
}

// runs asks the session that a node has, whosever agent it is.
type runs struct {
	*muster.Runs
	bridge *sensu.Server
}

func (r runs) Ask(node model.NodeID, run wire.Run) error {
	if r.bridge != nil && r.bridge.Connected(node) {
		return r.bridge.Ask(r.Runs, node, run)
	}
	return r.Runs.Ask(node, run)
}
