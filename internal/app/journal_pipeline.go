package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/computed"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/inventory"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/rederive"
	"github.com/muster-fleet/muster/internal/remotesend"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/rules"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/store/attempt"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/store/snapshot"
	"github.com/muster-fleet/muster/internal/store/textlog"
)

// pipeline holds the parts through which each journal commit passes, such as event state and dispatcher. They
// are the journal, the in-memory event state, the snapshots and the dispatcher. Snapshots of the view allow the
// journal to be cut.
type pipeline struct {
	journal      *journal.Log
	markedStores *datadir.Stores   // stores that marks in the journal name
	consumers    journal.Consumers // the journal is cut below the lowest position of these consumers
	recorder     *recorder.Recorder
	dispatcher   *dispatch.Dispatcher
	view         *event.View
	reducers
	series    series.Store      // numeric values of items
	texts     *textlog.Store    // text and log values of items
	remote    *remotesend.Queue // of remote write; nil: not configured
	rules     *rules.Engine
	computed  *computed.Engine
	stepTurns *core.WorkerShares // of nodes whose values take most time
	snapshots *snapshot.Store
	replays   *rederive.Source
	streams   *follow.Set // handlers that get every result
	replayed  replayGate
}

// replayGate delays new journal commits until older commits are replayed into memory. So the view gets each
// commit once, and in order.
type replayGate struct {
	ended chan struct{} // closed when the replay ended or failed
	last  uint64        // number of the last commit that the replay delivered. Written before ended is closed
}

// end marks the replay of old journal commits as complete, so that waiting new commits continue. Parameter last
// is the number of the last replayed commit.
func (r *replayGate) end(last uint64) {
	select {
	case <-r.ended:
	default:
		r.last = last
		close(r.ended)
	}
}

// openJournal opens the journal, and refuses a journal older than the snapshots or the history.
func (s *Server) openJournal(ctx context.Context) error {
	o := datadir.JournalOptions(s.cfg)
	names, err := snapshot.ReadNames(disk.OS{}, datadir.Snapshots(s.cfg))
	if err != nil {
		return err
	}
	o.KnownPositions, o.VerifyFrom = names.Positions, names.Oldest
	places, err := s.history.Positions(ctx)
	if err != nil {
		return err
	}
	for _, place := range places {
		o.KnownPositions = append(o.KnownPositions, place.At)
	}
	o.Linger, o.PatientLinger = journal.ServerLinger, journal.ServerPatientLinger
	o.QueueBytes, _ = s.queues.Bounds("journal")
	o.Clock = journalClock{now: s.now, startedAt: s.now()}
	o.Deliver, o.Queues, o.Logger = s.deliver, s.queues, s.log
	shown := metrics.NewJournal(s.registry, "server")
	o.ObserveCommit = shown.Committed
	if s.journal, err = journal.Open(datadir.Journal(s.cfg), o); err != nil {
		return err
	}
	s.onClose(func() error {
		s.replayed.end(^uint64(0)) // releases the committer: it waits for the end of the replay
		return s.journal.Close()
	})
	shown.RegisterStats(s.journal)
	s.files.Add(filepath.Join(datadir.Journal(s.cfg), "FORMAT"), filepath.Join(datadir.Journal(s.cfg), "LOCK"))
	s.files.Missing = s.journal.MissingSegments
	s.recorder.Journal = s.journal
	s.markedStores = &datadir.Stores{Config: s.cfg, Journal: s.journal, Intent: s.intent.Store(), History: s.history}
	return nil
}

// journalClock lets the journal read the server's clock.
type journalClock struct {
	now       func() time.Time
	startedAt time.Time
}

// Wall returns the server's wall-clock time in nanoseconds since 1970, for journal commits.
func (c journalClock) Wall() int64 { return c.now().UnixNano() }

// Mono returns the monotonic time since the clock's start. It never jumps.
func (c journalClock) Mono() time.Duration { return c.now().Sub(c.startedAt) }

// deliver passes a newly written journal commit to the event state in memory, after the replay at start. The
// journal's committer waits here until the replay has ended.
func (p *pipeline) deliver(c journal.Commit) {
	<-p.replayed.ended
	if c.Position().Number > p.replayed.last {
		p.view.Deliver(c)
	}
}

