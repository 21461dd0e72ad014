package dispatch

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
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// notifyDue decides about all problems due on their routes, and sends the resulting messages to handlers.
func (r *router) notifyDue(o *deliveryBatch) error {
	var due []*escalation
	for len(r.due) > 0 && !r.due[0].at.After(o.now) {
		due = append(due, heap.Pop(&r.due).(*escalation))
	}
	return r.evaluate(o, due)
}

// evaluate decides about all problems due on their routes, and adds the resulting messages to the batch. A
// message group and route step have one message. An error concerns one message, which is tried again in a
// minute.
func (r *router) evaluate(o *deliveryBatch, due []*escalation) error {
	open, over, closing := map[groupKey][]*escalation{}, map[groupKey][]*escalation{}, map[groupKey][]*escalation{}
	for _, e := range due {
		held := e.heldByRate()
		if held && r.mustWaitForRateLimit(e, o.now) {
			continue
		}
		if e.Closing != nil && !held {
			closing[e.groupKey()] = append(closing[e.groupKey()], e)
			continue
		}
		to := r.routeOf(e)
		switch {
		case to == nil && e.Closing != nil:
			o.withholdMessages(e)
			o.finishEscalation(e)
		case to == nil: // routeOpenProblems follows the deletion of the route
		case e.Closing != nil:
			e.route = to
			over[e.rateKey()] = append(over[e.rateKey()], e)
		default:
			step, ready := o.dueStep(e, to)
			if key := (groupKey{route: e.Route, shadow: e.Shadow, step: step}); ready && held {
				over[key] = append(over[key], e)
			} else if key.group = e.Group; ready {
				open[key] = append(open[key], e)
			}
		}
	}
	var errs []error // one error for each message that could not be composed
	retry := func(list []*escalation, err error) {
		if err == nil {
			return
		}
		errs = append(errs, err)
		for _, e := range list {
			r.scheduleAt(e, o.now.Add(time.Minute))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(over), groupKey.compare) {
		retry(over[key], o.notifyRateExcess(over[key], key.step))
	}
	for _, key := range slices.SortedFunc(maps.Keys(open), groupKey.compare) {
		if some := o.holdRateExcess(open[key]); len(some) > 0 {
			retry(some, o.notify(some, key.step, ""))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(closing), groupKey.compare) {
		retry(closing[key], o.notifyClosed(key, closing[key]))
	}
	return errors.Join(errs...)
}

// dueStep returns the step of a route whose handlers must be notified of a problem now. A silence or another
// reason can hold the step back. It records a hold, with the reason, until the hold ends.
func (o *deliveryBatch) dueStep(e *escalation, to *route.Route) (step int, ready bool) {
	is := o.presentState(e)
	if is == nil {
		o.scheduleAt(e, o.now.Add(time.Minute))
		return 0, false
	}
	e.route, e.Next = to, e.Next.AdaptToRoute(to, e.Opened)
	if !e.AckEnds.IsZero() && !e.AckEnds.After(o.now) {
		o.remindUnacknowledged(e)
	}
	hold := mostImportantHold(o.holdsOf(e, to, is.Problem, o.now))
	if hold == nil {
		e.Hold = nil
		step, at, due := e.Next.Due()
		if ready = due && !at.After(o.now); ready {
			e.present = is
		} else {
			o.schedule(e)
			o.writeEscalation(e)
		}
		return step, ready
	}
	same := e.Hold != nil && *e.Hold == *hold
	if e.Hold, e.Due = hold, hold.Until; hold.Drop {
		e.Due = time.Time{}
	}
	if o.schedule(e); !same {
		o.writeEscalation(e)
	}
	return 0, false
}

// holdsOf returns all reasons, such as silences, why messages about a problem on a route must wait now.
// Silences, mutes, an acknowledgement and a rate limit are such reasons.
func (r *router) holdsOf(e *escalation, to *route.Route, p *model.Problem, now time.Time) []route.Hold {
	list := r.Table.Holds(r.describeProblem(e.NodeID, e.Source, p), to, now)
	if ack := p.Ack; ack.Active(now) {
		list = append(list, route.Hold{Kind: route.Acknowledged, Creator: ack.By, Reason: ack.Note, Until: ack.Until})
	}
	if hold := r.dependencyHold(e, p, now); hold != nil {
		list = append(list, *hold)
	}
	if e.Source == model.CheckSource(model.KeepaliveCheck) && r.MassOutage != nil {
		if many := r.MassOutage(now); many != nil {
			list = append(list, *many)
		} else if e.Hold != nil && e.Hold.Kind == route.ManySilent && e.Hold.Until.After(now) {
			list = append(list, *e.Hold) // the server found this hold before its restart
		}
	}
	return list
}

// mostImportantHold chooses, among several reasons why a message must wait, the one reason to show to people. A
// reason that drops the message comes first, then the reason that lasts longest.
func mostImportantHold(list []route.Hold) *route.Hold {
	if len(list) == 0 {
		return nil
	}
	h := slices.MaxFunc(list, func(a, b route.Hold) int {
		switch {
		case a.Drop != b.Drop:
			return orderOfBool(a.Drop)
		case a.Until.IsZero() != b.Until.IsZero():
			return orderOfBool(a.Until.IsZero())
		}
		return a.Until.Compare(b.Until)
	})
	return &h
}

// orderOfBool converts true to 1 and false to -1, as the result of a comparison function.
func orderOfBool(more bool) int {
	if more {
		return 1
	}
	return -1
}

// notify adds one message about several problems to the batch for each handler of a route step. Parameter why
// tells readers why several message groups share the message.
func (o *deliveryBatch) notify(list []*escalation, step int, why string) error {
	for _, name := range list[0].route.Steps[step].To {
		ref := history.HandlerRef(name)
		if !slices.ContainsFunc(list, func(e *escalation) bool { return !e.onlyAdded || e.notifiedHandler(ref) == nil }) {
			continue
		}
		for _, m := range o.messagesFor(list, ref) {
			if err := o.notifyHandler(m, ref, why); err != nil {
				return err
			}
		}
	}
	for _, e := range list {
		if e.Closing != nil { // the problem closed while the rate of its route held it
			o.finishEscalation(e)
			continue
		}
		e.Next.MarkSent(e.route, step, o.now)
		e.recordSeverity(e.present.Problem.Severity, o.now)
		e.present, e.onlyAdded = nil, false
		o.schedule(e)
		o.writeEscalation(e)
	}
	return nil
}

// notifyHandler composes one message about one or several problems, and adds the message to the batch.
func (o *deliveryBatch) notifyHandler(m *message, ref history.HandlerRef, why string) error {
	kind := handler.Reminder
	if slices.ContainsFunc(m.list, func(e *escalation) bool { return e.notifiedHandler(ref) == nil }) {
		kind = handler.Opened
	}
	before, known := o.groups[m.list[0].groupKey()].worstNotified(ref, m.id)
	note, err := o.notificationOf(m, ref, kind)
	if err != nil {
		return err
	}
	note.Output += latenessNote(m.list, ref)
	if !o.notifiesEachProblem(ref) {
		if note.SeverityRaised = known && severityRank(note.Severity) > before; why != "" {
			note.Output += "\n" + why
		}
	}
	note.AckExpired, note.Replaces = m.unacked, m.replaces
	if err := o.enqueueDelivery(m.list, ref, note, kind); err != nil {
		return err
	}
	for _, e := range m.list {
		e.recordNotified(ref, m.id)
	}
	return nil
}

// notifiesEachProblem reports whether a handler gets one message per problem instead of one per message group.
// An Alertmanager does, because it groups alerts itself.
func (r *router) notifiesEachProblem(ref history.HandlerRef) bool {
	spec, ok := r.names.Handler(ref.Namespace, ref.Name)
	return ok && spec.Alertmanager != nil
}

// notificationOf composes the notification for a message about one or several problems. Each problem is in the state
// in which the router decided to send the message.
func (r *router) notificationOf(m *message, ref history.HandlerRef, kind string) (*handler.Notification, error) {
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
			problem := problemOf(r.names, e.present)
			note := newNotification(r.names, kind, e.present, &problem)
			if was := e.notifiedSeverity(ref); was != 0 && was < e.present.Problem.Severity {
				note.PreviousSeverity = was.String()
			}
			notes = append(notes, note)
		}
	}
	if kind = handler.Summary; ended == len(notes) {
		kind = handler.Closed
	}
	return summarizeNotifications(notes, m.id, kind), nil
}

