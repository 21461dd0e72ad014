package core

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	// MaxRuns bounds the pending runs of one session, and those not sent yet.
	MaxRuns = 100
	// RunOutputSlack is the number of bytes that an agent may send beyond the requested limit of output, for the reason
	// why a run ended.
	RunOutputSlack = 4 << 10
)

// RunOutput limits how much output of ad-hoc command runs the server keeps until callers fetch the output. The limit
// is for all callers together (queue run-output).
type RunOutput struct {
	max       int64
	heldBytes atomic.Int64
	passed    atomic.Uint64
	cut       atomic.Uint64
}

// NewRunOutput returns an empty RunOutput, registered as a queue in r.
func NewRunOutput(r *queue.Registry) *RunOutput {
	most, _ := r.Bounds("run-output")
	o := &RunOutput{max: most}
	r.Register("run-output", func() queue.Info {
		return queue.Info{Name: "run-output", Capacity: most, Depth: o.heldBytes.Load(), Unit: "bytes", Policy: queue.Drop, Passed: o.passed.Load(), Overflow: o.cut.Load()}
	})
	return o
}

// reserveBytes reserves n bytes of memory for output of ad-hoc runs, and returns n, or 0 without room.
func (o *RunOutput) reserveBytes(n int) int {
	if o.heldBytes.Add(int64(n)) > o.max {
		o.heldBytes.Add(-int64(n))
		o.cut.Add(uint64(n))
		return 0
	}
	o.passed.Add(uint64(n))
	return n
}

// Bytes returns how many bytes of output wait to be fetched.
func (o *RunOutput) Bytes() int64 { return o.heldBytes.Load() }

// Runs holds the ad-hoc command runs of one caller, with the output not yet fetched. A run belongs to the
// session to which it was submitted; it ends with an answer, with that session, or when the caller cancels it.
// Output is bounded per run by the request, and for all callers by RunOutput: beyond that it is cut, and
// counted.
type Runs struct {
	output *RunOutput
	wake   chan struct{}

	mu     sync.Mutex
	open   map[*PendingRun]struct{} // runs whose end the caller has not fetched
	ready  []*PendingRun            // runs with an answer that the caller has not fetched, in the order of arrival
	closed bool
}

// PendingRun is an ad-hoc run whose result the agent has not sent yet. The fields below maxOutput are guarded
// by Runs.mu.
type PendingRun struct {
	ID        uint64
	runs      *Runs
	cancel    func() // ends the run in its session
	maxOutput int    // bytes

	answer    model.RunAnswer // answer that the caller has not fetched
	roomBytes int             // bytes of output that may still come
	listed    bool            // in Runs.ready
	cancelled bool
}

// NewRuns returns a new, empty collection for the ad-hoc runs of one caller. The caller closes them.
func (o *RunOutput) NewRuns() *Runs {
	return &Runs{output: o, wake: make(chan struct{}, 1), open: map[*PendingRun]struct{}{}}
}

// Start requests from a node the ad-hoc run of a command or check. It gives the run an id, sends the run to the
// node's session with submit, and returns the error of submit. cancel ends the run in that session.
func (r *Runs) Start(node model.NodeID, run *wire.Run, cancel func(id uint64), submit func(*PendingRun) error) error {
	run.ID = rand.Uint64() | 1
	p := &PendingRun{ID: run.ID, runs: r, cancel: func() { cancel(run.ID) }, maxOutput: int(run.MaxOutput) + RunOutputSlack, answer: model.RunAnswer{Node: node}}
	p.roomBytes = p.maxOutput
	r.mu.Lock()
	r.open[p] = struct{}{}
	r.mu.Unlock()
	err := submit(p)
	if err != nil {
		r.mu.Lock()
		delete(r.open, p)
		r.mu.Unlock()
	}
	return err
}

// ErrNoSession returns the error for an ad-hoc run on a node whose agent is not connected.
func ErrNoSession() error {
	return model.Errorf(model.NotFound, "the agent of this node is not connected").
		WithHint("see when the agent was connected last: muster describe node NAME")
}

// ErrTooManyRuns returns the error for more ad-hoc runs than MaxRuns.
func ErrTooManyRuns() error {
	return model.Errorf(model.Limited, "this agent already has %d pending ad-hoc runs, the maximum", MaxRuns)
}

// Wake returns a channel that signals new answers of ad-hoc runs.
func (r *Runs) Wake() <-chan struct{} { return r.wake }

