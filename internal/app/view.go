package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/snapshot"
)

func (s *Server) viewOptions() event.Options {
	return event.Options{
		Chunks: s.planner.Chunk, Grace: time.Duration(s.cfg.ReconnectGrace), KeepaliveTimeout: time.Duration(s.cfg.KeepaliveTimeout),
		Limits: s.intent.NamespaceLimits, Logger: s.log,
	}
}

// openView restores the partitions from their snapshots, side by side, and replays
// the journal from the lowest of their positions.
func (s *Server) openView(ctx context.Context) error {
	var err error
	s.snapshots, err = snapshot.Open(snapshot.Options{
		Dir: s.path(snapshotFolder), Head: s.journal.Head(), Resolve: s.journal.Resolve, Logger: s.log, Registerer: s.registry,
	})
	if err != nil {
		return err
	}
	o := s.viewOptions()
	o.Emit, o.Workers, o.Registerer, o.Queues = s.reactor.Emit, workers(), s.registry, s.queues
	s.view = event.New(o)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.viewEnd = end
	s.viewDone.Go(func() {
		if err := s.view.Run(life); err != nil && !errors.Is(err, context.Canceled) {
			s.log.Error("event view stopped", "err", err)
		}
	})
	began := time.Now()
	from, restored, err := restore(s.view, s.snapshots, allPartitions())
	if err != nil {
		return err
	}
	if tail := s.journal.Tail(); from.Number+1 < tail.Number {
		return model.Errorf(model.Internal,
			"%d of %d partitions have no snapshot that can be used (see the log), and the journal holds nothing before commit %d from which to make them again",
			model.Partitions-restored, model.Partitions, tail.Number).
			WithHint("restore the folder from a backup, or go on without their event states, which come back with the next results: %s", stoppedCommand(s.cfg, "repair"))
	}
	head := s.journal.Head()
	if err := s.journal.Read(ctx, from, func(c journal.Commit) error { s.view.Deliver(c); return nil }); err != nil {
		return fmt.Errorf("replay the journal from commit %d: %w", from.Number, err)
	}
	if err := s.view.WaitApplied(ctx, head); err != nil {
		return err
	}
	s.replayed = head.Number
	close(s.replay)
	s.log.Info("event view is up to date", "partitions", restored, "replayed", head.Number-from.Number, "took", time.Since(began))
	return nil
}

func allPartitions() []model.Partition {
	all := make([]model.Partition, model.Partitions)
	for i := range all {
		all[i] = model.Partition(i)
	}
	return all
}

// restore fills partitions from their newest good snapshots and returns the lowest
// of their positions; a partition without any is replayed from the beginning.
func restore(view *event.View, store *snapshot.Store, partitions []model.Partition) (from journal.Position, restored int, err error) {
	positions := make([]journal.Position, len(partitions))
	var g errgroup.Group
	g.SetLimit(workers())
	for i, p := range partitions {
		g.Go(func() error {
			snap, ok, _ := store.Load(p) // what was passed over is logged there
			if !ok {
				return nil
			}
			if err := view.Restore(p, snap.At, snap.Body); err != nil {
				return fmt.Errorf("restore partition %d: %w", p, err)
			}
			positions[i] = snap.At
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return journal.Position{}, 0, err
	}
	from = positions[0]
	for _, at := range positions {
		if at.Number > 0 {
			restored++
		}
		if at.Number < from.Number {
			from = at
		}
	}
	return from, restored, nil
}

// runSnapshots saves partitions in turn; what neither they nor reactions need any
// more is cut from the journal.
func (s *Server) runSnapshots(ctx context.Context) error {
	cycle := &snapshot.Cycle{
		Store: s.snapshots, View: s.view, Usable: s.reactor.Recorded, Period: time.Duration(s.cfg.SnapshotCycle), Logger: s.log, Queues: s.queues,
		Saved: func(floor journal.Position) {
			if err := s.journal.Cut(floor); err != nil {
				s.log.Error("journal could not be cut", "below", floor.Number, "err", err)
			}
		},
	}
	if err := cycle.Run(ctx); err != nil {
		return err
	}
	// A planned stop: the next start replays next to nothing.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := cycle.All(last); err != nil {
		s.log.Warn("last snapshots were not all saved; the next start replays more", "err", err)
	}
	return nil
}

// rederive makes the transitions of one partition again: a second view of that
// partition alone, from its snapshot, up to the journal's head.
func (s *Server) rederive(ctx context.Context, p model.Partition, _ journal.Position, fn func([]event.Transition) error) (journal.Position, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	o := s.viewOptions()
	o.Workers = 1
	o.Emit = func(ts []event.Transition) {
		if ctx.Err() == nil {
			if err := fn(ts); err != nil {
				end(err)
			}
		}
	}
	view := event.New(o)
	done := make(chan error, 1)
	go func() { done <- view.Run(ctx) }()
	from, _, err := restore(view, s.snapshots, []model.Partition{p})
	if err != nil {
		return journal.Position{}, err
	}
	head := s.journal.Head()
	err = s.journal.Read(ctx, from, func(c journal.Commit) error {
		view.Deliver(only{c, journal.Section(p)})
		return context.Cause(ctx)
	})
	if err == nil && from.Number < head.Number {
		err = view.WaitApplied(ctx, head)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	end(nil)
	<-done
	return head, err
}

// only is a commit of which one partition is seen.
type only struct {
	journal.Commit
	section journal.Section
}

func (o only) Entries(s journal.Section, fn func([]byte) error) error {
	if s != o.section && s != journal.All {
		return nil
	}
	return o.Commit.Entries(s, fn)
}

func (o only) Sections() []journal.Section {
	var out []journal.Section
	for _, s := range o.Commit.Sections() {
		if s == o.section || s == journal.All {
			out = append(out, s)
		}
	}
	return out
}
