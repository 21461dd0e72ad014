package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// SilenceEnd names a silence with untilResolved that must end, because the silenced problem has closed.
type SilenceEnd struct {
	Silence route.Name
	At      time.Time
}

// endedSilences returns the silences with untilResolved that must end, because their problem has closed.
// History may be late, so silences created after that time are left out.
func (r *router) endedSilences(changes []problemChange) (ends []SilenceEnd) {
	if r.EndSilences == nil {
		return nil
	}
	for i := range changes {
		t := &changes[i]
		if t.Kind != event.ProblemClosed {
			continue
		}
		at := time.Unix(0, t.Received)
		for _, h := range r.Table.Holds(r.describeProblem(t.Node, t.Source, &t.problem.Problem), nil, at) {
			if h.UntilResolved {
				ends = addSilenceEnd(ends, SilenceEnd{h.By, at})
			}
		}
	}
	return ends
}

// addSilenceEnd adds a silence to the list of silences to end, with only the latest time per silence. The list
// keeps only the latest end of each silence.
func addSilenceEnd(list []SilenceEnd, end SilenceEnd) []SilenceEnd {
	i := slices.IndexFunc(list, func(e SilenceEnd) bool { return e.Silence == end.Silence })
	if i < 0 {
		return append(list, end)
	}
	if list[i].At.Before(end.At) {
		list[i].At = end.At
	}
	return list
}

// endSilences deletes the silences with untilResolved whose problem has closed. After a failure it tries again
// in a minute, and nothing waits for that.
func (r *Dispatcher) endSilences(ctx context.Context, ends []SilenceEnd) {
	for _, end := range r.pendingEnds {
		ends = addSilenceEnd(ends, end)
	}
	if r.pendingEnds = nil; len(ends) == 0 {
		return
	}
	if err := r.opts.Routing.EndSilences(ctx, ends); err != nil && ctx.Err() == nil {
		r.opts.Logger.Warn("cannot end silences of closed problems; the server retries in a minute", "silences", ends, "err", err)
		r.pendingEnds, r.endRetry = ends, r.now().Add(time.Minute)
	}
}

// dependencyHold returns why messages about a problem must wait for a failed dependency, or nil. A dependency is a
// check or node on which the problem depends; one that has just recovered counts, too.
func (r *router) dependencyHold(e *escalation, p *model.Problem, now time.Time) *route.Hold {
	if r.Dependencies == nil {
		return nil
	}
	dependencies := r.Dependencies(e.NodeID, e.Source)
	if len(dependencies) == 0 {
		return nil
	}
	hold, dependency := route.DependencyHold(dependencies, func(node model.NodeID, source model.Source) *model.Problem {
		return presentProblem(r.Present(node, source))
	})
	if hold != nil {
		r.waitForDependency(e, dependency.ID)
		return hold
	}
	was := e.Hold
	if was != nil && (was.Kind == route.Unreachable || was.Kind == route.Dependent) {
		if was.Until.After(now) {
			return was
		}
		if was.Until.IsZero() {
			back := *was
			back.Reason, back.Until = "the dependency is OK again; handlers are notified of problems that remain", now.Add(r.twoIntervals(p))
			return &back
		}
	}
	if len(e.Notified) > 0 {
		return nil
	}
	var settling *route.Hold
	for i := range dependencies {
		m := &dependencies[i]
		if s := r.Present(m.Node, m.Source); s == nil || s.Status == model.OK && s.Executed >= e.Opened.UnixNano() {
			continue // the dependency has no event, or was OK since the problem opened
		}
		if until := e.Opened.Add(m.Settle); until.After(now) && (settling == nil || until.After(settling.Until)) {
			settling = m.Hold("the dependency may also fail: waiting for its next result, which is due by then", until)
		}
	}
	return settling
}

// twoIntervals returns twice the check's interval, the time within which a new result shows whether the problem
// continues
func (r *router) twoIntervals(p *model.Problem) time.Duration {
	if c := r.names.CheckDefinition(p.Definition, p.Source.Instance); c != nil && c.Interval > 0 {
		return 2 * c.Interval
	}
	return 2 * time.Minute // the check has a calendar instead of an interval
}

// waitForDependency records that messages about a problem on a route wait until the problem of a dependency
// closes. A dependency is a check or node on which the waiting problem depends.
func (r *router) waitForDependency(e *escalation, dependency string) {
	if e.dependency == dependency {
		return
	}
	r.releaseDependency(e)
	if e.dependency = dependency; r.dependents[dependency] == nil {
		r.dependents[dependency] = map[*escalation]bool{}
	}
	r.dependents[dependency][e] = true
}

