package play

import (
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/load/plan"
)

// Clock has the time of a run, in ns since the run was made, and the timetable that is played.
type Clock struct {
	Epoch   time.Time // when the run was made
	begin   atomic.Int64
	present atomic.Pointer[plan.Timetable]
}

// NewClock returns a Clock of a run that is made now. It has no timetable.
func NewClock() *Clock { return &Clock{Epoch: time.Now()} }

// Now returns the time.
func (c *Clock) Now() int64 { return int64(time.Since(c.Epoch)) }

// Until returns the duration until a time.
func (c *Clock) Until(at int64) time.Duration { return time.Duration(at - c.Now()) }

// Start sets the start of the timetable.
func (c *Clock) Start(begin int64) { c.begin.Store(begin) }

// Begin returns the start of the timetable, or zero before Start.
func (c *Clock) Begin() int64 { return c.begin.Load() }

// SinceBegin returns the time since the start of the timetable.
func (c *Clock) SinceBegin() time.Duration { return time.Duration(c.Now() - c.Begin()) }

// Follow replaces the timetable.
func (c *Clock) Follow(t plan.Timetable) { c.present.Store(&t) }

// Present returns the present timetable; nil: there is none.
func (c *Clock) Present() plan.Timetable {
	if t := c.present.Load(); t != nil {
		return *t
	}
	return nil
}

// SecondOf returns the second of the timetable that contains a time, or -1 before its start or without a timetable.
func (c *Clock) SecondOf(at int64) int {
	begin := c.Begin()
	if begin == 0 || at < begin {
		return -1
	}
	return int((at - begin) / int64(time.Second))
}

// Since converts a time to seconds since the measurement began.
func (c *Clock) Since(at int64) float64 { return time.Duration(at - c.Present().Zero()).Seconds() }
