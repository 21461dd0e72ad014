package app

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/selfcheck"
	"github.com/muster-fleet/muster/internal/source/core"
)

// newMonitor makes the monitor before the rooms that it measures, which report to it while they open.
func (s *Server) newMonitor() *selfcheck.Monitor {
	return selfcheck.New(selfcheck.Options{
		KeepaliveTimeout: time.Duration(s.cfg.KeepaliveTimeout), SnapshotCycle: s.cfg.SnapshotCycle.String(),
		RestoredCommand: datadir.StoppedCommand(s.cfg, "restored"), Now: s.now, Log: s.log,
		Record: s.recorder.NodeResult,
		Event:  func(node model.NodeID, check model.CheckID) (event.State, bool) { return s.view.Get(node, check) },
		Events: func(ctx context.Context, q event.Query) (event.Page, error) { return s.view.List(ctx, q) },

		Machines:  func() int { return s.planner.Machines() },
		Exists:    func(node model.NodeID) bool { return s.planner.For(node) != nil },
		Node:      func(namespace, name string) (model.NodeID, bool) { return s.planner.NodeByName(namespace, name) },
		Connected: s.connectedNodes,
		Hits:      func(since time.Time) []core.Hit { return s.sessions.Limiter().Hits(since) },
		Journal:   func() journal.Stats { return s.journal.Stats() },
		Holder:    s.journalHolder,
		Lag:       func() react.Lag { return s.reactor.Lag() },
		Trouble:   func() error { return s.history.Trouble() },
		Streams:   func() []follow.State { return s.streams.States() },
	})
}

// journalHolder returns the consumer that is furthest behind, and how much of the journal it keeps.
func (s *Server) journalHolder() (name string, bytes int64) {
	lowest, ok := s.consumers.Floor()
	if !ok {
		return "", 0
	}
	return lowest.Name, s.journal.SizeAfter(lowest.At)
}
