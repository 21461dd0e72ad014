package muster

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	maxRuns = 100 // waiting to be told to one agent, and as many whose answers are awaited
	// answerSlack is what an agent may say beyond the output that was asked for: why a
	// run ended.
	answerSlack = 4 << 10
)

// Runs are the runs, each of one node, that one caller asked for, and what came back of
// them and was not fetched yet. A run belongs to the session that it was asked in: it
// answers, or that session ends, or the caller takes it back. What waits is bounded by
// what was asked for of each run, and for all callers together by the queue run-output:
// beyond that output is cut, and counted as cut.
type Runs struct {
	srv  *Server
	wake chan struct{}

	mu     sync.Mutex
	open   map[*asking]struct{} // those whose end is not fetched
	ready  []*asking            // something to fetch, in the order it came
	closed bool
}

// asking is one run. What stands below keep is guarded by its Runs.
type asking struct {
	runs     *Runs
	takeBack func() // ends it where it runs
	id       uint64
	keep     int // bytes of output in all

	next   model.RunAnswer
	room   int
	listed bool
}

// runOutput bounds what all Runs keep.
type runOutput struct {
	most   int64
	held   atomic.Int64
	passed atomic.Uint64
	cut    atomic.Uint64
}

func newRunOutput(r *queue.Registry) *runOutput {
	most, _ := r.Bounds("run-output")
	o := &runOutput{most: most}
	r.Register("run-output", func() queue.Info {
		return queue.Info{Name: "run-output", Capacity: most, Depth: o.held.Load(), Unit: "bytes", Policy: queue.Drop, Passed: o.passed.Load(), Overflow: o.cut.Load()}
	})
	return o
}

// take is how many of n bytes there is room for.
func (o *runOutput) take(n int) int {
	if o.held.Add(int64(n)) > o.most {
		o.held.Add(-int64(n))
		o.cut.Add(uint64(n))
		return 0
	}
	o.passed.Add(uint64(n))
	return n
}

// NewRuns is for one caller, who closes it.
func (s *Server) NewRuns() *Runs {
	return &Runs{srv: s, wake: make(chan struct{}, 1), open: map[*asking]struct{}{}}
}

// Ask asks the node's agent for a run: of Chunk or Command, within TimeoutMs and MaxOutput;
// the id is ours. The error says that it has no session here, or will refuse.
func (r *Runs) Ask(node model.NodeID, run wire.Run) error {
	x := r.srv.registry.Get(node)
	if x == nil || x.maxOutput.Load() == 0 { // none, or not welcomed yet
		return NoSession()
	}
	if why := x.about.unwilling(&run); why != "" {
		return model.Errorf(model.Forbidden, "%s", why)
	}
	run.ID = rand.Uint64() | 1
	return r.begin(node, &run, func() { x.takeBack(run.ID) }, func(a *asking) error { return x.ask(a, run) })
}

// begin notes a run before it is asked for, which may be refused.
func (r *Runs) begin(node model.NodeID, run *wire.Run, takeBack func(), ask func(*asking) error) error {
	a := &asking{runs: r, takeBack: takeBack, id: run.ID, keep: int(run.MaxOutput) + answerSlack, next: model.RunAnswer{Node: node}}
	a.room = a.keep
	r.mu.Lock()
	r.open[a] = struct{}{}
	r.mu.Unlock()
	err := ask(a)
	if err != nil {
		r.mu.Lock()
		delete(r.open, a)
		r.mu.Unlock()
	}
	return err
}

// Asked is a run that a session of another source has: see AskElsewhere.
type Asked struct{ a *asking }

// AskElsewhere is Ask for a node whose agent is not ours: ask hands the run to its session,
// which answers by what it is given; takeBack, if nobody waits any more.
func (r *Runs) AskElsewhere(node model.NodeID, run *wire.Run, takeBack func(), ask func(Asked) error) error {
	return r.begin(node, run, takeBack, func(a *asking) error { return ask(Asked{a}) })
}

// Hear is the agent's answer.
func (x Asked) Hear(m *wire.RunOutput) { x.a.hear(m) }

// Lost says why there will be no answer.
func (x Asked) Lost(why string) { x.a.lost(why) }

// ask lets a run be told to the agent.
func (x *session) ask(a *asking, run wire.Run) error {
	x.Mu.Lock()
	full := len(x.runs) >= maxRuns || len(x.asked) >= maxRuns
	over := x.EndedLocked()
	if !over && !full {
		if x.asked == nil {
			x.asked = map[uint64]*asking{}
		}
		x.asked[a.id] = a
		x.runs = append(x.runs, run)
	}
	x.Mu.Unlock()
	switch {
	case over:
		return NoSession()
	case full:
		return model.Errorf(model.Limited, "%d runs are asked of this agent already", maxRuns)
	}
	x.due(lanePush, dueRun)
	return nil
}

