package app

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/secret"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

func (s *Server) openIntent(ctx context.Context) error {
	dsn := s.cfg.IntentDB
	if dsn == "" {
		dsn = s.path("intent.db")
	}
	store, err := intentdb.Open(ctx, dsn, s.now)
	if err != nil {
		return err
	}
	s.intent = intent.NewService(intent.Options{
		AuditRetention: time.Duration(s.cfg.AuditRetention),
		Store:          store, Impact: s.impact, NodeChanged: s.nodeChanged, Connected: s.connected, Absent: s.absent, Trusted: s.trusted, Full: s.full, CertificateLife: time.Duration(s.cfg.CertificateLife), Now: s.now, Logger: s.log,
		Limits: model.Limits{
			StatesPerNode: s.cfg.NodeStates, Labels: s.cfg.MaxLabels, OutputBytes: int(s.cfg.MaxOutput),
			ResultsPerSec: s.cfg.NamespaceRate, NodeResultsSec: s.cfg.NodeRate,
		},
	})
	s.listFacts()
	s.access = access.NewService(access.Options{Store: store, Now: s.now, Logger: s.log})
	if err := s.access.Load(ctx); err != nil {
		return err
	}
	if err := s.intent.Load(ctx); err != nil {
		return err
	}
	return s.intent.CloseInterruptedRuns(ctx)
}

// impact returns the effect of writes on assignments, by the planner.
func (s *Server) impact(ctx context.Context, writes []intent.Write) ([]intent.Landing, int, error) {
	if err := s.planner.CatchUp(ctx); err != nil {
		return nil, 0, err
	}
	return s.planner.Preview(ctx, writes)
}

func (s *Server) openHistory(ctx context.Context) error {
	dsn := s.cfg.HistoryDB
	if dsn == "" {
		dsn = s.path("history.db")
	}
	var err error
	s.history, err = history.Open(ctx, dsn)
	return err
}

// openReactions makes the reactor, which knows from the history store how far it came.
func (s *Server) openReactions(ctx context.Context) error {
	s.reactor = react.New(react.Options{
		Store: s.history, Names: s.planner, Routing: s.routes, Present: react.EventPresence(s.present), Rederive: s.rederive, Journal: s.journal, Beat: s.beat,
		Pipelines: s.pipelines, Kept: s.planner.FilterContext,
		Secret: s.secretText, Assets: s.tools.Use, NodesSilent: s.monitor.Silent, MassOutage: s.monitor.MassOutage, Dependencies: func(node model.NodeID, source model.Source) []route.Dependency {
			return s.planner.Dependencies(node, source.Check())
		}, Shadow: s.planner.Shadow,
		EndSilences: func(ctx context.Context, list []react.SilenceEnd) error {
			ends := make([]intent.SilenceEnd, len(list))
			for i, e := range list {
				ends[i] = intent.SilenceEnd{Key: intent.Key{Kind: "Silence", Namespace: e.Silence.Namespace, Name: e.Silence.Name}, At: e.At}
			}
			return s.intent.EndSilences(ctx, "the problem that it silenced has closed", ends)
		},
		Gather:       250 * time.Millisecond, // docs/decisions/0005-reactions-gather.md
		GatherOpened: 50 * time.Millisecond,
		Retention:    time.Duration(s.cfg.HistoryRetention), Now: s.now, Logger: s.log,
		Registerer: s.registry, Queues: s.queues, Guard: s.guard, ProblemLink: s.cfg.ProblemLink,
	})
	return s.reactor.Load(ctx, s.journal.CommonPosition)
}

func (s *Server) openPlanner(ctx context.Context) error {
	s.routes, s.pipelines = route.NewTable(), pipes.NewTable()
	var err error
	if s.tools, err = s.openTools(); err != nil {
		return err
	}
	s.pipelines.Libraries = s.tools.Scripts
	s.planner = plan.New(plan.Options{
		Store: s.intent.Store(), Epoch: s.journal.Incarnation().Epoch, Logger: s.log,
		Registry: s.registry, Forget: s.recorder.Forget, Routing: s.routes, Pipelines: s.pipelines, Tools: s.tools,
	})
	s.recorder.Nodes = s.planner
	s.secrets = secret.New(secret.Options{Secret: s.planner.Secret})
	return s.planner.Load(ctx)
}

// present returns the state of an event in the view.
func (s *Server) present(node model.NodeID, check model.CheckID) (event.State, bool) {
	return s.view.Get(node, check)
}