// maxListed is the most problems that a summary lists for people.
const maxListed = 10

// summarizeNotifications merges the notifications about several problems into one summary, with the worst problem
// first. A single notification is not changed.
func summarizeNotifications(notes []*handler.Notification, id, kind string) *handler.Notification {
	slices.SortStableFunc(notes, func(a, b *handler.Notification) int {
		return cmp.Or(cmp.Compare(severityRank(b.Severity), severityRank(a.Severity)), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Source.Name, b.Source.Name), cmp.Compare(a.Source.Instance, b.Source.Instance))
	})
	n := *notes[0]
	if setIncident(&n, id); len(notes) == 1 {
		return &n
	}
	n.Kind, n.Count = kind, len(notes)
	var lines []string
	for i, one := range notes {
		if i < handler.MaxProblems {
			n.Problems = append(n.Problems, handler.ListedProblem{Problem: one.Problem, Space: one.Space, Node: one.Node, Check: one.Check, Source: one.Source, DisplayName: one.DisplayName, Runbook: one.Runbook, Status: one.Status, Severity: one.Severity, PreviousSeverity: one.PreviousSeverity, Opened: one.Opened, Closed: one.Closed})
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
			if one.PreviousSeverity != "" {
				status += fmt.Sprintf(" (severity %s, was %s)", one.Severity, one.PreviousSeverity)
			}
			lines = append(lines, fmt.Sprintf("%s/%s %s: %s", one.Node, one.SubjectWithTitle(), status, first))
		}
	}
	if more := len(notes) - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	n.Hooks, n.PreviousSeverity = nil, "" // these fields are about a single problem
	n.Output = strings.Join(lines, "\n")
	return &n
}

// severityRank returns a number for the name of a severity, higher for a worse severity.
func severityRank(severity string) model.Severity {
	s, _ := model.ParseSeverity(severity)
	return s
}
