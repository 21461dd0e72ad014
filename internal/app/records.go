package app

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/wire"
)

// waiter is told when its entry is durable.
type waiter chan committed

type committed struct {
	at  journal.Position
	err error
}

func (w waiter) Committed(_ uint64, at journal.Position, err error) { w <- committed{at, err} }

// append writes one record and waits until it is durable and applied.
func (s *Server) append(ctx context.Context, section journal.Section, r *wire.Record) error {
	w := make(waiter, 1)
	err := s.journal.Append(ctx, journal.Entry{Section: section, Data: wire.AppendRecord(nil, r), Waiter: w})
	if err != nil {
		return fmt.Errorf("append to the journal: %w", err)
	}
	select {
	case c := <-w:
		if c.err != nil {
			return fmt.Errorf("append to the journal: %w", c.err)
		}
		return s.view.WaitApplied(ctx, c.at)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sectionOf is the partition of a node that still exists, or everybody.
func (s *Server) sectionOf(node model.NodeID) journal.Section {
	if node == model.ServerNode {
		return 0
	}
	if uid := s.planner.NodeUID(node); uid != uuid.Nil {
		return journal.Section(model.PartitionOf(uid))
	}
	return journal.All
}

// forget tells the view what is expected no more. The planner calls it before a
// change is in force.
func (s *Server) forget(list []plan.Forgotten) {
	const atOnce = 1000
	ctx := context.Background()
	for len(list) > 0 {
		n := min(len(list), atOnce)
		entries := make([]journal.Entry, n)
		for i, f := range list[:n] {
			r := wire.Record{Kind: wire.RecordForget, Node: f.Node, Forget: &f.Mark}
			section := journal.All
			switch {
			case f.UID != uuid.Nil:
				section = journal.Section(model.PartitionOf(f.UID))
			case f.Node != 0 && !f.Mark.Gone:
				section = s.sectionOf(f.Node)
			}
			entries[i] = journal.Entry{Section: section, Data: wire.AppendRecord(nil, &r)}
		}
		if err := s.journal.Append(ctx, entries...); err != nil {
			s.log.Error("what is expected no more could not be recorded; it will be at the next start", "err", err)
			return
		}
		list = list[n:]
	}
}

// markIntent records which intent is in force, so that a start after a crash knows
// from where to look for what was forgotten.
func (s *Server) markIntent(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := s.planner.Revision()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := s.planner.Revision(); now != last {
			if err := s.append(ctx, journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: now}); err != nil {
				if ctx.Err() == nil {
					s.log.Warn("the intent in force could not be recorded; trying again", "err", err)
				}
				continue
			}
			last = now
		}
	}
}

// Act writes what an operator did to an event, before the API answers.
func (s *Server) Act(ctx context.Context, node model.NodeID, action wire.Action) error {
	return s.append(ctx, s.sectionOf(node), &wire.Record{Kind: wire.RecordAction, Node: node, Action: &action})
}
