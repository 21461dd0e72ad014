package app

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/api"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
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
	admit := api.Enrolments(s.queues)
	var pending *api.Pending
	var ask func(string, pki.EnrolRequest) (time.Duration, error)
	if s.cfg.Pending != "off" {
		pending = api.NewPending(s.queues, s.now)
		ask = pending.Ask
	}
	options := api.Options{
		Access: s.access, Intent: s.intent, Rows: s.intent.Store(), Events: s.view, Directory: directory{s.planner, s.turns}, History: s.history, Actions: s.recorder, Handlers: s.reactor, Verdicts: s.reactor.Verdicts, Routing: s.routes, Archives: s.archives, Chunk: s.planner.CheckChunk,
		Incarnation: s.journal.Incarnation().ID, Retention: time.Duration(s.cfg.HistoryRetention),
		JoinTokens: tokens,
		NewJoinToken: func(keep pki.JoinToken) (pki.Token, pki.JoinToken, error) {
			return s.authority.NewToken(addresses, keep)
		},
		Enrol: &pki.Enroller{
			Authority: s.authority, Tokens: tokens, Registrar: s.intent, Servers: addresses, Admit: admit, Pending: ask,
		},
		Stream:  streamPosition(s.streams),
		Waiting: pending, Pending: pending.Len,
		CA: func() v1.Authority {
			return v1.Authority{Hash: pki.SumText(s.authority.CASum()), Certificate: string(s.authority.CAPEM()), Addresses: addresses}
		},
		NewRuns: func() api.Runs { return runs{s.sessions.NewRuns(), s.sessions, s.bridge} },
		Assigned: func(node model.NodeID, check model.CheckID) *model.CheckChunk {
			a := s.planner.For(node)
			if a == nil {
				return nil
			}
			if i := slices.IndexFunc(a.Chunks, func(c *model.Chunk) bool { return c.Unit == check }); i >= 0 {
				return a.Chunks[i].AsCheck()
			}
			return nil
		},
		Renew:     &pki.Renewer{Authority: s.authority, Registrar: s.intent, Admit: admit, Pending: ask},
		Alerts:    s.alerts.Serve,
		Secret:    handler.New(handler.Options{Secret: s.secretText, Now: s.now, Logger: s.log}).Secret,
		Connected: s.sources.connected, Agent: s.agentSession, Queues: s.queues, Describe: s.describe, Limits: s.limitUses, Vouch: admission.Vouch, NotReady: s.NotReady, Registry: s.registry, Logger: s.log, Now: s.now,
	}
	if s.agents == nil {
		s.handlers.people = api.New(options)
	} else {
		s.handlers.people, s.handlers.enrol = api.NewSplit(options)
	}
	if s.bridge != nil { // users of Sensu's agents use sensuctl too
		s.handlers.people = sensuctl.New(sensuctl.Options{API: s.handlers.people, Registerer: s.registry, Log: s.log, Now: s.now})
	}
	admin := http.NewServeMux()
	admin.Handle("/", api.Admin(api.AdminOptions{
		Gatherer: s.registry, NotReady: s.NotReady, Queues: s.queues, Settings: s.cfg.Settings(),
		Log: func() []byte {
			if s.logTail == nil {
				return nil
			}
			return s.logTail()
		},
	}))
	admin.Handle("GET /debug/states", load.StatesHandler(s.view))
	admin.HandleFunc("GET "+doctor.AssetsPath, s.archives.ServeHTTP)
	s.handlers.admin = api.Local(admin)
	return nil
}
