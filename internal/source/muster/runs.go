package muster

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// requests are the requests between server and agent that are under way. The session's Mu guards them.
type requests struct {
	runs      []wire.Run     // not sent
	turns     []wire.TurnRun // not sent
	pending   map[uint64]*core.PendingRun
	answers   []wire.Exchange // not sent
	exchanges int             // requested by the agent and not answered
}

// takeUnsent returns the unsent messages, once.
func (r *requests) takeUnsent() (runs []wire.Run, turns []wire.TurnRun, answers []wire.Exchange) {
	runs, turns, answers = r.runs, r.turns, r.answers
	r.runs, r.turns, r.answers = nil, nil, nil
	return runs, turns, answers
}

// NewRuns returns the runs of one caller. The caller closes them.
func (s *Server) NewRuns() *core.Runs { return s.runOutput.NewRuns() }

// Ask requests a run of the node's agent: of Chunk or Command, within TimeoutMs and MaxOutput. It fails if the node has no
// session here, or the agent announced that it refuses.
func (s *Server) Ask(runs *core.Runs, node model.NodeID, run wire.Run) error {
	x := s.registry.Get(node)
	if x == nil || x.maxOutput.Load() == 0 { // none, or not welcomed yet
		return core.ErrNoSession()
	}
	if reason := x.hello.refusesRun(&run); reason != "" {
		return model.Errorf(model.Forbidden, "%s", reason)
	}
	return runs.Start(node, &run, x.cancelRun, func(p *core.PendingRun) error { return x.submitRun(p, run) })
}

func (x *session) submitRun(p *core.PendingRun, run wire.Run) error {
	x.Mu.Lock()
	q := &x.requests
	full := len(q.runs) >= core.MaxRuns || len(q.pending) >= core.MaxRuns
	ended := x.EndedLocked()
	if !ended && !full {
		if q.pending == nil {
			q.pending = map[uint64]*core.PendingRun{}
		}
		q.pending[p.ID] = p
		q.runs = append(q.runs, run)
	}
	x.Mu.Unlock()
	switch {
	case ended:
		return core.ErrNoSession()
	case full:
		return core.ErrTooManyRuns()
	}
	x.srv.pushes.Add(x, dueRequests)
	return nil
}

// cancelRun ends a pending run.
func (x *session) cancelRun(id uint64) {
	x.Mu.Lock()
	q := &x.requests
	_, running := q.pending[id]
	delete(q.pending, id)
	if i := slices.IndexFunc(q.runs, func(r wire.Run) bool { return r.ID == id }); i >= 0 {
		q.runs, running = slices.Delete(q.runs, i, i+1), false // not sent yet
	}
	if running {
		q.runs = append(q.runs, wire.Run{ID: id, Cancel: true})
	}
	ended := x.EndedLocked()
	x.Mu.Unlock()
	if running && !ended {
		x.srv.pushes.Add(x, dueRequests)
	}
}

// runAnswer hands an answer to the caller of its run. An answer with an unknown id is dropped.
func (x *session) runAnswer(body []byte) outcome {
	var m wire.RunOutput
	if err := m.Decode(body); err != nil {
		return x.violation(malformed, err.Error())
	}
	x.Mu.Lock()
	p := x.requests.pending[m.ID]
	if m.Done {
		delete(x.requests.pending, m.ID)
	}
	x.Mu.Unlock()
	if p == nil {
		return unrequested
	}
	p.Answer(&m)
	return runAnswer
}

// Give hands a turn of a round-robin check to a node's session. false: the node has no session, was not sent this chunk
// yet, or is about to leave. Give does not block.
func (s *Server) Give(node model.NodeID, g wire.TurnRun) bool {
	x := s.registry.Get(node)
	if x == nil {
		return false
	}
	x.Mu.Lock()
	sent := x.assignment.sent
	ok := !x.EndedLocked() && !x.closing.clean && sent != nil && len(x.requests.turns) < wire.MaxTurnRuns
	if ok {
		var i int
		i, ok = chunkIndex(sent.Chunks, g.Chunk)
		if ok && g.Node != 0 {
			_, ok = sent.ProxyNode(sent.Chunks[i].Unit, g.Node)
		}
	}
	put := false
	if ok {
		x.requests.turns = append(x.requests.turns, g)
		put = s.pushes.AddLocked(x, dueRequests)
	}
	x.Mu.Unlock()
	if put {
		s.pushes.Put(x)
	}
	return ok
}
