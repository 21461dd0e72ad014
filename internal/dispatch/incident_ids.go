package dispatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/store/history"
)

// An incident is all messages to a handler under one id. A paging service keeps one alert for an incident, calls a person until
// it is acknowledged, and adds further messages silently. So each handler has its own incidents in a group, and two things
// begin a new incident: a problem that is new to the handler while all its problems are acknowledged, and the end of an
// acknowledgement. Services cannot remove an acknowledgement (PagerDuty, Jira Service Management), so a new incident
// replaces the acknowledged one, which ends.

// message is one message to one handler, about problems that share an incident in an external service. The id
// belongs to the alert in an external service such as PagerDuty.
type message struct {
	id       string // problem id, with .1, .2, … after acknowledgements that ended
	list     []*escalation
	unacked  bool   // the acknowledgement of the message's problems has ended
	replaces string // the incident that this message ends and replaces; empty: none
}

// messagesFor divides problems into messages to one handler, one message for each incident id. An incident is
// the alert in an external service such as PagerDuty.
func (o *deliveryBatch) messagesFor(list []*escalation, ref history.HandlerRef) (out []*message) {
	if o.notifiesEachProblem(ref) {
		for _, e := range list {
			if e.Closing == nil {
				out = append(out, &message{id: e.Problem, list: []*escalation{e}})
			}
		}
		return out
	}
	g := o.groups[list[0].groupKey()]
	taken := func(id string) bool {
		return g.usesIncident(ref, id) || slices.ContainsFunc(out, func(m *message) bool { return m.id == id })
	}
	under := func(id string) *message {
		i := slices.IndexFunc(out, func(m *message) bool { return m.id == id })
		if i < 0 {
			i, out = len(out), append(out, &message{id: id})
		}
		return out[i]
	}
	var fresh []*escalation
	anew, moved := map[string]*message{}, map[*escalation]bool{} // new incidents by the replaced one; their escalations
	for _, e := range list {
		k := e.notifiedHandler(ref)
		switch {
		case k == nil:
			fresh = append(fresh, e)
			continue
		case !k.Acked || e.Closing != nil:
			under(k.Incident).list = append(under(k.Incident).list, e)
			continue
		case anew[k.Incident] == nil:
			anew[k.Incident] = under(nextIncident(k.Incident, taken))
		}
		m := anew[k.Incident]
		m.unacked, m.list, moved[e] = true, append(m.list, e), true
	}
	for id, m := range anew {
		if !g.anyNotified(ref, id, func(e *escalation) bool { return !moved[e] }) {
			m.replaces = id
		}
	}
	if len(fresh) > 0 {
		m := under(o.incidentFor(g, ref, fresh[0], anew))
		m.unacked, m.list = false, append(m.list, fresh...)
	}
	return out
}

// incidentFor chooses an open incident or a new incident id for a handler's first message about a problem. It
// is an unacknowledged incident of the message group, or a new id.
func (o *deliveryBatch) incidentFor(g *group, ref history.HandlerRef, e *escalation, anew map[string]*message) string {
	var calls []string
	for _, m := range anew {
		calls = append(calls, m.id)
	}
	asked := map[string]bool{}
	for other := range g.members {
		if k := other.notifiedHandler(ref); k != nil && !asked[k.Incident] {
			if asked[k.Incident] = true; !o.isIncidentAcknowledged(g, ref, k.Incident) {
				calls = append(calls, k.Incident)
			}
		}
	}
	if len(calls) > 0 {
		return slices.Min(calls)
	}
	var ids []string
	for _, k := range e.Notified { // incidents of other handlers are in use too
		ids = append(ids, k.Incident)
	}
	for _, id := range append(ids, g.lead, e.Problem) {
		if !o.isIncidentAcknowledged(g, ref, id) {
			return id
		}
	}
	return nextIncident(e.Problem, func(id string) bool { return g.usesIncident(ref, id) })
}