// openDispatcher opens the dispatcher, which writes changes of events to history and notifies handlers.
func (s *Server) openDispatcher(ctx context.Context) error {
	attempts, err := attempt.Open(s.path("attempts"))
	if err != nil {
		return err
	}
	s.onClose(attempts.Close)
	s.dispatcher = dispatch.New(dispatch.Options{
		Store: s.history, Names: directoryWithFaults{s.directory, s.planner.Inspector(), &s.sources}, Journal: s.journal,
		Rederive: func() (dispatch.Replay, error) {
			replay, err := s.replays.BeginReplay()
			if err != nil {
				return nil, err
			}
			return replay, nil
		},
		Routing: dispatch.RoutingOptions{
			Table: s.routes, NodesSilent: s.monitor.ReportSilentNodes, MassOutage: s.monitor.MassOutage, Shadow: s.directory.Shadow,
			Present: dispatch.EventState(func(node model.NodeID, source model.Source) (event.State, bool) { return s.view.Get(node, source) }),
			Dependencies: func(node model.NodeID, source model.Source) []route.Dependency {
				return s.directory.Dependencies(node, source)
			},
			EndSilences: func(ctx context.Context, list []dispatch.SilenceEnd) error {
				ends := make([]intent.SilenceEnd, len(list))
				for i, e := range list {
					ends[i] = intent.SilenceEnd{Key: intent.Key{Kind: "Silence", Namespace: e.Silence.Namespace, Name: e.Silence.Name}, At: e.At}
				}
				return s.intent.EndSilences(ctx, "the silenced problem has closed", ends)
			},
		},
		Pipelines: dispatch.PipelineOptions{Table: s.pipelines, FilterContext: s.directory.FilterContext},
		Delivery: dispatch.DeliveryOptions{
			Beat: func(output string) {
				if s.watchdog != nil { // nil while the server opens and replays results of an earlier run
					s.watchdog.ConfirmDelivery(output)
				}
			},
			Attempts: attempts,
			Options:  handler.Options{Secret: s.secretText, Assets: s.tools.UseAssets, Guard: s.guard, ProblemLink: s.cfg.ProblemLink, Dialer: s.outbound.Dialer()},
		},
		Batches:      dispatch.BatchOptions{Gather: time.Second, GatherOpened: 50 * time.Millisecond}, // docs/decisions/0005-reactions-gather.md
		MarkRecorded: func(ctx context.Context) { recordHistoryPosition(ctx, s) }, Retention: time.Duration(s.cfg.HistoryRetention), Now: s.now, Logger: s.log, Registerer: s.registry, Queues: s.queues,
	})
	s.registerTask(reactions, "reactions", s.dispatcher.Run)
	return s.dispatcher.LoadPositions(ctx, s.journal.CommonPosition)
}

// shardOptions returns the settings of the workers that keep the event state in memory. The live view and the second
// view of a replay use the same settings.
func (s *Server) shardOptions() shard.Options {
	return shard.Options{
		Definitions: s.directory.Definition, Grace: time.Duration(s.cfg.ReconnectGrace), KeepaliveTimeout: time.Duration(s.cfg.KeepaliveTimeout), Logger: s.log,
	}
}

