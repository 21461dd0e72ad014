package sensu

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// mostAsked bounds the runs of one session that somebody waits for.
const mostAsked = 100

// askedRun is a run that somebody asked for and waits for. The result of any request issued
// since then is its answer: an agent that is at the check already drops the request without a
// word, and the next one of the timetable is answered in its place.
type askedRun struct {
	id     uint64
	check  model.CheckID
	since  int64 // s since 1970: requests from here on answer it
	answer muster.Asked
}

// Ask asks a node's agent for a run of a check of its assignment, out of its time. What it
// answers goes to whoever asked and, as any result, to the journal.
func (s *Server) Ask(runs *muster.Runs, node model.NodeID, run wire.Run) error {
	x := s.registry.Get(node)
	if x == nil {
		return muster.NoSession()
	}
	if run.Command != nil {
		return model.Errorf(model.Forbidden, "this node has sensu-agent, which runs checks and no commands of people")
	}
	run.ID = s.cfg.Rand()
	return runs.AskElsewhere(node, &run, func() { x.takeBack(run.ID) }, func(answer muster.Asked) error { return x.askNow(&run, answer) })
}

func (x *session) askNow(run *wire.Run, answer muster.Asked) error {
	x.Mu.Lock()
	if x.EndedLocked() {
		x.Mu.Unlock()
		return muster.NoSession()
	}
	i := slices.IndexFunc(x.jobs, func(j *job) bool { return j.recipe.chunk.ID == run.Chunk })
	var why error
	switch {
	case i < 0:
		why = model.Errorf(model.Forbidden, "this check is not assigned to the node, or its session has not heard of its last change yet")
	case x.jobs[i].about.ID != 0:
		why = model.Errorf(model.Forbidden, "this check is about proxy nodes: it runs for each of them by itself")
	case x.cannot(x.jobs[i]) != "":
		why = model.Errorf(model.Forbidden, "%s", x.cannot(x.jobs[i]))
	case len(x.asked) >= mostAsked:
		why = model.Errorf(model.Limited, "%d runs are asked of this agent already", mostAsked)
	}
	if why != nil {
		x.Mu.Unlock()
		return why
	}
	j := x.jobs[i]
	x.asked = append(x.asked, askedRun{id: run.ID, check: j.recipe.chunk.Unit, since: max(x.srv.cfg.Now().Unix(), j.issued+1), answer: answer})
	x.Mu.Unlock()
	x.dueAsks([]*job{j})
	return nil
}

// answer hands a result to those who wait for it.
func (x *session) answer(check model.CheckID, issued int64, result *wire.Result) {
	x.Mu.Lock()
	if len(x.asked) == 0 {
		x.Mu.Unlock()
		return
	}
	var mine []muster.Asked
	x.asked = slices.DeleteFunc(x.asked, func(a askedRun) bool {
		if a.check != check || issued < a.since {
			return false
		}
		mine = append(mine, a.answer)
		return true
	})
	x.Mu.Unlock()
	for _, a := range mine {
		a.Hear(&wire.RunOutput{Output: result.Output, Done: true, Status: result.Status, DurationMs: result.DurationMs, Cut: result.Cut})
	}
}

// takeBack forgets a run that nobody waits for any more; the agent brings it to its end.
func (x *session) takeBack(id uint64) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	x.asked = slices.DeleteFunc(x.asked, func(a askedRun) bool { return a.id == id })
}
