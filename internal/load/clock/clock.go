// Package clock has the time of a load run: how much of its timetable is over, in real time and in the virtual time of a pipeline.
//
// No goroutines, no locks. Start reading at Clock.
package clock

import (
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Clock has the time of a run, in ns since the run was made, and the timetable that is played.
type Clock struct {
	Epoch    time.Time // when the run was made
	begin    atomic.Int64
	present  atomic.Pointer[plan.Timetable]
	replaced atomic.Uint64
}

// New returns a Clock of a run that is made now. It has no timetable.
func New() *Clock { return &Clock{Epoch: time.Now()} }

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
func (c *Clock) Follow(t plan.Timetable) {
	c.present.Store(&t)
	c.replaced.Add(1)
}

// Replaced returns how often the timetable was replaced.
func (c *Clock) Replaced() uint64 { return c.replaced.Load() }

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

// Measured reports whether a time lies in a part that is measured.
func (c *Clock) Measured(at int64) bool {
	t := c.Present()
	i := t.At(at)
	return i >= 0 && t[i].Measured
}

// Pipeline is the clock in the virtual time of one pipeline of a scenario, which runs faster in phases that speed the pipeline
// up.
type Pipeline struct {
	*Clock
	Name   string
	Phases []scenario.Phase
}

// timetable returns the same parts at the pipeline's rates; without phases the rate is 1.
func (p Pipeline) timetable() plan.Timetable {
	return p.Present().Sped(func(phase int) float64 {
		if phase < len(p.Phases) {
			return p.Phases[phase].Speed(p.Name)
		}
		return 1
	})
}

// Meant returns the time of a virtual time, or plan.Never behind the end.
func (p Pipeline) Meant(virtual int64) int64 { return p.timetable().Meant(virtual) }

// Virtual returns the virtual time of a time, at most the virtual time of the end.
func (p Pipeline) Virtual(at int64) int64 { return p.timetable().VirtualAt(at) }