// openEventState restores the in-memory event state from snapshots and then replays the newer part of the journal
func (s *Server) openEventState(ctx context.Context) (err error) {
	s.snapshots, err = snapshot.Open(snapshot.Options{
		Dir: datadir.Snapshots(s.cfg), Head: s.journal.Head(), Resolve: s.journal.Resolve, Logger: s.log, Registerer: s.registry,
	})
	if err != nil {
		return err
	}
	o := s.shardOptions()
	o.Workers, o.Registerer, o.Queues = workerCount(), s.registry, s.queues
	s.view = event.New(shard.New(o), event.Options{Emit: s.dispatcher.Emit, Limits: s.intent.NamespaceLimits, Registerer: s.registry, Queues: s.queues})
	values, err := openSeries(s)
	if err != nil {
		return err
	}
	s.series = values.Store
	if err := openTexts(ctx, s); err != nil {
		return err
	}
	var sender metric.Sender
	if s.cfg.RemoteWriteURL != "" {
		if err := openRemoteWrite(ctx, s); err != nil {
			return err
		}
		sender = s.remote
	}
	s.stepTurns = core.NewWorkerShares(func() int64 { return int64(s.now().Sub(s.started)) })
	s.stepTurns.Register(s.registry)
	s.reducers = addReducers(s.view.Shard, metric.Options{Definitions: s.directory.Definition, Registerer: s.registry, Series: values, Texts: s.texts, Sender: sender, Charge: s.stepTurns.AddUsage}, s.runs)
	s.recorder.Applied = s.view.WaitApplied
	s.replays = &rederive.Source{Journal: s.journal, Snapshots: s.snapshots, Live: s.view, Options: s.shardOptions, Parallel: workerCount(), AddReducers: func(to *shard.Shard) {
		addReducers(to, metric.Options{Definitions: s.directory.Definition, Series: metric.SeriesOptions{Live: s.metrics}}, nil)
	}}
	s.consumers.Add(s.snapshots.Consumers) // before the replays: they begin at snapshots
	s.consumers.Add(s.replays.Consumers)
	s.consumers.Add(s.dispatcher.Consumers)
	s.registry.MustRegister(metrics.Consumers{List: &s.consumers, Lag: s.journal.SizeAfter})
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.view.Run(life); err != nil && !errors.Is(err, context.Canceled) {
			s.log.Error("the event view stopped", "err", err)
		}
	})
	s.onClose(func() error { // closes before the journal, whose committer may wait for the view
		end()
		running.Wait()
		return nil
	})
	running.Go(func() { // before the replay, whose entries it writes
		if err := s.runs.Run(life); err != nil {
			s.log.Error("the history of compliance lacks the last runs; the next start adds them", "err", err)
		}
	})
	running.Go(func() { s.texts.Run(life) }) // likewise
	began := time.Now()
	from, restored, err := s.snapshots.Restore(workerCount(), s.view.Restore)
	if err != nil {
		return err
	}
	if tail := s.journal.Tail(); from.Number+1 < tail.Number {
		return model.Errorf(model.Internal,
			"cannot rebuild the events: %d of %d partitions have no usable snapshot (see the log for reasons), and the journal starts at commit %d",
			model.Partitions-restored, model.Partitions, tail.Number).
			WithHint("restore the data folder from a backup, or start without the event states of these partitions, which the next results restore: %s", datadir.DoctorCommand(s.cfg, "repair"))
	}
	running.Go(func() { s.series.Run(life) }) // after the restore, because a block is written from complete heads
	head := s.journal.Head()
	if err := s.journal.Read(ctx, from, func(c journal.Commit) error { s.view.Deliver(c); return nil }); err != nil {
		return fmt.Errorf("replay the journal from commit %d: %w", from.Number, err)
	}
	if err := s.view.WaitApplied(ctx, head); err != nil {
		return err
	}
	last := s.view.RevisionRecord()
	if err := s.markedStores.RefuseReplaced(ctx, last); err != nil {
		return err
	}
	unknownUntil, err := s.markedStores.RecordIncarnation(ctx, last)
	if err != nil {
		return err
	}
	if err := s.dispatcher.LoadOutbox(ctx, unknownUntil); err != nil {
		return err
	}
	s.dispatcher.CompareOpenProblems(head, s.view.OpenProblems)
	s.replayed.end(head.Number)
	s.log.Info("event view is up to date", "partitions", restored, "replayed", head.Number-from.Number, "took", time.Since(began))
	s.planner.SetInventories(func(ctx context.Context) plan.EntrySearch { return s.inventories.NewSearch(ctx).HasEntry }) // no session has an assignment yet
	s.registerTask(back, "inventories of groups", func(ctx context.Context) error { return evaluateInventories(ctx, s.inventories, s.planner) })
	s.registerTask(back, "snapshots", s.runSnapshots)
	s.registerTask(back, "verdicts", func(ctx context.Context) error { // writes the verdicts of triggers
		return s.metrics.Run(ctx, func(ctx context.Context, list []metric.Verdict, partitions []model.Partition) error {
			for i := range list {
				setHostMacros(s.directory, &list[i])
			}
			if err := s.recorder.RecordVerdicts(ctx, list, partitions); err != nil {
				return err
			}
			for i := range list {
				s.sessions.Limiter().ChargeTriggerChange(list[i].Node)
			}
			return nil
		}, s.log)
	})
	s.registerTask(back, "deferred values", func(ctx context.Context) error {
		return s.metrics.ResumeDeferred(ctx, s.recorder.RecordAndApply, s.log)
	})
	s.registerTask(back, "discovered items", func(ctx context.Context) error { return s.metrics.LimitDiscovery(ctx, s.discoveryLimits(), s.log) })
	s.registerTask(back, "refused series", func(ctx context.Context) error { return s.metrics.ReportRefusedSeries(ctx, newSeriesReport(s)) })
	s.registerTask(back, "old definitions", (&plan.Collector{ // of checks
		Planner: s.planner, NamedByStates: s.usedDefinitions, Now: s.now, Log: s.log,
		Oldest: func(ctx context.Context) (time.Time, error) { return journal.OldestReceived(ctx, s.journal) },
	}).Run)
	return nil
}

