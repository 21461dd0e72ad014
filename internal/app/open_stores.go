package app

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/agent/facts"
	"github.com/muster-fleet/muster/internal/archive"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/offline"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/secret"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/store/asset"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/tools"
	"github.com/muster-fleet/muster/internal/wire"
)

// openIntent opens the database of declared resources, users and nodes
func (s *Server) openIntent(ctx context.Context) error {
	store, err := intentdb.Open(ctx, datadir.IntentDB(s.cfg), kind.All(), s.now)
	if err != nil {
		return err
	}
	s.onClose(store.Close)
	s.files.AddDatabase(datadir.IntentDB(s.cfg))
	s.intent = intent.NewService(intent.Options{
		AuditRetention: time.Duration(s.cfg.AuditRetention),
		Store:          store, Impact: s.previewImpact, NodeChanged: s.endOutdatedSession, Connected: s.sources.connected, Absent: s.remainingAbsenceOf, Full: s.recordLimitHit,
		Trusted:         func(ctx context.Context, node model.NodeID) (string, error) { return s.planner.TrustedGroup(ctx, node) },
		CertificateLife: time.Duration(s.cfg.CertificateLife), Now: s.now, Logger: s.log,
		Limits: model.Limits{
			StatesPerNode: s.cfg.NodeStates, Labels: s.cfg.MaxLabels, OutputBytes: int(s.cfg.MaxOutput), DiscoveredItems: maxDiscoveredItems, Series: maxNamespaceSeries,
			ResultsPerSec: s.cfg.NamespaceRate, NodeResultsSec: s.cfg.NodeRate,
			BytesPerSec: float64(s.cfg.NamespaceByteRate), NodeBytesPerSec: float64(s.cfg.NodeByteRate),
		},
	})
	_, policy := s.queues.Bounds("facts")
	s.queues.Register("facts", func() queue.Info {
		waiting, nodes, ever := s.intent.PendingReports()
		return queue.Info{Name: "facts", Capacity: int64(nodes), Depth: int64(waiting), Unit: "items", Policy: policy, Passed: ever}
	})
	s.access = access.NewService(access.Options{Store: store, Now: s.now, Logger: s.log})
	if err := s.access.Load(ctx); err != nil {
		return err
	}
	if err := s.intent.Load(ctx); err != nil {
		return err
	}
	s.registerTask(back, "intent", s.intent.WriteReports)               // writes facts of agents
	s.registerTask(back, "old changes", s.intent.EnforceRetention)      // deletes old changes
	s.registerTask(back, "ephemeral nodes", s.intent.ForgetAbsentNodes) // deletes ephemeral nodes that stay away
	s.registerTask(back, "password requests", (&offline.PasswordRequests{Data: s.cfg.Data, Access: s.access, Log: s.log}).Run)
	return s.intent.CloseInterruptedRuns(ctx)
}

// previewImpact returns the nodes that planned changes would affect, without applying the changes
func (s *Server) previewImpact(ctx context.Context, writes []intent.Write, detailed bool) (intent.Impact, error) {
	if err := s.planner.CatchUp(ctx); err != nil {
		return intent.Impact{}, err
	}
	return s.planner.Preview(ctx, writes, detailed)
}

// recordLimitHit records that a namespace limit refused the enrolment of a machine. The limits event of the
// namespace's node with the lowest id shows it.
func (s *Server) recordLimitHit(namespace, limit, reason string) {
	id, ok := s.directory.NamespaceByName(namespace)
	var lowest model.NodeID
	for _, node := range s.directory.Nodes(namespace) {
		if lowest == 0 || node < lowest {
			lowest = node
		}
	}
	if !ok || lowest == 0 {
		return
	}
	_, name, _ := s.directory.NodeName(lowest)
	s.sessions.Limiter().Hit(&core.Node{ID: lowest, Name: name, Namespace: id}, limit, reason)
}

// openHistory opens the history databases. One has problems, changes of events and deliveries; the other has runs of
// directives.
func (s *Server) openHistory(ctx context.Context) (err error) {
	s.history, err = history.Open(ctx, datadir.HistoryDB(s.cfg), history.SizeLimit{
		Budget: int64(s.cfg.HistoryBudget), KeepFree: max(int64(s.cfg.JournalReserve), leastFree),
		Free: func() (int64, error) { return disk.OS{}.Free(s.cfg.Data) },
	})
	if err != nil {
		return err
	}
	s.onClose(s.history.Close)
	s.files.AddDatabase(datadir.HistoryDB(s.cfg))
	s.runs, err = compliancelog.Open(ctx, datadir.ComplianceDB(s.cfg), compliancelog.Options{
		Retention: time.Duration(s.cfg.ComplianceRetention), Budget: int64(s.cfg.HistoryBudget), Now: s.now, Logger: s.log,
		Namespace: func(id model.NodeID) string {
			namespace, _, _ := s.directory.NodeName(id)
			return namespace
		},
	})
	if err != nil {
		return err
	}
	s.onClose(s.runs.Close)
	s.files.AddDatabase(datadir.ComplianceDB(s.cfg))
	return nil
}

