package load

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/pause"
)

// order is one change on its way: what each agent that it concerns must hold, or not.
type order struct {
	revision *revision
	nth      int                      // of the revision's changes
	want     map[string]time.Duration // interval of each check, by its name; zero: it must be gone
	waiting  map[*agent]struct{}
	early    []int64 // when agents held it of whose answer nobody had heard yet, ns
	last     int64   // when an agent held it last, ns
	answered int64   // ns; zero: not yet
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
	x := o.revision
	o.nth, x.lasts = len(x.lasts), append(x.lasts, -1)
	x.sum.Agents += len(o.waiting)
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
	for _, since := range o.early {
		f.took(o, since)
	}
	o.early = nil
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
	o.last = max(o.last, since)
	if o.answered == 0 {
		o.early = append(o.early, since)
	} else {
		f.took(o, since)
	}
}

func (f *reform) took(o *order, since int64) {
	took := max(0, since-o.answered)
	o.revision.took.Record(took, 1)
	f.run.waited(holdsFigure, o.answered, took, 1)
}

// closeHeld forgets orders that all hold.
func (f *reform) closeHeld() {
	f.orders = slices.DeleteFunc(f.orders, func(o *order) bool {
		held := len(o.waiting) == 0 && o.answered > 0
		if held {
			o.allHold()
		}
		return held
	})
	f.some.Store(len(f.orders) > 0)
}

func (o *order) allHold() { o.revision.lasts[o.nth] = max(0, o.last-o.answered) }

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
		o.revision.sum.Never += never
		if never == 0 && o.answered > 0 {
			o.allHold()
		}
	}
	f.orders = nil
	f.some.Store(false)
}

// sums is what came of each entry, once nobody looks any more.
func (f *reform) sums() (list []report.Held) {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.held {
		x.sum.Holds, x.sum.Answered = x.took.Latency(), x.asked.Latency()
		var all observe.Histogram
		for _, took := range x.lasts {
			if took >= 0 {
				all.Record(took, 1)
			}
		}
		x.sum.All = all.Latency()
		list = append(list, x.sum)
	}
	return list
}