// discoveryLimits returns the limits on the number of items that discovery rules may create per namespace. It
// also has the functions that record and report a reached limit.
func (s *Server) discoveryLimits() metric.DiscoveryLimits {
	return metric.DiscoveryLimits{
		Limit: func(id model.NamespaceID) int { return s.intent.NamespaceLimits(id).DiscoveredItems }, Record: s.recorder.RecordAndApply,
		Reached: func(id model.NodeID, namespace model.NamespaceID, reason string) {
			_, name, _ := s.directory.NodeName(id)
			s.sessions.Limiter().Hit(&core.Node{ID: id, Name: name, Namespace: namespace}, "discovered_items", reason)
		},
	}
}

// newSeriesReport returns a function that reports the limit of series of a namespace as reached by a node. Node zero
// stands for samples of remote write or of rules.
func newSeriesReport(s *Server) func(namespace string, node model.NodeID) {
	return func(namespace string, node model.NodeID) {
		id, ok := s.directory.NamespaceByName(namespace)
		if !ok {
			return // deleted meanwhile
		}
		name := "samples"
		if node != 0 {
			_, name, _ = s.directory.NodeName(node)
		}
		s.sessions.Limiter().Hit(&core.Node{ID: node, Name: name, Namespace: id}, "series",
			fmt.Sprintf("the namespace has its limit of %d series: numbers of new series are not stored", s.intent.LimitsFor(namespace).Series))
	}
}

const (
	// seriesLateWindow is how much older than the newest value a late value may be, such as one of an agent's spool.
	seriesLateWindow = 24 * time.Hour
	// maxDiscoveredItems bounds the discovered items of a namespace without a limit of its own.
	maxDiscoveredItems = 1_000_000
	// maxNamespaceSeries bounds the series of a namespace without a limit of its own.
	maxNamespaceSeries = 2_000_000
	// maxCheckSeries bounds the series of one check on one node: twice the numbers of a result.
	maxCheckSeries = 2 * model.MaxValues
)

// openSeries opens the series store of the numeric values of items. It closes after the event view, whose
// workers append to it.
func openSeries(s *Server) (o metric.SeriesOptions, err error) {
	o.Store, err = series.Open(datadir.Series(s.cfg), series.Options{
		Range: time.Duration(s.cfg.SeriesRange), Retention: time.Duration(s.cfg.SeriesRetention), MaxBytes: int64(s.cfg.SeriesBudget), TrendRetention: time.Duration(s.cfg.TrendRetention), LateWindow: seriesLateWindow, MaxSeries: func(namespace string) int { return s.intent.LimitsFor(namespace).Series }, MaxCheckSeries: maxCheckSeries, Logger: s.log, Registry: s.registry,
	})
	if err != nil {
		return o, err
	}
	s.onClose(o.Store.Close)
	o.Names = func(id model.NodeID) (node, namespace string) {
		namespace, node, ok := s.directory.NodeName(id)
		if !ok { // deleted meanwhile
			return fmt.Sprintf("deleted-%d", id), namespace
		}
		return node, namespace
	}
	return o, nil
}

