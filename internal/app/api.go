package app

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/api"
	"github.com/muster-fleet/muster/internal/api/admin"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/inbound"
	apinodes "github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/reports"
	"github.com/muster-fleet/muster/internal/api/resources"
	"github.com/muster-fleet/muster/internal/api/routing"
	apiruns "github.com/muster-fleet/muster/internal/api/runs"
	"github.com/muster-fleet/muster/internal/api/server"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/sensuctl"
	"github.com/muster-fleet/muster/internal/source/admission"
)

// openAPI makes the HTTP handlers of the listeners.
func (s *Server) openAPI(context.Context) error {
	addresses := agentAddresses(s.cfg, s.forAgents(), s.names)
	tokens := intent.JoinTokens{Store: s.intent.Store()}
	admit := apinodes.Enrolments(s.queues)
	var pending *apinodes.Pending
	var ask func(string, pki.EnrolRequest) (time.Duration, error)
	if s.cfg.Pending != "off" {
		pending = apinodes.NewPending(s.queues, s.now)
		ask = pending.Ask
	}
	options := api.Options{
		Stores: view.Stores{
			Intent: s.intent, Rows: s.intent.Store(), Events: s.view, Directory: lookups{s.directory, s.planner.Inspector(), s.turns}, History: s.history,
			Routing: s.routes, Incarnation: s.journal.Incarnation().ID, Now: s.now,
		},
		Live: view.Live{
			Connected: s.sources.connected, Agent: s.agentSession, Limits: s.limitUses, Verdicts: s.reactor.Verdicts,
			Stream: streamPosition(s.streams), Chunk: s.directory.CheckChunk, Assigned: s.assignedChunk,
		},
		Access: s.access,
		Events: events.Options{Actions: s.recorder},
		Inbound: inbound.Options{
			Secret: handler.New(handler.Options{Secret: s.secretText, Now: s.now, Logger: s.log}).Secret, Alerts: s.alerts.Serve, Actions: s.recorder,
		},
		Nodes: apinodes.Options{
			JoinTokens: tokens,
			NewJoinToken: func(keep pki.JoinToken) (pki.Token, pki.JoinToken, error) {
				return s.authority.NewToken(addresses, keep)
			},
			Waiting: pending,
			CA: func() v1.Authority {
				return v1.Authority{Hash: pki.SumText(s.authority.CASum()), Certificate: string(s.authority.CAPEM()), Addresses: addresses}
			},
		},
		Reports:   reports.Options{Retention: time.Duration(s.cfg.HistoryRetention)},
		Resources: resources.Options{Archives: s.archives},
		Routing:   routing.Options{Handlers: s.reactor},
		Runs:      apiruns.Options{New: func() apiruns.Runs { return runs{s.sessions.NewRuns(), s.sessions, s.bridge} }},
		Server:    server.Options{Describe: s.describe, NotReady: s.NotReady, Pending: pending.Len},
		Enrol: &pki.Enroller{
			Authority: s.authority, Tokens: tokens, Registrar: s.intent.Enrolment, Servers: addresses, Admit: admit, Pending: ask,
		},
		Renew: &pki.Renewer{Authority: s.authority, Registrar: s.intent.Enrolment, Admit: admit, Pending: ask},
		Vouch: admission.ProveRequest, Queues: s.queues, Registry: s.registry, Logger: s.log,
	}
	if s.agents == nil {
		s.handlers.people = api.New(options)
	} else {
		s.handlers.people, s.handlers.enrol = api.NewSplit(options)
	}
	if s.bridge != nil { // users of Sensu's agents use sensuctl too
		s.handlers.people = sensuctl.New(sensuctl.Options{API: s.handlers.people, Registerer: s.registry, Log: s.log, Now: s.now})
	}
	mux := http.NewServeMux()
	mux.Handle("/", admin.Handler(admin.Options{
		Gatherer: s.registry, NotReady: s.NotReady, Queues: s.queues, Settings: s.cfg.Settings(),
		Log: func() []byte {
			if s.logTail == nil {
				return nil
			}
			return s.logTail()
		},
	}))
	mux.Handle("GET /debug/states", load.StatesHandler(s.view))
	mux.HandleFunc("GET "+doctor.AssetsPath, s.archives.ServeHTTP)
	s.handlers.admin = admin.Local(mux)
	return nil
}

// assignedChunk finds the chunk of a check in the assignment of a node; nil: it has none.
func (s *Server) assignedChunk(node model.NodeID, check model.CheckID) *model.CheckChunk {
	a := s.directory.For(node)
	if a == nil {
		return nil
	}
	if i := slices.IndexFunc(a.Chunks, func(c *model.Chunk) bool { return c.Unit == check }); i >= 0 {
		return a.Chunks[i].AsCheck()
	}
	return nil
}
