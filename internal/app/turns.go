package app

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/turns"
	"github.com/muster-fleet/muster/internal/wire"
)

// newTurns makes the engine of round-robin checks. Sessions are opened after it.
func (s *Server) newTurns() *turns.Engine {
	return turns.New(turns.Options{
		Revision: s.planner.Revision, RoundRobins: s.planner.RoundRobins,
		Give: func(node model.NodeID, g wire.TurnRun) bool {
			return s.sessions.Give(node, g) || s.bridge != nil && s.bridge.Give(node, g)
		},
		Missed: s.missed, Last: s.lastRun, Grace: time.Duration(s.cfg.ReconnectGrace), Now: s.now, Log: s.log,
	})
}

// lastRun is turns.Options.Last. A result of the server itself is no run.
func (s *Server) lastRun(node model.NodeID, check model.CheckID) (at time.Time, ok bool) {
	st, ok := s.view.Get(node, check)
	if !ok || st.Stream == 0 {
		return at, ok
	}
	return time.Unix(0, st.Received), true
}

// missed records that nobody could run checks about proxy nodes.
func (s *Server) missed(ctx context.Context, list []turns.Missed) error {
	results := make([]recorder.Result, 0, len(list))
	for _, m := range list {
		if s.planner.HasUnit(m.About, m.Chunk.Unit) { // otherwise the node was deleted, and its events with it
			results = append(results, recorder.Result{Node: m.About, Chunk: m.Chunk.ID, Status: model.Unknown, Output: m.Text})
		}
	}
	const most = 1000
	for part := range slices.Chunk(results, most) {
		if _, err := s.recorder.Results(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// directory is the planner's with more faults: round-robin checks without a member to run them.
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