// openTexts opens the store of text and log values. It closes after the event view, whose workers append to it.
func openTexts(ctx context.Context, s *Server) (err error) {
	s.texts, err = textlog.Open(ctx, datadir.TextDB(s.cfg), textlog.Options{
		Retention: time.Duration(s.cfg.TextRetention), Budget: int64(s.cfg.TextBudget), KeepFree: max(int64(s.cfg.JournalReserve), leastFree),
		Free: func() (int64, error) { return disk.OS{}.Free(s.cfg.Data) }, Now: s.now, Logger: s.log, Registry: s.registry,
	})
	if err != nil {
		return err
	}
	s.onClose(s.texts.Close)
	s.files.AddDatabase(datadir.TextDB(s.cfg))
	return nil
}

// evaluateInventories evaluates group conditions again for each node with a changed inventory, until the
// context ends.
func evaluateInventories(ctx context.Context, view *inventory.View, planner *plan.Planner) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-view.Changed():
			planner.EvaluateInventories(view.TakeChanges())
		}
	}
}

// runSnapshots saves snapshots of the event state in turn, one partition (share of all nodes) at a time. Then
// it deletes journal segments that no consumer needs. At a planned stop it saves all partitions, so that the
// next start replays little.
func (s *Server) runSnapshots(ctx context.Context) error {
	cycle := &snapshot.PeriodicSaver{
		Store: s.snapshots, View: s.replays, Gates: s.snapshotConditions(), Period: time.Duration(s.cfg.SnapshotCycle), Times: s.journal.Times, Logger: s.log, Queues: s.queues,
		ReplaySize: func() int64 { return s.journal.SizeAfter(s.snapshots.ReplayStart()) },
		Pressure:   func() float64 { st := s.journal.Stats(); return st.FillRatio() },
		Saved: func() {
			if lowest, ok := s.consumers.Slowest(); ok {
				if err := s.journal.Cut(lowest.At); err != nil {
					s.log.Error("cannot delete old journal segments", "below", lowest.At.Number, "consumer", lowest.Name, "err", err)
				}
			}
		},
	}
	if err := cycle.Run(ctx); err != nil {
		return err
	}
	if s.replays.IsReplaying() {
		return nil // history is behind, so the next start must replay the journal anyway
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := cycle.SaveAll(last); err != nil {
		s.log.Warn("some snapshots were not saved at the stop; the next start replays more of the journal", "err", err)
	}
	return nil
}

// waitForHistory waits until the history database contains all event changes up to a new snapshot. The journal
// position of the snapshot is the end. While history is far behind, it skips the live view's snapshot: the
// replay that history follows saves its own.
func (p *pipeline) waitForHistory(ctx context.Context, _ model.Partition, at journal.Position) error {
	if err := p.view.WaitApplied(ctx, at); err != nil {
		return err
	}
	err := p.dispatcher.WaitRecorded(ctx, at)
	if errors.Is(err, dispatch.ErrFarBehind) {
		return snapshot.ErrSkip
	}
	return err
}

// syncValues waits until the item values that belong to a new snapshot are on disk. They are in the files of the
// series store and the rows of texts.
func (p *pipeline) syncValues(ctx context.Context, partition model.Partition, at journal.Position) error {
	if err := p.series.Sync(partition); err != nil {
		return err
	}
	if err := p.view.WaitApplied(ctx, at); err != nil {
		return err
	}
	if p.remote != nil {
		if err := p.remote.Flush(ctx); err != nil {
			return err
		}
	}
	return p.texts.Flush(ctx, partition)
}

// flushCompliance writes to disk the policy directive runs of one partition of nodes up to a new snapshot.
func (p *pipeline) flushCompliance(ctx context.Context, partition model.Partition, at journal.Position) error {
	return p.compliance.FlushHistory(ctx, partition, at)
}

// openFollowers opens the followers, the readers that send every result to one handler each. A follower starts at its
// saved position in the journal.
func (s *Server) openFollowers(context.Context) (err error) {
	s.streams, err = follow.Open(follow.Options{
		Journal: s.journal, View: s.view, Directory: s.directory, Dir: s.cfg.Data,
		Dial: func(ctx context.Context, address string, secure bool, ca string) (net.Conn, error) {
			return handler.Dial(ctx, s.outbound.Dialer(), address, secure, ca)
		},
		Now: s.now, Logger: s.log, Registerer: s.registry,
	})
	if err == nil {
		s.consumers.Add(s.streams.Consumers)
		s.registerTask(back, "streams", s.streams.Run)
	}
	return err
}