// releaseDependency records that messages about a problem on a route no longer wait for a dependency. A
// dependency is a check or node on which the problem depends.
func (r *router) releaseDependency(e *escalation) {
	if delete(r.dependents[e.dependency], e); len(r.dependents[e.dependency]) == 0 {
		delete(r.dependents, e.dependency)
	}
	e.dependency = ""
}

// dependencyImproved decides again about messages that waited for a dependency, now no longer critical.
func (r *router) dependencyImproved(t *event.Transition, now time.Time) {
	if t.Status >= model.Critical {
		return
	}
	if s := r.Present(t.Node, t.Source); s != nil && s.Problem != nil {
		r.dependencyClosed(s.Problem.ID, now)
	}
}

// dependencyClosed decides again about messages that waited for a dependency, because the dependency's problem
// has closed. The dependency's problem has closed.
func (r *router) dependencyClosed(dependency string, now time.Time) {
	for e := range r.dependents[dependency] {
		r.releaseDependency(e)
		r.reevaluate(e, now)
	}
}

// heldByRate reports whether messages about the problem wait because the route's rate limit was exceeded.
func (e *escalation) heldByRate() bool { return e.Hold != nil && e.Hold.Kind == route.OverRate }

// countOpeningMessage counts a first message about new problems towards the route's rate limit. It reports
// whether the limit allows the message. Later steps, repetitions and closings are not counted. The count is
// recorded with the message.
func (o *deliveryBatch) countOpeningMessage(of groupKey, rate *model.RouteRate) (within bool) {
	p := o.router.rates[of]
	if p == nil {
		p = &history.RouteRate{Route: of.route, Shadow: of.shadow}
		o.router.rates[of] = p
	}
	if !o.now.Before(p.Ends) {
		p.Ends, p.Sent = o.now.Add(rate.Period()), 0
	}
	p.Sent++
	o.rates[of] = p
	return p.Sent <= rate.Messages
}

// holdRateExcess holds back messages about problems that exceed the route's rate limit. It returns the other
// escalations. It holds the others until the span of the rate ends, and then one message has all of them.
func (o *deliveryBatch) holdRateExcess(list []*escalation) []*escalation {
	to := list[0].route
	known := func(e *escalation) bool { return len(e.Notified) > 0 }
	if to.Rate == nil || !slices.ContainsFunc(list, func(e *escalation) bool { return !known(e) }) ||
		o.countOpeningMessage(list[0].rateKey(), to.Rate) {
		return list
	}
	ends := o.router.rates[list[0].rateKey()].Ends
	return slices.DeleteFunc(list, func(e *escalation) bool {
		if known(e) {
			return false
		}
		e.Hold = &route.Hold{Kind: route.OverRate, By: to.Name, Reason: "more than " + to.Rate.String(), Until: ends}
		e.Due, e.present = ends, nil
		o.schedule(e)
		o.writeEscalation(e)
		return true
	})
}

// mustWaitForRateLimit reports whether messages about a problem must wait longer because of the route's rate limit. If so, it
// schedules the next decision for the end of the limit. Other problems may have begun the next span of the rate
// meanwhile.
func (r *router) mustWaitForRateLimit(e *escalation, now time.Time) bool {
	to := r.routeOf(e)
	if !e.heldByRate() || !now.Before(e.Hold.Until) || to == nil || to.Rate == nil {
		return false
	}
	e.Due = e.Hold.Until
	r.schedule(e)
	return true
}

// notifyRateExcess sends one message about all problems that waited because of the route's rate limit. Closed problems
// are included. The open problems become one group.
func (o *deliveryBatch) notifyRateExcess(list []*escalation, step int) error {
	slices.SortFunc(list, func(a, b *escalation) int {
		return cmp.Or(orderOfBool(a.Closing != nil)-orderOfBool(b.Closing != nil), cmp.Compare(a.Problem, b.Problem))
	})
	first, why := list[0], "delayed until now by the rate limit of route "+list[0].Route
	for _, e := range list {
		o.moveToGroup(e, "\x00over\x00"+first.Problem, first.Problem)
	}
	if rate := first.route.Rate; rate != nil {
		why += ": no more than " + rate.String()
		o.countOpeningMessage(first.rateKey(), rate)
	}
	return o.notify(list, step, why)
}

// moveToGroup moves one problem's progress on one route (escalation) to another message group.
func (r *router) moveToGroup(e *escalation, name, lead string) {
	r.removeFromGroup(e)
	e.Group, e.Lead = name, lead
	r.findOrCreateGroup(groupKey{route: e.Route, group: name}, lead).members[e] = true
}
