package core

import (
	"context"
	"sync/atomic"
	"time"
)

// maxStep bounds one step of the clock: while the process was stopped, it could not receive, so nobody was silent.
const maxStep = 2 * time.Second

// Clock counts listening time in nanoseconds. Run moves it once a second; sessions compare it with the time of their
// last frame.
type Clock struct{ ns atomic.Int64 }

// Start sets the first reading.
func (c *Clock) Start(ns int64) { c.ns.Store(ns) }

// Now returns the last reading.
func (c *Clock) Now() int64 { return c.ns.Load() }

// Run moves the clock once a second until ctx ends and calls step with the time of day and the new reading.
func (c *Clock) Run(ctx context.Context, timeOfDay func() time.Time, step func(at time.Time, now int64)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := timeOfDay()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		at := timeOfDay()
		now := c.ns.Add(int64(min(max(0, at.Sub(last)), maxStep)))
		last = at
		step(at, now)
	}
}
