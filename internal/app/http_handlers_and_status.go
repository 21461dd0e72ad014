package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api"
	"github.com/muster-fleet/muster/internal/api/admin"
	apicompliance "github.com/muster-fleet/muster/internal/api/compliance"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/inbound"
	apiinventory "github.com/muster-fleet/muster/internal/api/inventory"
	"github.com/muster-fleet/muster/internal/api/items"
	apinodes "github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/reports"
	"github.com/muster-fleet/muster/internal/api/resources"
	"github.com/muster-fleet/muster/internal/api/rollouts"
	"github.com/muster-fleet/muster/internal/api/routing"
	apiruns "github.com/muster-fleet/muster/internal/api/runs"
	"github.com/muster-fleet/muster/internal/api/server"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/sdnotify"
	"github.com/muster-fleet/muster/internal/selfcheck"
	"github.com/muster-fleet/muster/internal/sensuctl"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/store/history"
)

// openAPI creates the HTTP handlers (API, metrics, agents' sessions) of all listeners.
func (s *Server) openAPI(context.Context) error {
	addresses := s.cfg.AgentAddresses(s.forAgents().Addr(), s.names)
	tokens := intent.JoinTokens{Store: s.intent.Store()}
	admit := apinodes.NewEnrolmentLimit(s.queues)
	var pending *apinodes.Pending
	var ask func(string, pki.EnrolRequest) (time.Duration, error)
	if s.cfg.Pending != "off" {
		pending = apinodes.NewPending(s.queues, s.now)
		ask = pending.AddRequest
	}
	inForce := func(ctx context.Context) {
		if err := s.planner.CatchUp(ctx); err != nil {
			s.log.Warn("the server stored the change, but the planner has not compiled the change yet", "err", err)
		}
	}
	stores := view.Stores{
		Intent: s.intent, Rows: s.intent.Store(), Events: s.view, Directory: directoryWithFaults{s.directory, s.planner.Inspector(), &s.sources}, History: s.history,
		Search:  func(ctx context.Context) view.EntrySearch { return s.inventories.NewSearch(ctx).HasEntry },
		Routing: s.routes, Incarnation: s.journal.Incarnation().ID, Now: s.now, Series: s.series,
	}
	options := api.Options{
		Stores: stores,
		Live: view.Live{
			Connected: s.sources.connected, Agent: s.agentSession, StepDebt: s.stepTurns.Excess, OldestDeferred: s.metrics.OldestDeferred, Limits: s.limitUses, Verdicts: s.dispatcher.PipelineDecisions,
			ProblemLabels: s.metrics.ProblemLabels,
			Stream:        streamProgress(s.streams), Judgement: s.directory.CheckDefinition, Assigned: func(node model.NodeID, unit model.UnitID) *model.Definition {
				return directory.AssignedDefinition(s.directory, node, unit)
			},
		},
		Access:     s.access,
		Events:     events.Options{Actions: s.recorder},
		Items:      items.Options{Items: s.metrics.Items, Refusals: s.metrics.RejectedNumbers, Texts: s.metrics.FindTexts, Load: s.valueLoad},
		Rules:      s.rules.Groups,
		Compliance: complianceSums(s, stores),
		Inventory:  apiinventory.Options{Inventories: s.inventories, Collect: s.sessions.RequestInventory},
		Inbound: inbound.Options{
			Secret: handler.New(handler.Options{Secret: s.secretText, Now: s.now, Logger: s.log}).Secret, Alerts: s.alerts.Serve, Samples: s.samples.Serve, Actions: s.recorder,
		},
		Nodes: apinodes.Options{
			JoinTokens: tokens,
			NewJoinToken: func(keep pki.JoinToken) (pki.Token, pki.JoinToken, error) {
				return s.authority.NewToken(addresses, keep)
			},
			PendingMachines: pending,
			CA: func() v1.Authority {
				return v1.Authority{Hash: pki.FormatSum(s.authority.CASum()), Certificate: string(s.authority.CAPEM()), Addresses: addresses}
			},
		},
		Reports:   reports.Options{Retention: time.Duration(s.cfg.HistoryRetention)},
		Rollouts:  rollouts.Options{Driver: s.rollouts, InForce: inForce},
		Resources: resources.Options{Archives: s.archives, ChangeRouting: newRoutingChanger(s.dispatcher, inForce), PreviewRouting: s.dispatcher.PreviewRouting},
		Routing:   routing.Options{Handlers: s.dispatcher, InForce: inForce},
		Runs:      apiruns.Options{New: func() apiruns.Runs { return runRequester{s.sessions.NewRuns(), s.sessions, s.bridge} }},
		Server:    server.Options{Describe: s.describeStatus, NotReady: s.NotReady, Pending: pending.Len},
		Enrol: &pki.Enroller{
			Authority: s.authority, Tokens: tokens, Registrar: s.intent.Enrolment, Servers: addresses, Admit: admit, Pending: ask,
		},
		ProtectConnection: admission.ProtectRequest, Queues: s.queues, Registry: s.registry, Logger: s.log,
	}
	if s.agents == nil {
		s.handlers.people = api.New(options)
	} else {
		s.handlers.people, s.handlers.enrol = api.NewSeparateHandlers(options)
	}
	if s.bridge != nil { // users of Sensu agents also use sensuctl
		s.handlers.people = sensuctl.New(sensuctl.Options{API: s.handlers.people, Registerer: s.registry, Log: s.log, Now: s.now, MaxAffected: s.cfg.SensuMaxAffected})
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
	mux.Handle("GET /debug/states", play.StatesHandler(s.view))
	mux.HandleFunc("GET "+doctor.AssetsPath, s.archives.ServeHTTP)
	s.handlers.admin = admin.LocalOnly(mux)
	return nil
}

// complianceSums counts compliant and other components over the whole fleet, kept current by a background task.
// A background task keeps the numbers up to date.
func complianceSums(s *Server, stores view.Stores) *apicompliance.FleetCompliance {
	sums := apicompliance.NewFleetCompliance(apicompliance.Options{
		Runs: s.compliance.Runs, LastRun: s.compliance.LastRun, Changes: s.compliance.TakeChanges, History: s.compliance, Definition: s.directory.Definition,
		Version: func(u *directory.Unit, id model.NodeID) *model.Definition {
			return directory.DefinitionOnNode(s.directory, u, id)
		},
		Placements: s.directory.FleetSnapshot,
		Since:      s.placed.Since,
		Mode:       func(id model.NodeID) model.NodeMode { return directory.NodeMode(s.directory, id) },
		Chain:      s.compliance.Chain,
		CA:         func() string { return string(s.authority.CAPEM()) },
		Overridden: func(id model.NodeID) []directory.Override { return directory.Overridden(s.directory, id) },
		Log:        s.log,
	}, stores)
	s.registerTask(back, "compliance sums", sums.Run)
	return sums
}

// newMonitor creates the monitor that reports the server's own state as built-in events. It is created before the
// components that it watches, because they report to the monitor while they open.
func (s *Server) newMonitor() *selfcheck.Monitor {
	return selfcheck.New(selfcheck.Options{
		KeepaliveTimeout: time.Duration(s.cfg.KeepaliveTimeout), SnapshotCycle: s.cfg.SnapshotCycle.String(),
		RestoredCommand: datadir.DoctorCommand(s.cfg, "restored"), Now: s.now, Log: s.log,
		Record: s.recorder.RecordNodeResult,
		Event: func(node model.NodeID, check model.CheckID) (event.State, bool) {
			return s.view.Get(node, model.CheckSource(check))
		},
		Events: func(ctx context.Context, q event.Query) (event.Page, error) { return s.view.List(ctx, q) },

		Machines:  func() int { return s.directory.AgentNodeCount() },
		Exists:    func(node model.NodeID) bool { return s.directory.AssignmentOf(node) != nil },
		Node:      func(namespace, name string) (model.NodeID, bool) { return s.directory.NodeByName(namespace, name) },
		Connected: s.connectedNodes,
		Hits:      func(since time.Time) []core.LimitHit { return s.sessions.Limiter().RecentHits(since) },
		Journal:   func() journal.Stats { return s.journal.Stats() },
		Holder: func() (name string, bytes int64) {
			lowest, ok := s.consumers.Slowest()
			if !ok {
				return "", 0
			}
			return lowest.Name, s.journal.SizeAfter(lowest.At)
		},
		Lag:      func() dispatch.Lag { return s.dispatcher.Lag() },
		Trouble:  func() error { return s.history.Trouble() },
		History:  func() history.Usage { return s.history.CurrentUsage() },
		FullDisk: func() string { return doctor.FullDiskText(s.cfg.Data, datadir.Journal(s.cfg)) },
		Files:    s.files.Changed,
		Rollouts: func() []string { return s.rollouts.FailedRollouts() },
		Streams:  func() []follow.State { return s.streams.States() },
	})
}

// describeStatus returns the server's status for muster status.
func (s *Server) describeStatus() v1.Status {
	parts := selfcheck.StatusParts{
		Started: s.started, Journal: datadir.Journal(s.cfg), Head: s.journal.Head().Number, Applied: s.view.Applied().Number,
		Troubles: []error{s.intent.Store().Trouble(), s.history.Trouble(), s.series.Trouble(), s.texts.Trouble()}, Oversized: s.planner.Inspector().OversizedNodes(3),
	}
	if s.cfg.Journal != "" {
		parts.Data = s.cfg.Data
	}
	if s.remote != nil {
		parts.Remote = new(s.remote.State())
	}
	return s.monitor.Status(parts)
}

// agentSession returns the session of a node in the API's form. If the node has no session, ok is false.
func (s *Server) agentSession(node model.NodeID) (v1.AgentSession, bool) {
	a, ok := s.agentState(node)
	return view.AgentSession(&a, s.now()), ok
}

// limitUses returns the limits of a namespace with their current use.
func (s *Server) limitUses(namespace string) []v1.LimitUse {
	id, ok := s.directory.NamespaceByName(namespace)
	if !ok {
		return nil
	}
	limits := s.intent.LimitsFor(namespace)
	limits.NodeValuesPerSec = s.sessions.Limiter().Limits(id).NodeValuesPerSec // with its default
	return selfcheck.LimitUsages(namespace, &limits, s.view.Counts(id).States, uint64(len(s.directory.Nodes(namespace))), s.metrics.DiscoveredItems(id), uint64(s.series.SeriesCount(namespace)), s.sessions.Limiter().RecentHits(time.Time{}))
}

// streamProgress returns a function that computes how far a handler of every result is behind the journal. Only
// handlers that receive every result have such a delay.
func streamProgress(streams *follow.Set) func(route.Name) (v1.HandlerStream, bool) {
	return func(handler route.Name) (v1.HandlerStream, bool) {
		st, ok := streams.State(handler)
		return v1.HandlerStream{
			BehindSeconds: st.Lag.Seconds(), BehindBytes: st.BehindBytes, Connections: st.Connections, Lines: st.Lines, RewrittenLines: st.RewrittenLines,
			Withheld: st.Withheld, Skipped: st.Skipped, SkippedAt: st.SkippedAt.UTC(), Trouble: st.Trouble, News: st.News,
		}, ok
	}
}

// reportStatus updates the status line in systemctl status until ctx ends. It returns at once without systemd.
func (s *Server) reportStatus(ctx context.Context) error {
	if s.manager == (sdnotify.Manager{}) {
		return nil
	}
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for last := ""; ; {
		if now := s.statusLine(); now != last && s.ready.Load() == nil {
			s.manager.Status(now)
			last = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// statusLine describes the server's state in one line for systemctl status.
func (s *Server) statusLine() string {
	if why := s.NotReady(); len(why) > 0 {
		return "not ready: " + strings.Join(why, "; ")
	}
	return fmt.Sprintf("ready at %s; agents connected: %d", s.people.Addr(), s.connectedNodes())
}

// newRoutingChanger returns a function that changes resources and returns the problems with changed routes. The function
// waits until the planner has applied the change.
func newRoutingChanger(r *dispatch.Dispatcher, inForce func(context.Context)) func(context.Context, dispatch.RoutingChange, func() (*dispatch.ReceiverEdits, error)) ([]dispatch.AffectedProblems, bool, error) {
	return func(ctx context.Context, c dispatch.RoutingChange, change func() (*dispatch.ReceiverEdits, error)) ([]dispatch.AffectedProblems, bool, error) {
		return r.ChangeRouting(ctx, c, func() (*dispatch.ReceiverEdits, error) {
			edits, err := change()
			if err == nil {
				inForce(ctx)
			}
			return edits, err
		})
	}
}