// leastFree is the least free disk space that history leaves to the journal, beside the journal's reserve.
const leastFree = 64 << 20

// databaseRevisions returns the ids of the open databases and the revision of declared resources, as a journal
// record. The journal records them, so that a start notices when a database was replaced by an older backup.
func databaseRevisions(s *Server) wire.IntentRecord {
	return s.markedStores.Identities(s.directory.Revision())
}

// recordHistoryPosition writes to the journal how far history is complete, before notifications are sent. A
// journal that does not commit delays them by a short time.
func recordHistoryPosition(ctx context.Context, s *Server) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.recorder.RecordRevision(ctx, databaseRevisions(s)); err != nil {
		s.log.Warn("notifications are sent although the journal has not recorded the position of history", "err", err)
	}
}

// openPlanner opens the planner, which compiles all declared resources. The results are assignments, routes and
// pipelines. The folder of these holds only files extracted from archives: a copy of the data folder needs none of it.
func (s *Server) openPlanner(ctx context.Context) (err error) {
	s.routes, s.pipelines = route.NewTable(), pipes.NewTable()
	s.tools, err = tools.Open(tools.Options{
		Dir: s.path("tools"), Facts: facts.New(facts.LocalSystem()).Measure(), Log: s.log,
		Ready: func() {
			if s.dispatcher != nil { // nil while the server opens and sends nothing
				s.dispatcher.AssetArrived()
			}
		},
		Archive: func(sum [64]byte) (io.ReadSeekCloser, error) { return s.archives.OpenChecked(asset.Sum(sum)) },
	})
	if err != nil {
		return err
	}
	s.pipelines.Libraries = s.tools.Scripts
	s.planner = plan.New(plan.Options{
		Store: s.intent.Store(), Epoch: s.journal.Incarnation().Epoch, Logger: s.log,
		Registry: s.registry, Removed: s.recorder.RecordRemoval, Now: s.now,
	})
	s.directory = s.planner.Directory()
	s.directory.Subscribe(s.distributeDeclarations)
	s.recorder.Nodes = s.directory
	s.secrets = secret.New(secret.Options{Secret: s.directory.Secret, Outbound: s.outbound})
	s.registerTask(back, "planner", func(ctx context.Context) error { return s.planner.Run(ctx, s.intent.CommitSignal()) }) // compiles changes of the store
	s.registerTask(back, "intent mark", func(ctx context.Context) error {                                                   // records the revision in force for the next start
		return s.recorder.RecordRevisionChanges(ctx, func() wire.IntentRecord { return databaseRevisions(s) })
	})
	s.registerTask(back, "tools", s.tools.Run) // extracts Assets
	if err := s.planner.Load(ctx); err != nil {
		return err
	}
	s.placed = directory.NewAssignmentTimes(s.directory, s.now)
	return nil
}

// secretValue returns the value of a Secret for a check that an agent runs.
func (st *stores) secretValue(ctx context.Context, namespace, name string) (core.SecretValue, error) {
	v, err := st.secrets.Resolve(ctx, namespace, name)
	return core.SecretValue{Text: v.Text, Lease: v.Lease}, err
}

// secretText returns the value of a Secret for a handler that runs on the server.
func (st *stores) secretText(ctx context.Context, namespace, name string) (string, error) {
	v, err := st.secrets.Resolve(ctx, namespace, name)
	return v.Text, err
}

// openArchives opens the store of Assets' archives.
func (s *Server) openArchives(context.Context) (err error) {
	s.archives, err = archive.Open(archive.Options{
		Dir: s.path("assets"), Revision: s.directory.Revision, Ready: s.tools.ArchiveArrived, Outbound: s.outbound, Now: s.now, Log: s.log,
		Assets: func(ctx context.Context) ([]model.Resource, error) {
			return s.intent.List(ctx, intent.ListQuery{Kind: "Asset"}, nil)
		},
		Changed: func() {
			var named []string
			for _, spec := range s.directory.Handlers() {
				named = append(named, spec.Assets...)
			}
			s.tools.SetHandlerAssets(named)
		},
	})
	if err == nil {
		s.registerTask(back, "assets", s.archives.Run) // fetches and removes archives
	}
	return err
}

// distributeDeclarations passes changed declared resources to the server parts that use copies, such as the
// table of routes.
func (s *Server) distributeDeclarations(c directory.Change) {
	err := errors.Join(s.routes.Apply(c.Declarations), s.pipelines.Apply(c.Declarations))
	if err != nil { // intent refuses such a resource, so another version of Muster stored it
		s.log.Error("cannot apply a resource; the server keeps its last valid definition", "error", err)
	}
	if c.Dependencies || c.Receivers {
		s.routes.NotifyChange(c.Receivers)
	}
	s.tools.Apply(c.Declarations)
}
