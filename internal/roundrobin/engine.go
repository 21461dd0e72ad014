// Package roundrobin assigns the runs of round-robin checks to members: in each interval one run of each
// check, or of each of its proxy nodes, goes to the next connected member.
//
// Input: the checks (directory.RoundRobin), results (RecordResult), ended sessions (SessionEnded). Output: turns that
// are handed to a session (Options.Give), and intervals without a connected member (Options.Missed). Nothing is stored:
// intervals follow the clock, so a restart continues them. Due times by cron (run_scheduling.go) follow wall-clock time; after a
// restart the age of the event (Options.Last) shows which of them ran.
//
// One goroutine (Run) and one lock, held while Give is called. Start reading at engine.go, then reload_rotations.go.
package roundrobin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options has the clocks of an Engine, and the functions that ask nodes to run checks. With these functions the Engine
// reads round-robin checks and asks nodes to run them.
type Options struct {
	Revision    func() int64                  // of the result of RoundRobins
	RoundRobins func() []directory.RoundRobin // all checks with roundRobin
	// Give hands a turn to a node's session; false if the node has no session or its agent does not have the check yet.
	// Give must not block.
	Give func(node model.NodeID, g wire.RoundRobinRun) bool
	// Missed records runs about proxy nodes without a connected member.
	Missed func(ctx context.Context, list []MissedRun) error
	// Last returns the time of the last run in a node's event (zero: none); not ok if the node has no
	// event. The engine calls Last after the start, for checks with cron. Last may be nil.
	Last  func(node model.NodeID, check model.CheckID) (at time.Time, ok bool)
	Grace time.Duration // after the start, while agents reconnect: no run is missed
	Now   func() time.Time
	Wall  func() time.Time // wall-clock time, for cron only; default Now
	Log   *slog.Logger
}

// MissedRun describes a run of a round-robin check that no connected node did in time.
type MissedRun struct {
	ProxyNode  model.NodeID
	Definition *model.CheckDefinition
	Text       string
}

// Engine decides which node runs each round-robin check next. The nodes that share a check are its members.
// RecordResult, SessionEnded and Faults are safe for concurrent use.
type Engine struct {
	o         Options
	startedAt time.Time // time of New with its monotonic reading: setting the clock moves no interval, only cron
	wake      chan struct{}

	mu       sync.Mutex
	robins   map[model.CheckID]*rotation
	turns    map[runKey]*recurringRun
	assigned map[model.NodeID]map[*recurringRun]struct{} // open turns by assignee
	heap     runHeap                                     // all turns, ascending by wake
	reloaded time.Duration                               // last look at RoundRobins' revision
	skew     time.Duration                               // wall-clock time minus the engine's clock
	revision int64
}

// New returns an Engine for round-robin checks. Its work starts with Run.
func New(o Options) *Engine {
	if o.Wall == nil {
		o.Wall = o.Now
	}
	return &Engine{o: o, startedAt: o.Now(), wake: make(chan struct{}, 1), revision: -1,
		robins: map[model.CheckID]*rotation{}, turns: map[runKey]*recurringRun{}, assigned: map[model.NodeID]map[*recurringRun]struct{}{}}
}

// reloadEvery is the longest delay until a changed check takes effect.
const reloadEvery = time.Second

// engineTime returns a nanosecond count since 1970 that advances evenly, even when somebody sets the wall
// clock.
func (e *Engine) engineTime() time.Duration {
	return time.Duration(e.startedAt.UnixNano()) + e.o.Now().Sub(e.startedAt)
}

// Run assigns the runs of round-robin checks to connected nodes until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		case <-timer.C:
		}
		missed, wait := e.assignDueRuns(e.engineTime())
		if len(missed) > 0 {
			if err := e.o.Missed(ctx, missed); err != nil && !errors.Is(err, context.Canceled) {
				e.o.Log.Error("cannot record round-robin checks that had no connected member", "count", len(missed), "err", err)
			}
		}
		timer.Reset(wait)
	}
}

// assignDueRuns assigns all due runs to nodes, and returns the runs that no node could do. It also returns the time
// until the next run is due.
func (e *Engine) assignDueRuns(now time.Duration) (missed []MissedRun, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adjustToClockChange(now)
	if e.revision < 0 || now-e.reloaded >= reloadEvery {
		e.reloadChecks(now)
	}
	wait = reloadEvery
	for len(e.heap) > 0 {
		t := e.heap[0]
		if t.wake > now {
			return missed, min(wait, t.wake-now)
		}
		if now >= t.next {
			if m, ok := e.startInterval(t, now); ok {
				missed = append(missed, m)
			}
		} else {
			e.assignRun(t, now)
			if m, ok := e.reportOverdue(t, now); ok {
				missed = append(missed, m)
			}
		}
		e.heap.fix(t)
	}
	return missed, wait
}

// RecordResult records that a node has run a check for a proxy node. The result ends the pending run. A result that is
// older than the turn belongs to an earlier turn and ends nothing.
func (e *Engine) RecordResult(check model.CheckID, about model.NodeID, age time.Duration) {
	now := e.engineTime()
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.turns[runKey{check, about}]
	if t == nil || !t.runOpen || now-age+agentTimePrecision < t.assignedAt {
		return
	}
	e.withdrawRun(t)
	t.runOpen, t.missed, t.lastSilentMember, t.wake = false, false, 0, t.next
	e.heap.fix(t)
}

// agentTimePrecision is the precision of times from agents.
const agentTimePrecision = 2 * time.Millisecond

// SessionEnded reassigns the unfinished runs of a disconnected node to other nodes. Other nodes get these runs
// at once.
func (e *Engine) SessionEnded(node model.NodeID) {
	e.mu.Lock()
	any := false
	for t := range e.assigned[node] {
		e.withdrawRun(t)
		t.wake, any = 0, true
		e.heap.fix(t)
	}
	e.mu.Unlock()
	if any {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}
