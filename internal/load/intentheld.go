package load

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/pause"
)

// order is one change on its way: what each agent that it concerns must hold, or not.
type order struct {
	entry    int                      // of the scenario's intent
	meant    int64                    // ns
	answered int64                    // ns; zero: not yet
	want     map[string]time.Duration // interval of each check, by its name; zero: it must be gone
	waiting  map[*agent]struct{}
	held     []int64 // when agents held it, ns
}

// holdsFigure is the figure of the time until an agent held a change.
const holdsFigure = "holds-p99"

// open lets agents look for what was ordered at an instant; who got it since, before this
// loader heard of the order, holds it since then. What an order before wanted of the same
// checks, nobody waits for any more.
func (f *reform) open(o *order, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, before := range f.orders {
		for name := range o.want {
			delete(before.want, name)
		}
	}
	f.orders = append(f.orders, o)
	f.some.Store(true) // before they are looked at: who gets an assignment now looks by itself
	for a := range o.waiting {
		a.mu.Lock()
		held, since := a.assigned, a.assignedAt
		a.mu.Unlock()
		if held != nil && since >= at && o.heldIn(held) {
			f.holds(o, a, since)
		}
	}
	f.closeHeld()
}

// answer times from an instant on; who was faster took no time.
func (f *reform) answer(o *order, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.answered = at
	for _, since := range o.held {
		f.took(o, since)
	}
	f.closeHeld()
}

// assigned looks whether an agent holds since an instant what it waits for. A nil receiver
// looks at nothing.
func (f *reform) assigned(a *agent, held *link.Assignment, since int64) {
	if f == nil || !f.some.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.orders {
		if _, waits := o.waiting[a]; waits && o.heldIn(held) {
			f.holds(o, a, since)
		}
	}
	f.closeHeld()
}

// holds notes since when an agent holds an order. Caller holds the lock, as below.
func (f *reform) holds(o *order, a *agent, since int64) {
	delete(o.waiting, a)
	o.held = append(o.held, since)
	if o.answered > 0 {
		f.took(o, since)
	}
}

func (f *reform) took(o *order, since int64) {
	f.run.waited(holdsFigure, o.answered, max(0, since-o.answered), 1)
}

// closeHeld forgets orders that all hold.
func (f *reform) closeHeld() {
	f.orders = slices.DeleteFunc(f.orders, func(o *order) bool {
		held := len(o.waiting) == 0 && o.answered > 0
		if held {
			f.write(o, 0)
		}
		return held
	})
	f.some.Store(len(f.orders) > 0)
}

// write writes what came of an order to the log.
func (f *reform) write(o *order, never int) {
	begin := f.run.begin.Load()
	for i := range o.held {
		o.held[i] -= begin
	}
	f.run.log.Append(observe.Line{Intent: &observe.Intent{Entry: o.entry, Meant: o.meant - begin, Answered: o.answered - begin, Agents: len(o.held) + len(o.waiting), Held: o.held, Never: never}})
}

// heldIn says whether an assignment is as ordered.
func (o *order) heldIn(held *link.Assignment) bool {
	found := 0
	for _, definition := range held.Definitions {
		c := definition.AsCheck()
		if c == nil {
			continue
		}
		if interval, ok := o.want[c.Name]; ok {
			if c.Interval != interval {
				return false
			}
			found++
		}
	}
	for _, interval := range o.want {
		if interval == 0 {
			found++
		}
	}
	return found == len(o.want)
}

// await gives agents the time to hold what was changed last. Then nobody looks any more:
// those that do not hold an order never did; machines that are away are excused.
func (f *reform) await(ctx context.Context) {
	if f == nil {
		return
	}
	for until := time.Now().Add(10 * time.Second); f.some.Load() && time.Now().Before(until) && ctx.Err() == nil; {
		pause.For(ctx, 20*time.Millisecond)
	}
	f.close()
}

func (f *reform) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.orders {
		never := 0
		for a := range o.waiting {
			a.mu.Lock()
			if a.session != nil {
				never++
			}
			a.mu.Unlock()
		}
		if o.answered > 0 {
			f.write(o, never)
		}
	}
	f.orders = nil
	f.some.Store(false)
}