// NoSession is the error of a node whose agent is not connected.
func NoSession() error {
	return model.Errorf(model.NotFound, "its agent is not connected").
		WithHint("muster describe node NAME says when it was last heard of")
}

// unwilling says why the agent will refuse, as far as it announced that.
func (a *about) unwilling(run *wire.Run) string {
	refuses := strings.Split(a.refuses.Value(), "\n")
	switch {
	case slices.Contains(refuses, wire.RestrictRuns):
		return "refused by the agent's setting --no-run: nothing runs there out of its time"
	case run.Command != nil && slices.Contains(refuses, wire.RestrictChanges):
		return "refused by the agent's setting --audit-only: no commands of people run there"
	}
	return ""
}

// Wake has a value after something came that Next gives.
func (r *Runs) Wake() <-chan struct{} { return r.wake }

// Next fetches what came of one run; false: nothing is there now. The answer is the
// caller's.
func (r *Runs) Next() (model.RunAnswer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ready) == 0 {
		return model.RunAnswer{}, false
	}
	a := r.ready[0]
	r.ready = r.ready[1:]
	a.listed = false
	out := a.next
	r.srv.runOutput.held.Add(-int64(len(out.Output)))
	a.next.Output = nil
	if out.Done {
		delete(r.open, a)
	}
	return out, true
}

// Forget takes back what was asked of a node: it ends there, and nothing more is heard.
func (r *Runs) Forget(node model.NodeID) {
	r.forget(func(a *asking) bool { return a.next.Node == node })
}

// Close takes back all that has not ended.
func (r *Runs) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.forget(func(*asking) bool { return true })
}

func (r *Runs) forget(which func(*asking) bool) {
	var gone []*asking
	r.mu.Lock()
	for a := range r.open {
		if which(a) {
			gone = append(gone, a)
			delete(r.open, a)
			r.ready = slices.DeleteFunc(r.ready, func(b *asking) bool { return a == b })
			r.srv.runOutput.held.Add(-int64(len(a.next.Output)))
			a.next.Output, a.room, a.listed = nil, 0, true // heard no more
		}
	}
	r.mu.Unlock()
	for _, a := range gone {
		a.takeBack()
	}
}

// takeBack ends a run that is still going on.
func (x *session) takeBack(id uint64) {
	x.Mu.Lock()
	_, going := x.asked[id]
	delete(x.asked, id)
	if i := slices.IndexFunc(x.runs, func(r wire.Run) bool { return r.ID == id }); i >= 0 {
		x.runs, going = slices.Delete(x.runs, i, i+1), false // not told yet
	}
	if going {
		x.runs = append(x.runs, wire.Run{ID: id, Cancel: true})
	}
	over := x.EndedLocked()
	x.Mu.Unlock()
	if going && !over {
		x.due(lanePush, dueRun)
	}
}

// ran hands an answer to whoever asked; of an id that nobody asked for it is dropped.
func (x *session) ran(body []byte) outcome {
	var m wire.RunOutput
	if err := m.Decode(body); err != nil {
		return x.broken(malformed, err.Error())
	}
	x.Mu.Lock()
	a := x.asked[m.ID]
	if m.Done {
		delete(x.asked, m.ID)
	}
	x.Mu.Unlock()
	if a == nil {
		return unasked
	}
	a.hear(&m)
	return ran
}

// hear keeps an answer until it is fetched.
func (a *asking) hear(m *wire.RunOutput) {
	r := a.runs
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	keep := m.Output[:min(len(m.Output), a.room)]
	keep = keep[:r.srv.runOutput.take(len(keep))]
	a.room -= len(keep)
	a.next.Output = append(a.next.Output, keep...)
	a.next.Cut += uint64(len(m.Output) - len(keep))
	if m.Done {
		a.next.Done, a.next.Status, a.next.Duration = true, m.Status, time.Duration(m.DurationMs)*time.Millisecond
		a.next.Refused = m.Refused
		a.next.Cut += m.Cut
	}
	a.tellLocked()
}

// lost is the end of the session that a run belongs to.
func (a *asking) lost(why string) {
	a.runs.mu.Lock()
	defer a.runs.mu.Unlock()
	a.next.Done, a.next.Lost = true, why
	a.tellLocked()
}

func (a *asking) tellLocked() {
	if a.listed {
		return
	}
	a.listed = true
	a.runs.ready = append(a.runs.ready, a)
	select {
	case a.runs.wake <- struct{}{}:
	default:
	}
}
