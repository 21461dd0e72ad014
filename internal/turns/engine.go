package turns

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

// Options are the surroundings of an Engine.
type Options struct {
	Revision    func() int64                  // of what RoundRobins says
	RoundRobins func() []directory.RoundRobin // all checks with roundRobin
	// Give leaves a turn with a node's session; false: it has none, or was not told of the
	// check yet. It must not block.
	Give func(node model.NodeID, g wire.TurnRun) bool
	// Missed records that nobody was there to run checks about proxy nodes.
	Missed func(ctx context.Context, list []Missed) error
	// Last is when the last run came back that a node's event tells of (zero: of none); not ok:
	// there is no event. It is asked after the start, of checks with cron. May be nil.
	Last  func(node model.NodeID, check model.CheckID) (at time.Time, ok bool)
	Grace time.Duration // after the start, in which agents come back: nothing is missed
	Now   func() time.Time
	Wall  func() time.Time // the time of day, for cron alone; default Now
	Log   *slog.Logger
}

// Missed is an interval of a check about a proxy node in which no member was connected, or a
// due time after which none was for so long.
type Missed struct {
	About model.NodeID
	Chunk *model.CheckChunk
	Text  string
}

// Engine gives turns. Ran, Ended and Faults may be called at any time.
type Engine struct {
	o     Options
	began time.Time // of New, with its monotonic reading: setting the clock moves no interval, only cron
	wake  chan struct{}

	mu       sync.Mutex
	robins   map[model.CheckID]*robin
	turns    map[key]*turn
	with     map[model.NodeID]map[*turn]struct{} // open, by whom they are given to
	heap     heap                                // of all turns, by act
	looked   time.Duration                       // when RoundRobins was last asked whether it differs
	skew     time.Duration                       // how far the time of day is ahead of the clock
	revision int64
}

// New makes an engine; nothing happens before Run.
func New(o Options) *Engine {
	if o.Wall == nil {
		o.Wall = o.Now
	}
	return &Engine{o: o, began: o.Now(), wake: make(chan struct{}, 1), revision: -1,
		robins: map[model.CheckID]*robin{}, turns: map[key]*turn{}, with: map[model.NodeID]map[*turn]struct{}{}}
}

// lookEvery is how long a check that was declared may wait to be heard of.
const lookEvery = time.Second

// clock is the time since 1970 that nobody sets.
func (e *Engine) clock() time.Duration {
	return time.Duration(e.began.UnixNano()) + e.o.Now().Sub(e.began)
}

// Run gives turns until ctx ends.
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
		missed, wait := e.step(e.clock())
		if len(missed) > 0 {
			if err := e.o.Missed(ctx, missed); err != nil && !errors.Is(err, context.Canceled) {
				e.o.Log.Error("round-robin checks that nobody could run were not recorded", "count", len(missed), "err", err)
			}
		}
		timer.Reset(wait)
	}
}

// step does what is due, and says how long nothing will be.
func (e *Engine) step(now time.Duration) (missed []Missed, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.follow(now)
	if e.revision < 0 || now-e.looked >= lookEvery {
		e.look(now)
	}
	wait = lookEvery
	for len(e.heap) > 0 {
		t := e.heap[0]
		if t.act > now {
			return missed, min(wait, t.act-now)
		}
		if now >= t.next {
			if m, ok := e.begin(t, now); ok {
				missed = append(missed, m)
			}
		} else {
			e.give(t, now)
			if m, ok := e.overdue(t, now); ok {
				missed = append(missed, m)
			}
		}
		e.heap.fix(t)
	}
	return missed, wait
}

// Ran hears of a result: of a check, about a proxy node (zero: none), that was age old when
// it came. One that is older than the turn is of an earlier one.
func (e *Engine) Ran(check model.CheckID, about model.NodeID, age time.Duration) {
	now := e.clock()
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.turns[key{check, about}]
	if t == nil || !t.open || now-age+rounding < t.gave {
		return
	}
	e.take(t)
	t.open, t.missed, t.last, t.act = false, false, 0, t.next
	e.heap.fix(t)
}

// rounding of times that agents tell in milliseconds.
const rounding = 2 * time.Millisecond

// Ended hears that a session of a node ended: what was given to it others get at once.
func (e *Engine) Ended(node model.NodeID) {
	e.mu.Lock()
	any := false
	for t := range e.with[node] {
		e.take(t)
		t.act, any = 0, true
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
