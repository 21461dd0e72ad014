package react

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// telling collects what one transaction says of escalations and messages.
type telling struct {
	now        time.Time
	written    map[history.EscalationKey]*escalation
	finished   map[history.EscalationKey]bool
	deliveries []history.Delivery
	paces      map[paceKey]*pace            // that were counted on
	turns      map[string]*event.Transition // of problems that opened in it
}

func newTelling(now time.Time) *telling {
	return &telling{now: now, written: map[history.EscalationKey]*escalation{}, finished: map[history.EscalationKey]bool{},
		paces: map[paceKey]*pace{}, turns: map[string]*event.Transition{}}
}

func (o *telling) write(e *escalation) {
	delete(o.finished, e.EscalationKey)
	o.written[e.EscalationKey] = e
}

func (o *telling) finish(r *router, e *escalation) {
	r.leave(e)
	delete(o.written, e.EscalationKey)
	o.finished[e.EscalationKey] = true
}

// into adds it to a batch.
func (o *telling) into(b *history.Batch) {
	b.Deliveries = append(b.Deliveries, o.deliveries...)
	for _, key := range slices.SortedFunc(maps.Keys(o.written), history.EscalationKey.Compare) {
		b.Escalations = append(b.Escalations, o.written[key].Escalation)
	}
	b.Finished = append(b.Finished, slices.SortedFunc(maps.Keys(o.finished), history.EscalationKey.Compare)...)
	for _, key := range slices.SortedFunc(maps.Keys(o.paces), paceKey.compare) {
		p := o.paces[key]
		b.Paces = append(b.Paces, history.Pace{Route: key.route, Shadow: key.shadow, Ends: p.ends, Sent: p.sent})
	}
}

func (o *telling) empty() bool {
	return len(o.written) == 0 && len(o.finished) == 0 && len(o.deliveries) == 0 && len(o.paces) == 0
}

// together are the problems that one message tells of: of one step of one route and group.
type together struct {
	route, group string
	shadow       bool
	step         int
}

// fire does what is due by now.
func (r *router) fire(o *telling) error {
	var due []*escalation
	for len(r.due) > 0 && !r.due[0].at.After(o.now) {
		due = append(due, heap.Pop(&r.due).(*escalation))
	}
	return r.look(o, due)
}