// isIncidentAcknowledged reports whether a person acknowledged an incident, in Muster or in the external
// service (such as PagerDuty). An acknowledgement there or in Muster counts. The group has the problems of the
// incident, and ref names the handler that sends to the service.
func (o *deliveryBatch) isIncidentAcknowledged(g *group, ref history.HandlerRef, id string) (acked bool) {
	for e := range g.members {
		k := e.notifiedHandler(ref)
		if k == nil || k.Incident != id {
			continue
		}
		if e.Closing != nil {
			acked = acked || k.Acked
		} else if is := o.presentState(e); is != nil && !k.Acked && !is.Problem.Ack.Active(o.now) {
			return false // the service still calls a person
		} else {
			acked = acked || is != nil || k.Acked
		}
	}
	return acked
}

// coversOtherUnacknowledged reports whether an external incident covers another open problem that nobody has
// acknowledged. An incident is the alert in an external service such as PagerDuty.
func (o *deliveryBatch) coversOtherUnacknowledged(e *escalation, k history.NotifiedHandler) bool {
	g := o.groups[e.groupKey()]
	return g.anyNotified(k.HandlerRef, k.Incident, func(other *escalation) bool {
		if other == e || other.Closing != nil {
			return false
		}
		is := o.presentState(other)
		return is != nil && !is.Problem.Ack.Active(o.now)
	})
}

// recordIncidentAcknowledged records that an incident (alert in an external service such as PagerDuty) was
// acknowledged.
func (o *deliveryBatch) recordIncidentAcknowledged(e *escalation, k history.NotifiedHandler) {
	for other := range o.groups[e.groupKey()].members {
		if its := other.notifiedHandler(k.HandlerRef); its != nil && its.Incident == k.Incident && !its.Acked {
			its.Acked = true
			o.writeEscalation(other)
		}
	}
}

// anyNotified reports whether a handler was notified of any problem in the message group that meets a
// condition. Only notifications under a given incident id count.
func (g *group) anyNotified(ref history.HandlerRef, id string, so func(*escalation) bool) bool {
	if g == nil {
		return false
	}
	for e := range g.members {
		if k := e.notifiedHandler(ref); k != nil && k.Incident == id && so(e) {
			return true
		}
	}
	return false
}

// usesIncident reports whether messages to a handler about the group's problems used a given incident id. The
// id belongs to the alert in an external service.
func (g *group) usesIncident(ref history.HandlerRef, id string) bool {
	return g.anyNotified(ref, id, func(*escalation) bool { return true })
}

// nextIncident returns the next unused incident id for a problem's alert in an external service, such as
// PROBLEM.1. It is for a new alert in an external service.
func nextIncident(id string, taken func(string) bool) string {
	problem, _, _ := strings.Cut(id, ".")
	for n := 1; ; n++ {
		if id = fmt.Sprintf("%s.%d", problem, n); !taken(id) {
			return id
		}
	}
}

// notifiedHandler returns the record of a handler's notifications about the problem, or nil if the handler got none.
func (e *escalation) notifiedHandler(ref history.HandlerRef) *history.NotifiedHandler {
	for i := range e.Notified {
		if e.Notified[i].HandlerRef == ref {
			return &e.Notified[i]
		}
	}
	return nil
}

// recordNotified records that a handler was notified of the problem under an incident id of an external
// service. The id belongs to the alert in an external service.
func (e *escalation) recordNotified(ref history.HandlerRef, id string) {
	if k := e.notifiedHandler(ref); k != nil {
		k.Incident, k.Acked = id, false
		return
	}
	e.Notified = append(e.Notified, history.NotifiedHandler{HandlerRef: ref, Incident: id})
}

// setIncident stores the problem id and the external service's incident id, such as PROBLEM.1, in a
// notification. It is the id of the alert in external services such as PagerDuty.
func setIncident(n *handler.Notification, id string) {
	n.Incident = ""
	if problem, _, more := strings.Cut(id, "."); more {
		n.Problem, n.Incident = problem, id
	} else {
		n.Problem = id
	}
}