// Pending returns the number of ad-hoc runs whose final answer the caller has not fetched.
func (r *Runs) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// Next returns the next answer of a run, with the output since the last call. It returns false if no answer is ready.
func (r *Runs) Next() (model.RunAnswer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ready) == 0 {
		return model.RunAnswer{}, false
	}
	p := r.ready[0]
	r.ready = r.ready[1:]
	p.listed = false
	out := p.answer
	r.output.heldBytes.Add(-int64(len(out.Output)))
	p.answer.Output = nil
	if out.Last {
		delete(r.open, p)
	}
	return out, true
}

// Forget cancels the ad-hoc runs of the caller on one node, and drops their unfetched answers. Next returns no more
// answers of these runs.
func (r *Runs) Forget(node model.NodeID) {
	r.cancelRunsIf(func(p *PendingRun) bool { return p.answer.Node == node })
}

// Close cancels all ad-hoc runs of the caller.
func (r *Runs) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancelRunsIf(func(*PendingRun) bool { return true })
}

// cancelRunsIf cancels the ad-hoc runs for which the given function returns true.
func (r *Runs) cancelRunsIf(which func(*PendingRun) bool) {
	var list []*PendingRun
	r.mu.Lock()
	for p := range r.open {
		if which(p) {
			list = append(list, p)
			delete(r.open, p)
			r.ready = slices.DeleteFunc(r.ready, func(q *PendingRun) bool { return p == q })
			r.output.heldBytes.Add(-int64(len(p.answer.Output)))
			p.answer.Output, p.cancelled = nil, true
		}
	}
	r.mu.Unlock()
	for _, p := range list {
		p.cancel()
	}
}

// Answer stores output or the end of an ad-hoc run until the caller fetches the answer.
func (p *PendingRun) Answer(m *wire.RunOutput) {
	r := p.runs
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || p.cancelled {
		return
	}
	output := m.Output[:min(len(m.Output), p.roomBytes)]
	output = output[:r.output.reserveBytes(len(output))]
	p.roomBytes -= len(output)
	p.answer.Output = append(p.answer.Output, output...)
	p.answer.Cut += uint64(len(m.Output) - len(output))
	if m.Last {
		p.answer.Last, p.answer.Status, p.answer.Duration = true, m.Status, time.Duration(m.DurationMs)*time.Millisecond
		p.answer.Refused = m.Refused
		p.answer.Cut += m.Cut
	}
	p.addToReadyLocked()
}

// Abort ends an ad-hoc run without a result, because the agent's session has ended. The cause becomes the
// answer.
func (p *PendingRun) Abort(cause string) {
	p.runs.mu.Lock()
	defer p.runs.mu.Unlock()
	p.answer.Last, p.answer.EndUnknown = true, "the agent's session ended ("+cause+") before the run did"
	p.addToReadyLocked()
}

// addToReadyLocked adds the run to the runs with answers to fetch, and wakes the caller.
func (p *PendingRun) addToReadyLocked() {
	if p.listed || p.cancelled {
		return
	}
	p.listed = true
	p.runs.ready = append(p.runs.ready, p)
	select {
	case p.runs.wake <- struct{}{}:
	default:
	}
}

// Agent describes a connected agent, from the data of its session.
type Agent struct {
	Version     string
	Refuses     []string // kinds of runs that the agent always refuses
	Idle        []IdleUnit
	Since       time.Time
	Address     string
	Skew        time.Duration // error of the agent's clock when the session began; positive: ahead of the server's clock
	Certificate time.Time     // expiry of the session's certificate; zero: it has none
	Assigned    uint64        // intent revision of the assignment that the agent holds or was sent; zero: none
	Confirmed   bool          // the agent has confirmed that it holds this assignment
	Report      *AgentReport  // last report of the agent; nil: the agent has sent none
}

// SetAssignment records the revision of a connected agent's assignment, and the assigned checks that the agent
// cannot run.
func (a *Agent) SetAssignment(of *directory.Assignment, isIdle func(*model.Definition) bool, reason string) {
	if of == nil {
		return
	}
	a.Assigned = of.Generation.Revision
	for _, d := range of.Definitions {
		if isIdle(d) {
			a.Idle = append(a.Idle, IdleUnit{Unit: d.Unit, Name: d.Name, Reason: reason})
		}
	}
}

// AgentReport holds the statistics that an agent last sent about itself, such as memory and queue length.
type AgentReport struct {
	Stats       wire.Stats
	Age         time.Duration
	ForksPerMin float64
}

// IdleUnit names a check or other assigned task that the agent does not run, with the reason.
type IdleUnit struct {
	Unit   model.UnitID
	Name   string
	Reason string
}