// look asks of each escalation whether it may be told now, and tells what may, group by
// group.
func (r *router) look(o *telling, due []*escalation) error {
	open, over := map[together][]*escalation{}, map[together][]*escalation{}
	var ended []*escalation
	for _, e := range due {
		held := e.overRate()
		if held && r.waits(e, o.now) {
			continue
		}
		if e.Closing != nil && !held {
			ended = append(ended, e)
			continue
		}
		to := r.routeOf(e)
		switch {
		case to == nil && e.Closing != nil:
			r.withhold(o, e)
			o.finish(r, e)
		case to == nil:
			r.reroute(o, e)
		case e.Closing != nil:
			e.route = to
			key := together{route: e.Route, shadow: e.Shadow}
			over[key] = append(over[key], e)
		default:
			step, ready := r.ready(o, e, to)
			if key := (together{route: e.Route, shadow: e.Shadow, step: step}); ready && held {
				over[key] = append(over[key], e)
			} else if key.group = e.Group; ready {
				open[key] = append(open[key], e)
			}
		}
	}
	var errs []error // of one message: the others leave
	for _, key := range slices.SortedFunc(maps.Keys(over), together.compare) {
		if err := r.excess(o, over[key], key.step); err != nil {
			errs = append(errs, err)
			for _, e := range over[key] {
				r.planAt(e, o.now.Add(time.Minute))
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(open), together.compare) {
		some := r.limited(o, open[key])
		if len(some) == 0 {
			continue
		}
		if err := r.tell(o, some, key.step, ""); err != nil {
			errs = append(errs, err)
			for _, e := range some {
				r.planAt(e, o.now.Add(time.Minute))
			}
		}
	}
	closing := map[groupKey][]*escalation{}
	for _, e := range ended {
		key := groupKey{e.Route, e.Group}
		closing[key] = append(closing[key], e)
	}
	for _, key := range slices.SortedFunc(maps.Keys(closing), groupKey.compare) {
		if err := r.conclude(o, key, closing[key]); err != nil {
			errs = append(errs, err)
			for _, e := range closing[key] {
				r.planAt(e, o.now.Add(time.Minute))
			}
		}
	}
	return errors.Join(errs...)
}

// ready says which step is to be told now. What is held back is noted with its reason, until
// that ends.
func (r *router) ready(o *telling, e *escalation, to *route.Route) (step int, ready bool) {
	is, ok := r.presence(o, e)
	if !ok {
		r.planAt(e, o.now.Add(time.Minute))
		return 0, false
	}
	e.route, e.Next = to, e.Next.Fit(to, e.Opened)
	if !e.AckEnds.IsZero() && !e.AckEnds.After(o.now) {
		r.recall(o, e)
	}
	hold := longest(r.holds(e, to, is.Problem, o.now))
	if hold == nil {
		e.Held = nil
		step, at, due := e.Next.Due()
		if ready = due && !at.After(o.now); ready {
			e.is = is
		} else {
			r.plan(e)
			o.write(e)
		}
		return step, ready
	}
	same := e.Held != nil && *e.Held == *hold
	if e.Held, e.Due = hold, hold.Until; hold.Drop {
		e.Due = time.Time{}
	}
	if r.plan(e); !same {
		o.write(e)
	}
	return 0, false
}

func (r *router) holds(e *escalation, to *route.Route, p *model.Problem, now time.Time) []route.Hold {
	list := r.opts.Routing.Holds(r.described(e.NodeID, e.Source, p.Status, p.Severity), to, now)
	if ack := p.Ack; ack.Holds(now) {
		list = append(list, route.Hold{Kind: route.Acknowledged, Creator: ack.By, Reason: ack.Note, Until: ack.Until})
	}
	if hold := r.hanging(e, p, now); hold != nil {
		list = append(list, *hold)
	}
	if e.Source == model.CheckSource(model.KeepaliveCheck) && r.opts.Many != nil {
		if many := r.opts.Many(now); many != nil {
			list = append(list, *many)
		} else if e.Held != nil && e.Held.Kind == route.ManySilent && e.Held.Until.After(now) {
			list = append(list, *e.Held) // counted before a restart
		}
	}
	return list
}

// longest is the hold that counts: what drops before what holds, and what ends last.
func longest(list []route.Hold) *route.Hold {
	if len(list) == 0 {
		return nil
	}
	h := slices.MaxFunc(list, func(a, b route.Hold) int {
		switch {
		case a.Drop != b.Drop:
			return order(a.Drop)
		case a.Until.IsZero() != b.Until.IsZero():
			return order(a.Until.IsZero())
		}
		return a.Until.Compare(b.Until)
	})
	return &h
}

func order(more bool) int {
	if more {
		return 1
	}
	return -1
}

// reroute finds the routes of a problem whose own was deleted. Who knows of it is not told
// of it anew, and hears of its end: from the route that takes it on, or, where that has another
// id for its group or there is none, from what is left of this one.
func (r *router) reroute(o *telling, e *escalation) {
	is, ok := r.presence(o, e)
	if !ok {
		r.planAt(e, time.Time{}) // its end is on its way
		return
	}
	inherited := len(e.Told) == 0
	t := &event.Transition{Node: e.NodeID, Source: e.Source, Chunk: is.Problem.Chunk, Namespace: is.Namespace}
	for _, next := range r.opened(t, &history.Problem{Problem: *is.Problem}, o.now) {
		next.Told, next.Severity, next.AckEnds = slices.Clone(e.Told), e.Severity, e.AckEnds
		if next.Lead != e.Lead {
			for i := range next.Told {
				next.Told[i].Under, next.Told[i].Acked = next.Lead, false
			}
		}
		if to := r.routeOf(next); to != nil {
			for i, step := range to.Steps {
				if !slices.ContainsFunc(step.To, func(n route.Name) bool { return e.knows(history.HandlerRef(n)) == nil }) {
					next.Next.Told(to, i, o.now)
				}
			}
		}
		inherited = inherited || next.Lead == e.Lead
		r.plan(next)
		o.write(next)
	}
	if inherited {
		o.finish(r, e)
		return
	}
	clear(e.Next)
	e.Held = nil
	r.plan(e)
	o.write(e)
}

// tell gives a step's handlers one message of all these problems, with why they come together
// where that is no matter of the group.
func (r *router) tell(o *telling, list []*escalation, step int, why string) error {
	for _, name := range list[0].route.Steps[step].To {
		ref := history.HandlerRef(name)
		for _, m := range r.messages(o, list, ref) {
			if err := r.say(o, m, ref, why); err != nil {
				return err
			}
		}
	}
	for _, e := range list {
		if e.Closing != nil { // it ended while it was held back
			o.finish(r, e)
			continue
		}
		e.Next.Told(e.route, step, o.now)
		e.raised(e.is.Problem.Severity, o.now)
		e.is = Presence{}
		r.plan(e)
		o.write(e)
	}
	return nil
}

// say gives a handler one message.
func (r *router) say(o *telling, m *message, ref history.HandlerRef, why string) error {
	kind := handler.Reminder
	if slices.ContainsFunc(m.list, func(e *escalation) bool { return e.knows(ref) == nil }) {
		kind = handler.Opened
	}
	before, known := r.groups[groupKey{m.list[0].Route, m.list[0].Group}].worst(ref, m.id)
	note, err := r.told(m, ref, kind)
	if err != nil {
		return err
	}
	note.Output += late(m.list, ref)
	if !r.alone(ref) {
		if note.Raised = known && rank(note.Severity) > before; why != "" {
			note.Output += "\n" + why
		}
	}
	note.Unacked, note.Instead = m.unacked, m.instead
	if err := r.send(o, m.list, ref, note, kind); err != nil {
		return err
	}
	for _, e := range m.list {
		e.learns(ref, m.id)
	}
	return nil
}

// alone says whether a handler is told of each problem by itself: an Alertmanager groups by
// itself.
func (r *router) alone(ref history.HandlerRef) bool {
	spec, ok := r.opts.Names.Handler(ref.Namespace, ref.Name)
	return ok && spec.Alertmanager != nil
}

// told is a notification of what these problems were when it was seen that they may be told: they
// change, and end, meanwhile.
func (r *router) told(m *message, ref history.HandlerRef, kind string) (*handler.Notification, error) {
	var notes []*handler.Notification
	ended := 0
	for _, e := range m.list {
		if e.Closing != nil {
			note, err := handler.Decode(e.Closing)
			if err != nil {
				return nil, err
			}
			notes = append(notes, note)
			ended++
		} else {
			note := r.note(e, e.is, kind)
			if was := e.heard(ref); was != 0 && was < e.is.Problem.Severity {
				note.Was = was.String()
			}
			notes = append(notes, note)
		}
	}
	if kind = handler.Summary; ended == len(notes) {
		kind = handler.Closed
	}
	return several(notes, m.id, kind), nil
}

// maxListed is how many problems a message of several names to people.
const maxListed = 10

// several is one notification of many, under one id; of one, it is that one.
func several(notes []*handler.Notification, id, kind string) *handler.Notification {
	slices.SortStableFunc(notes, func(a, b *handler.Notification) int {
		return cmp.Or(cmp.Compare(rank(b.Severity), rank(a.Severity)), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Source.Name, b.Source.Name), cmp.Compare(a.Source.Instance, b.Source.Instance))
	})
	n := *notes[0]
	if addressed(&n, id); len(notes) == 1 {
		return &n
	}
	n.Kind, n.Count = kind, len(notes)
	var lines []string
	for i, one := range notes {
		if i < handler.MaxProblems {
			n.Problems = append(n.Problems, handler.Listed{Problem: one.Problem, Space: one.Space, Node: one.Node, Check: one.Check, Source: one.Source, Status: one.Status, Severity: one.Severity, Was: one.Was, Opened: one.Opened, Closed: one.Closed})
		}
		if n.Closed.Before(one.Closed) {
			n.Closed = one.Closed
		}
		if n.Opened.After(one.Opened) {
			n.Opened = one.Opened
		}
		if i < maxListed {
			first, _, _ := strings.Cut(one.Output, "\n")
			status := one.Status
			if one.Was != "" {
				status += fmt.Sprintf(" (severity %s, was %s)", one.Severity, one.Was)
			}
			lines = append(lines, fmt.Sprintf("%s/%s %s: %s", one.Node, one.Subject(), status, first))
		}
	}
	if more := len(notes) - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	n.Hooks, n.Was = nil, "" // they are of one problem
	n.Output = strings.Join(lines, "\n")
	return &n
}

func rank(severity string) model.Severity {
	s, _ := model.ParseSeverity(severity)
	return s
}

// send puts a message into the outbox; tells is what it says of its problems, where note.Kind
// is how it says so.
func (r *router) send(o *telling, list []*escalation, ref history.HandlerRef, note *handler.Notification, tells string) error {
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	d := history.Delivery{
		Key:     list[0].Problem + "/" + note.Kind + "/" + ref.Namespace + "/" + ref.Name,
		Problem: note.Problem, Handler: ref, Kind: note.Kind, Payload: payload, Created: o.now,
		Route: list[0].Route, Tells: tells, Count: len(list),
	}
	if route := list[0].Route; route != "" || note.Kind != handler.Opened && note.Kind != handler.Closed { // may come again
		d.Key += fmt.Sprintf("/%s/%d", route, o.now.UnixNano())
	}
	if list[0].Shadow {
		d.State, d.Ended = history.Shadow, o.now
	}
	for _, e := range list {
		if e.Problem != d.Problem {
			d.Also = append(d.Also, e.Problem)
		}
	}
	o.deliveries = append(o.deliveries, d)
	return nil
}

func (a together) compare(b together) int {
	return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.group, b.group), order(a.shadow)-order(b.shadow), cmp.Compare(a.step, b.step))
}

func (a groupKey) compare(b groupKey) int {
	return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.group, b.group))
}
