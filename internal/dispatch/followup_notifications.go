package dispatch

import (
	"cmp"
	"encoding/json"
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

// closeProblem ends the progress of a closed problem on all its routes, and schedules the closing messages. It
// also notifies the handlers that know of the problem. Handlers that were notified get a closing, together with
// the rest of the problem's group. For all other handlers a withheld delivery records why they were not
// notified.
func (o *deliveryBatch) closeProblem(t *event.Transition, p *history.Problem) error {
	var now []*escalation
	o.dependencyClosed(p.ID, o.now)
	for _, e := range slices.Clone(o.of[p.ID]) {
		over := e.heldByRate()
		if len(e.Notified) == 0 && !over {
			o.withholdMessages(e)
			o.finishEscalation(e)
			continue
		}
		body, err := json.Marshal(newNotification(o.names, handler.Closed, t, p))
		if err != nil {
			return fmt.Errorf("encode the closing of problem %s: %w", p.ID, err)
		}
		for i := range e.Notified {
			e.Notified[i].Acked = e.Notified[i].Acked || p.Ack.Active(o.now)
		}
		if e.Closing = body; over { // the rate of the route is exceeded: the closing is sent after the span of the rate
			o.writeEscalation(e)
			continue
		}
		e.Hold, e.Due = nil, o.now
		if to := o.routeOf(e); to != nil {
			g := o.findOrCreateGroup(e.groupKey(), e.Lead)
			if !g.ends.After(o.now) {
				g.ends = o.now.Add(to.GroupWait)
			}
			e.Due = g.ends
		}
		if at := time.Unix(0, t.Received); o.mayHaveBeenSent(at) {
			e.Due = at
		}
		o.schedule(e)
		o.writeEscalation(e)
		if !e.Due.After(o.now) {
			now = append(now, e)
		}
	}
	return o.evaluate(o, now)
}

// withholdMessages records why the handlers of a problem that closed before any message got none. The state of
// such a delivery is withheld, which means not sent.
func (o *deliveryBatch) withholdMessages(e *escalation) {
	why := "the problem closed before the first step was due"
	if h := e.Hold; h != nil {
		switch why = string(h.Kind); h.Kind {
		case route.Acknowledged:
			why += " by " + h.Creator
		case route.ManySilent:
		case route.Unreachable:
			why = "unreachable behind " + h.By.String()
		case route.Dependent:
			why = "it depends on " + h.By.String()
		default:
			why += " by " + h.By.String()
		}
		why += " until it closed"
		if h.Reason != "" {
			why += ": " + h.Reason
		}
	}
	o.recordWithheld(e, why)
}

// recordWithheld records, for each handler of a route's first step, why the handler got no message.
func (o *deliveryBatch) recordWithheld(e *escalation, why string) {
	to := o.routeOf(e)
	if to == nil || len(to.Steps) == 0 {
		return
	}
	namespace, node, _ := o.names.NodeName(e.NodeID)
	for _, name := range to.Steps[0].To {
		ref := history.HandlerRef(name)
		o.deliveries = append(o.deliveries, history.Delivery{
			Key:     fmt.Sprintf("%s/withheld/%s/%s/%s", e.Problem, ref.Namespace, ref.Name, e.Route),
			Problem: e.Problem, NodeID: e.NodeID, Namespace: namespace, Node: node, Handler: ref, Kind: handler.Opened, Payload: []byte("{}"), Created: o.now, State: history.Withheld, Ended: o.now, LastError: why,
		})
	}
}

// notifyClosed sends the notified handlers a message that problems of a message group have closed. While other
// problems of an incident are open, the message must not end the incident.
func (o *deliveryBatch) notifyClosed(key groupKey, list []*escalation) error {
	ends := map[history.NotifiedHandler][]*escalation{} // closed problems by handler and incident
	for _, e := range list {
		for _, k := range e.Notified {
			k.Acked = false
			ends[k] = append(ends[k], e)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(ends), history.NotifiedHandler.Compare) {
		of, ref := ends[k], k.HandlerRef
		var notes []*handler.Notification
		for _, e := range of {
			note, err := handler.Decode(e.Closing)
			if err != nil {
				return err
			}
			notes = append(notes, note)
		}
		if o.notifiesEachProblem(ref) {
			for i, e := range of {
				notes[i].Problem = e.Problem
				if err := o.enqueueDelivery(of[i:i+1], ref, notes[i], handler.Closed); err != nil {
					return err
				}
			}
			continue
		}
		kind := handler.Closed
		if o.groups[key].anyNotified(ref, k.Incident, func(e *escalation) bool { return e.Closing == nil }) {
			kind = handler.Summary
		}
		note := summarizeNotifications(notes, k.Incident, kind)
		if note.Kind = kind; kind == handler.Summary && note.Count == 0 {
			note.Count = 1
		}
		if err := o.enqueueDelivery(of, ref, note, handler.Closed); err != nil {
			return err
		}
	}
	for _, e := range list {
		o.finishEscalation(e)
	}
	return nil
}

// notifyAcknowledged notifies the handlers of a problem about a new or removed acknowledgement.
func (o *deliveryBatch) notifyAcknowledged(t *event.Transition, p *history.Problem) error {
	var again []*escalation
	for _, e := range slices.Clone(o.of[p.ID]) {
		if e.Closing != nil {
			continue
		}
		if dropped := e.Hold != nil && e.Hold.Drop; !dropped && (e.Hold != nil || p.Ack == nil) {
			again = append(again, e) // held escalations are evaluated again: another hold may follow, or none
		}
		if p.Ack == nil {
			o.recordAcknowledgementRemover(e, t.Output)
			o.remindUnacknowledged(e)
			continue
		}
		for _, k := range e.Notified {
			note := newNotification(o.names, handler.Acknowledged, t, p)
			note.By, note.Note = p.Ack.By, p.Ack.Note
			if setIncident(note, k.Incident); o.notifiesEachProblem(k.HandlerRef) {
				setIncident(note, e.Problem)
			} else if o.coversOtherUnacknowledged(e, k) { // the incident has other open problems that nobody acknowledged
				note.Kind, note.Count = handler.Summary, 1
			} else {
				o.recordIncidentAcknowledged(e, k)
			}
			if err := o.enqueueDelivery([]*escalation{e}, k.HandlerRef, note, handler.Acknowledged); err != nil {
				return err
			}
		}
		e.AckEnds = p.Ack.Until
		o.schedule(e)
		o.writeEscalation(e) // the acknowledgement holds the escalation's next steps
	}
	return o.evaluate(o, again)
}

// remindUnacknowledged schedules a reminder to the handlers of a problem whose acknowledgement has expired.
func (o *deliveryBatch) remindUnacknowledged(e *escalation) {
	e.AckEnds = time.Time{}
	o.writeEscalation(e)
	if to := o.routeOf(e); to != nil && e.Closing == nil && slices.ContainsFunc(e.Notified, func(k history.NotifiedHandler) bool { return k.Acked }) {
		o.scheduleReminder(e, to)
	}
}

// recordAcknowledgementRemover records which person removed an acknowledgement in an external service, such as
// PagerDuty. Such a service alerts again by itself. If several handlers use the service, the right handler is
// unknown, so nothing is recorded.
func (r *router) recordAcknowledgementRemover(e *escalation, who string) {
	who, _, _ = strings.Cut(who, ": ") // cuts off the person's note
	var by []int
	for i := range e.Notified {
		spec, ok := r.names.Handler(e.Notified[i].Namespace, e.Notified[i].Name)
		if service := handler.CallbackService(spec); ok && service != "" && strings.HasSuffix(who, " ("+service+")") {
			by = append(by, i)
		}
	}
	if len(by) == 1 {
		e.Notified[by[0]].Acked = false
	}
}

// notifyHigherSeverity schedules a reminder if the severity of a problem rises above the severity in the last
// notification
func (o *deliveryBatch) notifyHigherSeverity(e *escalation, severity model.Severity) {
	if to := o.routeOf(e); to != nil && e.Closing == nil && len(e.Notified) > 0 && severity > e.Severity {
		o.scheduleReminder(e, to)
	}
}

// scheduleReminder schedules one reminder to every handler that was notified of the problem. It is sent with the next
// message of the problem's group. Later steps keep their times.
func (o *deliveryBatch) scheduleReminder(e *escalation, to *route.Route) {
	g := o.findOrCreateGroup(e.groupKey(), e.Lead)
	if !g.flush.After(o.now) {
		g.flush = o.now.Add(to.GroupWait)
	}
	e.Next = e.Next.AdaptToRoute(to, e.Opened)
	var reached []route.Name
	for i, step := range to.Steps {
		if at := e.Next[i]; !at.IsZero() && !at.After(g.flush) { // this step notifies its handlers before the reminder
			reached = append(reached, step.To...)
		}
	}
	for {
		best, most := -1, 0
		for i, step := range to.Steps {
			if n := len(removeNames(step.To, reached)); n > most && e.isStepNotified(to, i) {
				best, most = i, n
			}
		}
		if best < 0 {
			break
		}
		e.Next[best] = g.flush
		reached = append(reached, to.Steps[best].To...)
	}
	o.schedule(e)
	o.writeEscalation(e)
}

// notifiedSeverity returns the highest severity of the problem in earlier messages to one handler. It is zero
// for a handler without a notification.
func (e *escalation) notifiedSeverity(ref history.HandlerRef) model.Severity {
	if e.notifiedHandler(ref) == nil {
		return 0
	}
	return cmp.Or(e.previousSeverity, e.Severity)
}

// worstNotified returns the highest severity that one handler was told about problems under one incident id. If
// the handler was not notified, known is false.
func (g *group) worstNotified(ref history.HandlerRef, id string) (worst model.Severity, known bool) {
	g.anyNotified(ref, id, func(e *escalation) bool {
		worst, known = max(worst, e.notifiedSeverity(ref)), true
		return false
	})
	return worst, known
}

// recordSeverity stores the highest severity that any message about the problem has contained so far. It keeps
// the previous severity for other messages of the same moment.
func (e *escalation) recordSeverity(severity model.Severity, now time.Time) {
	if severity > e.Severity {
		e.previousSeverity, e.Severity = cmp.Or(e.previousSeverity, e.Severity), severity
	}
	if _, next, due := e.Next.Due(); !due || next.After(now) {
		e.previousSeverity = 0
	}
}

// isStepNotified reports whether a step of the route has notified all its handlers of the problem.
func (e *escalation) isStepNotified(to *route.Route, i int) bool {
	step := to.Steps[i]
	unknown := func(n route.Name) bool { return e.notifiedHandler(history.HandlerRef(n)) == nil }
	if slices.ContainsFunc(step.To, unknown) {
		return false
	}
	return e.Next[i].IsZero() || step.Repeat > 0 && e.Next[i].After(e.Opened.Add(step.After))
}

// removeNames returns the names of the first list that are not in the second list.
func removeNames(list, some []route.Name) (left []route.Name) {
	for _, n := range list {
		if !slices.Contains(some, n) {
			left = append(left, n)
		}
	}
	return left
}
