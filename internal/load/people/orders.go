package people

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/pause"
)

// order is a change that agents do not all hold yet, with times in ns since the run was made.
type order struct {
	observe.Intent                   // Answered is zero: not yet
	want           map[string]string // interval of each check, by its name, and how often a directive was changed; empty: it must be gone
	waiting        map[Machine]struct{}
}

// holdsFigure is the figure of the time until an agent held a change.
const holdsFigure = "holds-p99"

// open starts to wait for agents to hold an order made at a time; it replaces earlier orders for the same checks.
func (c *Changes) open(o *order, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, before := range c.orders {
		for name := range o.want {
			delete(before.want, name)
		}
	}
	c.orders = append(c.orders, o)
	c.some.Store(true) // before they are looked at: who gets an assignment now looks by itself
	for a := range o.waiting {
		held, since := a.Held()
		if held != nil && since >= at && o.heldIn(held) {
			c.holds(o, a, since)
		}
	}
	c.closeHeld()
}

// answer records the time of the answer, from which the holding is timed; agents that held the order before count as
// zero.
func (c *Changes) answer(o *order, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Answered = at
	for _, since := range o.Held {
		c.took(o, since)
	}
	c.closeHeld()
}

// Assigned checks whether a machine's new assignment holds the orders that it waits for. A nil receiver does nothing.
func (c *Changes) Assigned(a Machine, held *link.Assignment, since int64) {
	if c == nil || !c.some.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.orders {
		if _, waits := o.waiting[a]; waits && o.heldIn(held) {
			c.holds(o, a, since)
		}
	}
	c.closeHeld()
}

// holds records the time since which an agent holds an order. Caller holds the lock, as below.
func (c *Changes) holds(o *order, a Machine, since int64) {
	delete(o.waiting, a)
	o.Held = append(o.Held, since)
	if o.Answered > 0 {
		c.took(o, since)
	}
}

// took records how long an agent took to hold an order.
func (c *Changes) took(o *order, since int64) {
	c.run.Waited(holdsFigure, o.Answered, max(0, since-o.Answered))
}

// closeHeld removes orders that all agents hold.
func (c *Changes) closeHeld() {
	c.closeOrders(func(o *order) bool { return len(o.waiting) == 0 && o.Answered > 0 })
}

// closeOrders removes orders, and logs the result of those that the API answered. Agents with a session that do not hold an order
// count as never.
func (c *Changes) closeOrders(over func(o *order) bool) {
	begin := c.time.Begin()
	c.orders = slices.DeleteFunc(c.orders, func(o *order) bool {
		if !over(o) {
			return false
		}
		for a := range o.waiting {
			if _, here := a.Here(); here {
				o.Never++
			}
		}
		if o.Answered > 0 {
			o.Meant, o.Answered, o.Agents = o.Meant-begin, o.Answered-begin, len(o.Held)+len(o.waiting)
			for i := range o.Held {
				o.Held[i] -= begin
			}
			c.run.Append(&o.Intent)
		}
		return true
	})
	c.some.Store(len(c.orders) > 0)
}

// heldIn reports whether an assignment holds the order.
func (o *order) heldIn(held *link.Assignment) bool {
	found := 0
	for _, definition := range held.Definitions {
		name, is := "", ""
		if check := definition.AsCheck(); check != nil {
			name, is = check.Name, check.Interval.String()
		} else if directive := definition.AsDirective(); directive != nil {
			edits, _ := plan.EditsOf(directive)
			name, is = directive.Name, strconv.Itoa(edits)
		}
		if want, ok := o.want[name]; ok {
			if is != want {
				return false
			}
			found++
		}
	}
	for _, want := range o.want {
		if want == "" {
			found++
		}
	}
	return found == len(o.want)
}

// Await gives agents time to hold the last changes, then closes all orders. Agents that do not hold an order by then
// count as never; absent machines are excused.
func (c *Changes) Await(ctx context.Context) {
	if c == nil {
		return
	}
	for until := time.Now().Add(10 * time.Second); c.some.Load() && time.Now().Before(until) && ctx.Err() == nil; {
		pause.For(ctx, 20*time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeOrders(func(*order) bool { return true })
}
