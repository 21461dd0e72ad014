package app

import (
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/alertmanager"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// openAlerts makes the receiver of alerts.
func (s *Server) openAlerts(context.Context) (err error) {
	s.alerts, err = alertmanager.New(alertmanager.Config{
		Access: s.access, Intent: s.intent, Plan: s.planner, View: s.view, Write: s.writeAlerts,
		Hit: func(node model.NodeID, name string, namespace model.NamespaceID, limit, reason string) {
			s.sessions.Limiter().Hit(&core.Node{ID: node, Name: name, Namespace: namespace}, limit, reason)
		},
		Now: s.now, Log: s.log, Registerer: s.registry,
	})
	return err
}

// writeAlerts is alertmanager.Config.Write: all of one call are one commit.
func (s *Server) writeAlerts(ctx context.Context, results []alertmanager.Result) (wait func(context.Context) error, err error) {
	entries := make([]journal.Entry, len(results))
	for i, r := range results {
		entries[i] = journal.Entry{Section: s.sectionOf(r.Node), Data: wire.AppendRecord(nil, &wire.Record{
			Kind: wire.RecordOwn, Node: r.Node, Own: &wire.OwnResult{Chunk: r.Chunk.ID, Status: r.Status, Output: []byte(r.Output)},
		})}
	}
	w := make(waiter, 1)
	entries[len(entries)-1].Waiter = w
	if err := s.journal.Append(ctx, entries...); err != nil {
		return nil, fmt.Errorf("append to the journal: %w", err)
	}
	return func(ctx context.Context) error {
		select {
		case c := <-w:
			return c.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}
