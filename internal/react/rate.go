package react

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// pace counts the messages of a route that tell of problems of which nobody knows yet. What
// is told of a problem after that (steps, repeats, its end) is not counted: the rate let the
// problem itself pass.
type pace struct {
	ends time.Time // of the time for which sent counts
	sent int
}

// paceKey is of a route; what it would have said in the shadow is counted apart.
type paceKey struct {
	route  string
	shadow bool
}

func (k paceKey) compare(o paceKey) int {
	return cmp.Or(cmp.Compare(k.route, o.route), order(k.shadow)-order(o.shadow))
}

func (e *escalation) pace() paceKey { return paceKey{e.Route, e.Shadow} }

func (e *escalation) overRate() bool { return e.Held != nil && e.Held.Kind == route.OverRate }

// counted counts one message of a route; false: it is one too many. The count is recorded with the message.
func (r *router) counted(o *telling, of paceKey, rate *model.RouteRate) bool {
	p := r.paces[of]
	if p == nil {
		p = &pace{}
		r.paces[of] = p
	}
	if !o.now.Before(p.ends) {
		p.ends, p.sent = o.now.Add(rate.Span()), 0
	}
	p.sent++
	o.paces[of] = p
	return p.sent <= rate.Messages
}

// limited is what a route's rate leaves of those who are told together. Those who have to wait
// are told in one message when its time is over.
func (r *router) limited(o *telling, list []*escalation) []*escalation {
	to := list[0].route
	known := func(e *escalation) bool { return len(e.Told) > 0 }
	if to.Rate == nil || !slices.ContainsFunc(list, func(e *escalation) bool { return !known(e) }) ||
		r.counted(o, list[0].pace(), to.Rate) {
		return list
	}
	ends := r.paces[list[0].pace()].ends
	return slices.DeleteFunc(list, func(e *escalation) bool {
		if known(e) {
			return false
		}
		e.Held = &route.Hold{Kind: route.OverRate, By: to.Name, Reason: "more than " + to.Rate.String(), Until: ends}
		e.Due, e.is = ends, Presence{}
		r.plan(e)
		o.write(e)
		return true
	})
}

// waits says whether the time is not over yet for which the rate holds an escalation back: its own
// time, for a later one may have begun with others meanwhile.
func (r *router) waits(e *escalation, now time.Time) bool {
	to := r.routeOf(e)
	if !e.overRate() || !now.Before(e.Held.Until) || to == nil || to.Rate == nil {
		return false
	}
	e.Due = e.Held.Until
	r.plan(e)
	return true
}

// loadPaces goes on with rates that were in use when the server stopped.
func (r *router) loadPaces(ctx context.Context) error {
	list, err := r.opts.Store.Paces(ctx)
	for _, p := range list {
		r.paces[paceKey{p.Route, p.Shadow}] = &pace{ends: p.Ends, sent: p.Sent}
	}
	return err
}

// excess tells in one message what the rate held back: problems that are open, which are one
// group from now on, and those that ended meanwhile.
func (r *router) excess(o *telling, list []*escalation, step int) error {
	slices.SortFunc(list, func(a, b *escalation) int {
		return cmp.Or(order(a.Closing != nil)-order(b.Closing != nil), cmp.Compare(a.Problem, b.Problem))
	})
	first, why := list[0], "held back until now by the rate of route "+list[0].Route
	for _, e := range list {
		r.regroup(e, "\x00over\x00"+first.Problem, first.Problem)
	}
	if rate := first.route.Rate; rate != nil {
		why += ": no more than " + rate.String()
		r.counted(o, first.pace(), rate)
	}
	return r.tell(o, list, step, why)
}

// regroup moves an escalation to another group.
func (r *router) regroup(e *escalation, name, lead string) {
	r.quit(e)
	e.Group, e.Lead = name, lead
	r.group(groupKey{e.Route, name}, lead).members[e] = true
}
