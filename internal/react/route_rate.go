package react

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// rateWindow counts the messages of a route that open problems, in one span of its rate. Later steps, repeats
// and ends are not counted.
type rateWindow struct {
	ends time.Time // of the time for which sent counts
	sent int
}

// rateKey identifies a rate window. Messages of a shadow namespace are counted apart.
type rateKey struct {
	route  string
	shadow bool
}

func (k rateKey) compare(o rateKey) int {
	return cmp.Or(cmp.Compare(k.route, o.route), orderBool(k.shadow)-orderBool(o.shadow))
}

func (e *escalation) rateKey() rateKey { return rateKey{e.Route, e.Shadow} }

func (e *escalation) overRate() bool { return e.Held != nil && e.Held.Kind == route.OverRate }

// countMessage counts one message of a route. False: it exceeds the rate. The count is recorded with the
// message.
func (o *deliveryBatch) countMessage(of rateKey, rate *model.RouteRate) bool {
	r := o.router
	p := r.rates[of]
	if p == nil {
		p = &rateWindow{}
		r.rates[of] = p
	}
	if !o.now.Before(p.ends) {
		p.ends, p.sent = o.now.Add(rate.Period()), 0
	}
	p.sent++
	o.rates[of] = p
	return p.sent <= rate.Messages
}

// applyRate splits off the problems that exceed the route's rate. They are held until the span ends and go
// out in one message then.
func (o *deliveryBatch) applyRate(list []*escalation) []*escalation {
	r := o.router
	to := list[0].route
	known := func(e *escalation) bool { return len(e.Notified) > 0 }
	if to.Rate == nil || !slices.ContainsFunc(list, func(e *escalation) bool { return !known(e) }) ||
		o.countMessage(list[0].rateKey(), to.Rate) {
		return list
	}
	ends := r.rates[list[0].rateKey()].ends
	return slices.DeleteFunc(list, func(e *escalation) bool {
		if known(e) {
			return false
		}
		e.Held = &route.Hold{Kind: route.OverRate, By: to.Name, Reason: "more than " + to.Rate.String(), Until: ends}
		e.Due, e.present = ends, Presence{}
		r.schedule(e)
		o.write(e)
		return true
	})
}

// rateHolds reports whether an escalation's own rate hold has not ended; a later span may have begun for
// others.
func (r *router) rateHolds(e *escalation, now time.Time) bool {
	to := r.routeOf(e)
	if !e.overRate() || !now.Before(e.Held.Until) || to == nil || to.Rate == nil {
		return false
	}
	e.Due = e.Held.Until
	r.schedule(e)
	return true
}

// loadRates restores the rate windows that were in use when the server stopped.
func (r *router) loadRates(ctx context.Context) error {
	list, err := r.store.Rates(ctx)
	for _, p := range list {
		r.rates[rateKey{p.Route, p.Shadow}] = &rateWindow{ends: p.Ends, sent: p.Sent}
	}
	return err
}

// notifyExcess sends one message of all problems that the rate held back, open and closed; the open ones are
// one group from now on.
func (o *deliveryBatch) notifyExcess(list []*escalation, step int) error {
	r := o.router
	slices.SortFunc(list, func(a, b *escalation) int {
		return cmp.Or(orderBool(a.Closing != nil)-orderBool(b.Closing != nil), cmp.Compare(a.Problem, b.Problem))
	})
	first, why := list[0], "held back until now by the rate of route "+list[0].Route
	for _, e := range list {
		r.regroup(e, "\x00over\x00"+first.Problem, first.Problem)
	}
	if rate := first.route.Rate; rate != nil {
		why += ": no more than " + rate.String()
		o.countMessage(first.rateKey(), rate)
	}
	return o.notify(list, step, why)
}

// regroup moves an escalation to another group.
func (r *router) regroup(e *escalation, name, lead string) {
	r.leaveGroup(e)
	e.Group, e.Lead = name, lead
	r.group(groupKey{e.Route, name}, lead).members[e] = true
}
