package react

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

// SilenceEnd names a silence that ends because its problem closed, with the time.
type SilenceEnd struct {
	Silence route.Name
	At      time.Time
}

// endedSilences returns the silences with untilResolved that were in force when a problem closed. History may
// be behind: newer silences do not count.
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
		for _, h := range r.Table.Holds(r.describeProblem(t.Node, t.Source, t.problem.Status, t.problem.Severity), nil, at) {
			if h.UntilResolved {
				ends = addSilenceEnd(ends, SilenceEnd{h.By, at})
			}
		}
	}
	return ends
}

// addSilenceEnd adds an end; of one silence it keeps the last.
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

// endSilences deletes ended silences. Failures are tried again in a minute; nothing waits for it.
func (r *Reactor) endSilences(ctx context.Context, ends []SilenceEnd) {
	for _, end := range r.pendingEnds {
		ends = addSilenceEnd(ends, end)
	}
	if r.pendingEnds = nil; len(ends) == 0 {
		return
	}
	if err := r.opts.Routing.EndSilences(ctx, ends); err != nil && ctx.Err() == nil {
		r.opts.Logger.Warn("cannot end silences of closed problems; trying again in a minute", "silences", ends, "err", err)
		r.pendingEnds, r.endRetry = ends, r.now().Add(time.Minute)
	}
}

// dependencyHold returns the hold of a problem while a dependency is open, may be about to open, or closed a
// moment ago; nil: none holds.
func (r *router) dependencyHold(e *escalation, p *model.Problem, now time.Time) *route.Hold {
	if r.Dependencies == nil {
		return nil
	}
	dependencies := r.Dependencies(e.NodeID, e.Source)
	if len(dependencies) == 0 {
		return nil
	}
	hold, dependency := route.DependencyHold(dependencies, func(node model.NodeID, check model.CheckID) *model.Problem {
		return problemNow(r.Present(node, model.CheckSource(check)))
	})
	if hold != nil {
		r.waitForDependency(e, dependency.ID)
		return hold
	}
	was := e.Held
	if was != nil && (was.Kind == route.Unreachable || was.Kind == route.Dependent) {
		if was.Until.After(now) {
			return was
		}
		if was.Until.IsZero() {
			back := *was
			back.Reason, back.Until = "the dependency is OK again; remaining problems are notified", now.Add(r.twoIntervals(p))
			return &back
		}
	}
	if len(e.Notified) > 0 {
		return nil
	}
	var settling *route.Hold
	for i := range dependencies {
		m := &dependencies[i]
		if s := r.Present(m.Node, model.CheckSource(m.Check)); s == nil || s.Status == model.OK && s.Executed >= e.Opened.UnixNano() {
			continue // the dependency has no event, or has been OK since the problem opened
		}
		if until := e.Opened.Add(m.Settle); until.After(now) && (settling == nil || until.After(settling.Until)) {
			settling = m.Hold("the dependency may also fail; its next result is due by then", until)
		}
	}
	return settling
}

// twoIntervals returns two intervals of the problem's check: within that time a new result judges the problem.
func (r *router) twoIntervals(p *model.Problem) time.Duration {
	if c := r.names.CheckChunk(p.Chunk); p.Source.Kind == model.SourceCheck && c != nil && c.Interval > 0 {
		return 2 * c.Interval
	}
	return 2 * time.Minute // the check runs at times of the clock
}

// waitForDependency registers an escalation to be evaluated again when its dependency closes.
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

func (r *router) releaseDependency(e *escalation) {
	if delete(r.dependents[e.dependency], e); len(r.dependents[e.dependency]) == 0 {
		delete(r.dependents, e.dependency)
	}
	e.dependency = ""
}

// dependencyImproved evaluates dependents again when a dependency's status is below critical.
func (r *router) dependencyImproved(t *event.Transition, now time.Time) {
	if t.Status >= model.Critical {
		return
	}
	if s := r.Present(t.Node, t.Source); s != nil && s.Problem != nil {
		r.dependencyClosed(s.Problem.ID, now)
	}
}

// dependencyClosed evaluates the dependents of a closed problem again.
func (r *router) dependencyClosed(dependency string, now time.Time) {
	for e := range r.dependents[dependency] {
		r.releaseDependency(e)
		r.reevaluate(e, now)
	}
}

func (e *escalation) heldByRate() bool { return e.Held != nil && e.Held.Kind == route.OverRate }

// countMessage counts one message of a route that opens problems, and reports whether it keeps the rate. Later steps,
// repeats and ends are not counted. The count is recorded with the message.
func (o *deliveryBatch) countMessage(of groupKey, rate *model.RouteRate) (within bool) {
	p := o.router.rates[of]
	if p == nil {
		p = &history.Rate{Route: of.route, Shadow: of.shadow}
		o.router.rates[of] = p
	}
	if !o.now.Before(p.Ends) {
		p.Ends, p.Sent = o.now.Add(rate.Period()), 0
	}
	p.Sent++
	o.rates[of] = p
	return p.Sent <= rate.Messages
}

// applyRate splits off the problems that exceed the route's rate. They are held until the span ends and go
// out in one message then.
func (o *deliveryBatch) applyRate(list []*escalation) []*escalation {
	to := list[0].route
	known := func(e *escalation) bool { return len(e.Notified) > 0 }
	if to.Rate == nil || !slices.ContainsFunc(list, func(e *escalation) bool { return !known(e) }) ||
		o.countMessage(list[0].rateKey(), to.Rate) {
		return list
	}
	ends := o.router.rates[list[0].rateKey()].Ends
	return slices.DeleteFunc(list, func(e *escalation) bool {
		if known(e) {
			return false
		}
		e.Held = &route.Hold{Kind: route.OverRate, By: to.Name, Reason: "more than " + to.Rate.String(), Until: ends}
		e.Due, e.present = ends, nil
		o.schedule(e)
		o.writeEscalation(e)
		return true
	})
}

// rateHoldLasts reports whether the rate still holds an escalation, and schedules it for the end. The rate may have begun its
// next span meanwhile, for other problems.
func (r *router) rateHoldLasts(e *escalation, now time.Time) bool {
	to := r.routeOf(e)
	if !e.heldByRate() || !now.Before(e.Held.Until) || to == nil || to.Rate == nil {
		return false
	}
	e.Due = e.Held.Until
	r.schedule(e)
	return true
}

// notifyExcess sends one message of all problems that the rate held back, open and closed; the open ones are
// one group from now on.
func (o *deliveryBatch) notifyExcess(list []*escalation, step int) error {
	slices.SortFunc(list, func(a, b *escalation) int {
		return cmp.Or(boolOrder(a.Closing != nil)-boolOrder(b.Closing != nil), cmp.Compare(a.Problem, b.Problem))
	})
	first, why := list[0], "delayed until now by the rate of route "+list[0].Route
	for _, e := range list {
		o.regroup(e, "\x00over\x00"+first.Problem, first.Problem)
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
	r.group(groupKey{route: e.Route, group: name}, lead).members[e] = true
}
