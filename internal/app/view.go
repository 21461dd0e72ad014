package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/rederive"
	"github.com/muster-fleet/muster/internal/store/snapshot"
)

// shardOptions decide the effects of a commit: also a second view takes them.
func (s *Server) shardOptions() shard.Options {
	return shard.Options{
		Chunks: s.planner.Chunk, Grace: time.Duration(s.cfg.ReconnectGrace), KeepaliveTimeout: time.Duration(s.cfg.KeepaliveTimeout), Logger: s.log,
	}
}

// openView restores the partitions from their snapshots, side by side, and replays
// the journal from the lowest of their positions.
func (s *Server) openView(ctx context.Context) error {
	var err error
	s.snapshots, err = snapshot.Open(snapshot.Options{
		Dir: datadir.Snapshots(s.cfg), Head: s.journal.Head(), Resolve: s.journal.Resolve, Logger: s.log, Registerer: s.registry,
	})
	if err != nil {
		return err
	}
	o := s.shardOptions()
	o.Workers, o.Registerer, o.Queues = workers(), s.registry, s.queues
	s.view = event.New(shard.New(o), event.Options{Emit: s.reactor.Emit, Limits: s.intent.NamespaceLimits, Registerer: s.registry, Queues: s.queues})
	s.recorder.Applied = s.view.WaitApplied
	s.passes = &rederive.Source{Journal: s.journal, Snapshots: s.snapshots, Live: s.view, Options: s.shardOptions, Parallel: workers()}
	s.consumers.Add(s.snapshots.Consumers) // before the passes, which begin at snapshots
	s.consumers.Add(s.passes.Consumers)
	s.consumers.Add(s.reactor.Consumers)
	s.registry.MustRegister(metrics.Consumers{List: &s.consumers, Behind: s.journal.SizeAfter})
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.viewEnd = end
	s.viewDone.Go(func() {
		if err := s.view.Run(life); err != nil && !errors.Is(err, context.Canceled) {
			s.log.Error("event view stopped", "err", err)
		}
	})
	began := time.Now()
	from, restored, err := s.snapshots.Restore(workers(), s.view.Restore)
	if err != nil {
		return err
	}
	if tail := s.journal.Tail(); from.Number+1 < tail.Number {
		return model.Errorf(model.Internal,
			"%d of %d partitions have no snapshot that can be used (see the log), and the journal holds nothing before commit %d from which to make them again",
			model.Partitions-restored, model.Partitions, tail.Number).
			WithHint("restore the folder from a backup, or go on without their event states, which come back with the next results: %s", datadir.StoppedCommand(s.cfg, "repair"))
	}
	head := s.journal.Head()
	if err := s.journal.Read(ctx, from, func(c journal.Commit) error { s.view.Deliver(c); return nil }); err != nil {
		return fmt.Errorf("replay the journal from commit %d: %w", from.Number, err)
	}
	if err := s.view.WaitApplied(ctx, head); err != nil {
		return err
	}
	s.reactor.Compare(head, s.view.OpenProblems)
	s.replayed = head.Number
	close(s.replay)
	s.log.Info("event view is up to date", "partitions", restored, "replayed", head.Number-from.Number, "took", time.Since(began))
	return nil
}

// runSnapshots saves partitions in turn and cuts the journal behind the slowest consumer.
func (s *Server) runSnapshots(ctx context.Context) error {
	cycle := &snapshot.Cycle{
		Store: s.snapshots, View: s.passes, Gates: []snapshot.Gate{{Reducer: "events", Wait: s.usable}}, Period: time.Duration(s.cfg.SnapshotCycle), Logger: s.log, Queues: s.queues,
		Pressure: func() float64 { st := s.journal.Stats(); return st.Pressure() },
		Saved:    s.cutJournal,
	}
	if err := cycle.Run(ctx); err != nil {
		return err
	}
	if s.passes.Underway() {
		return nil // the next start reads the journal anyway, for history
	}
	// A planned stop: the next start replays next to nothing.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := cycle.All(last); err != nil {
		s.log.Warn("last snapshots were not all saved; the next start replays more", "err", err)
	}
	return nil
}

// cutJournal removes the part of the journal that no consumer needs any more.
func (s *Server) cutJournal() {
	lowest, ok := s.consumers.Floor()
	if !ok {
		return
	}
	if err := s.journal.Cut(lowest.At); err != nil {
		s.log.Error("journal could not be cut", "below", lowest.At.Number, "consumer", lowest.Name, "err", err)
	}
}

// usable waits until history has recorded every transition before a snapshot: first until the view has
// emitted the last commit's, then until history has them. While history is far behind, it skips the
// live view's snapshot, so that the pass that history follows saves its own.
func (s *Server) usable(ctx context.Context, at journal.Position) error {
	if err := s.view.WaitApplied(ctx, at); err != nil {
		return err
	}
	err := s.reactor.Recorded(ctx, at)
	if errors.Is(err, react.ErrFarBehind) {
		return snapshot.ErrSkip
	}
	return err
}

// rederive makes transitions again from snapshots and the journal.
func (s *Server) rederive() (react.Replay, error) {
	pass, err := s.passes.Begin()
	if err != nil {
		return nil, err
	}
	return pass, nil
}
