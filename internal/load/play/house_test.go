package play

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestHouseTurns checks the times of ticks: each agent has one in each round, at a time of its own.
func TestHouseTurns(t *testing.T) {
	h := house{begun: 1000, every: 500, agents: 10}
	for _, c := range []struct {
		agent    int
		at, want int64
	}{{0, 0, 1000}, {0, 1000, 1000}, {0, 1001, 1500}, {3, 0, 1150}, {3, 1150, 1150}, {3, 1151, 1650}, {9, 5000, 5450}, {9, 5451, 5950}} {
		if got := h.next(c.agent, c.at); got != c.want {
			t.Errorf("agent %d from %d on: %d, want %d", c.agent, c.at, got, c.want)
		}
	}
}

// resting returns a fleet whose agents send keepalives only, to a server that never answers.
func resting(t *testing.T) (f *Fleet, end func()) {
	t.Helper()
	f = fleetOf(t, &scenario.Scenario{Name: "resting", Phases: []scenario.Phase{{Steady: sec(600)}},
		Agents: []scenario.Class{{Name: "web", Count: 50, Checks: []scenario.Check{{Name: "http", Interval: sec(3600)}}}}})
	f.Deal()
	for _, a := range f.agents {
		a.set, a.ledger.States = &checkSet{}, make(observe.Entries, 1)
		a.Welcome(silent{}, &wire.Welcome{Node: 1, KeepaliveMs: 20000})
	}
	f.Start(f.Now())
	return f, func() {}
}

// lagOf returns the largest lag of all senders and the number of their frames, and clears the tallies.
func lagOf(r *Fleet) (worst time.Duration, frames int64) {
	for _, s := range r.senders {
		s.book.mu.Lock()
		for _, t := range s.book.parts {
			worst, frames = max(worst, time.Duration(t.Lag.Buckets().Max())*time.Microsecond), frames+t.Lag.Count()
		}
		clear(s.book.parts)
		s.book.mu.Unlock()
	}
	return worst, frames
}

// TestSignsOfLife expects that keepalives leave at their planned times, one agent after the other.
func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, end := resting(t)
		defer end()
		var left []int64
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { r.KeepHouse(ctx) })
		time.Sleep(100 * time.Second)
		stop()
		keeping.Wait()
		worst, frames := lagOf(r)
		for _, a := range r.agents {
			left = append(left, a.lastSend)
			if len(a.ledger.Quiet) > 0 {
				t.Errorf("quiet: %v", a.ledger.Quiet)
			}
		}
		slices.Sort(left)
		if worst > houseTick || frames < 50*4 || frames > 50*5 {
			t.Errorf("%d signs of life, the latest by %s", frames, worst)
		}
		if n := len(slices.Compact(left)); n < 40 {
			t.Errorf("50 machines spoke at %d times", n)
		}
	})
}

// TestSignsOfLifeThatAreLate delays keepalives, and expects that their lag counts from the planned time, and that a
// silence problem of that machine is blamed on the loader.
func TestSignsOfLifeThatAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, end := resting(t)
		defer end()
		begun := r.Now()
		time.Sleep(100 * time.Second) // nobody keeps the house: the loader stands still
		a, h := r.agents[0], house{begun, int64(5 * time.Second), 50}
		a.alive(r.Now(), func(at int64) int64 { return h.next(0, at) })
		if worst, frames := lagOf(r); frames != 1 || worst < 75*time.Second || worst > 81*time.Second { // it was due after 20 s
			t.Errorf("%d signs of life, %s late", frames, worst)
		}
		at := begun + int64(90*time.Second)
		if len(a.ledger.Quiet) != 1 || a.ledger.Quiet[0].From > at || a.ledger.Quiet[0].To < at || a.ledger.Quiet[0].To > r.Now() {
			t.Errorf("quiet %v", a.ledger.Quiet)
		}
		time.Sleep(25 * time.Second)
		a.alive(r.Now(), func(at int64) int64 { return h.next(0, at) })
		if len(a.ledger.Quiet) != 1 {
			t.Errorf("quiet %v", a.ledger.Quiet)
		}
	})
}
