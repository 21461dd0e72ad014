package muster

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Give leaves a turn of a round-robin check with a node's session; false: it has none, was
// not told of this definition yet, or is about to go. It does not block.
func (s *Server) Give(node model.NodeID, g wire.TurnRun) bool {
	x := s.registry.Get(node)
	if x == nil {
		return false
	}
	x.Mu.Lock()
	ok := !x.EndedLocked() && !x.clean && x.pushed != nil && len(x.turns) < wire.MaxTurnRuns
	if ok {
		var i int
		i, ok = find(x.pushed.Chunks, g.Chunk)
		if ok && g.Node != 0 {
			_, ok = x.pushed.ProxyNode(x.pushed.Chunks[i].Unit, g.Node)
		}
	}
	put := false
	if ok {
		x.turns = append(x.turns, g)
		put = x.dueLocked(lanePush, dueRun)
	}
	x.Mu.Unlock()
	if put {
		s.pushes.put(x)
	}
	return ok
}
