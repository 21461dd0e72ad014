package app

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/turns"
	"github.com/muster-fleet/muster/internal/wire"
)

// newTurns makes the engine of round-robin checks. Sessions are opened after it.
func (s *Server) newTurns() *turns.Engine {
	return turns.New(turns.Options{
		Revision: s.planner.Revision, Robins: s.planner.Robins,
		Give: func(node model.NodeID, g wire.Given) bool {
			return s.sessions.Give(node, g) || s.bridge != nil && s.bridge.Give(node, g)
		},
		Missed: s.missed, Last: s.lastRun, Grace: time.Duration(s.cfg.ReconnectGrace), Now: s.now, Log: s.log,
	})
}

// lastRun is turns.Options.Last. What the server said itself is no run.
func (s *Server) lastRun(node model.NodeID, check model.CheckID) (at time.Time, ok bool) {
	st, ok := s.view.Get(node, check)
	if !ok || st.Stream == 0 {
		return at, ok
	}
	return time.Unix(0, st.Received), true
}

// missed records that nobody could run checks about proxy nodes.
func (s *Server) missed(ctx context.Context, list []turns.Missed) error {
	entries := make([]journal.Entry, 0, len(list))
	for _, m := range list {
		if !s.planner.Holds(m.About, m.Chunk.Unit) {
			continue // deleted meanwhile, and its events with it
		}
		entries = append(entries, journal.Entry{Section: s.sectionOf(m.About), Data: wire.AppendRecord(nil, &wire.Record{
			Kind: wire.RecordOwn, Node: m.About,
			Own: &wire.OwnResult{Chunk: m.Chunk.ID, Status: model.Unknown, Output: []byte(m.Text)},
		})})
	}
	const atOnce = 1000
	for len(entries) > 0 {
		n := min(len(entries), atOnce)
		if err := s.journal.Append(ctx, entries[:n]...); err != nil {
			return fmt.Errorf("append to the journal: %w", err)
		}
		entries = entries[n:]
	}
	return nil
}

// directory is what the planner knows, with the checks that nobody is there to run among
// the faults.
type directory struct {
	*plan.Planner
	turns *turns.Engine
}

// Faults implements plan.Directory.
func (d directory) Faults(namespace string) (list []plan.Fault, nodes int) {
	list, nodes = d.Planner.Faults(namespace)
	idle, about := d.turns.Faults(namespace)
	return append(idle, list...), nodes + about
}
