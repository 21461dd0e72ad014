package react

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// deliveryBatch collects the escalations, deliveries and rates of one transaction.
type deliveryBatch struct {
	*router
	now        time.Time
	written    map[history.EscalationKey]*escalation
	finished   map[history.EscalationKey]bool
	deliveries []history.Delivery
	rates      map[groupKey]*rateWindow     // changed in it
	opened     map[string]*event.Transition // of problems that opened in it
}

func newDeliveryBatch(r *router, now time.Time) *deliveryBatch {
	return &deliveryBatch{router: r, now: now, written: map[history.EscalationKey]*escalation{}, finished: map[history.EscalationKey]bool{},
		rates: map[groupKey]*rateWindow{}, opened: map[string]*event.Transition{}}
}

func (o *deliveryBatch) write(e *escalation) {
	delete(o.finished, e.EscalationKey)
	o.written[e.EscalationKey] = e
}

func (o *deliveryBatch) finish(e *escalation) {
	o.remove(e)
	delete(o.written, e.EscalationKey)
	o.finished[e.EscalationKey] = true
}

// addTo appends the collected rows to a batch, sorted.
func (o *deliveryBatch) addTo(b *history.Batch) {
	b.Deliveries = append(b.Deliveries, o.deliveries...)
	for _, key := range slices.SortedFunc(maps.Keys(o.written), history.EscalationKey.Compare) {
		b.Escalations = append(b.Escalations, o.written[key].Escalation)
	}
	b.Finished = append(b.Finished, slices.SortedFunc(maps.Keys(o.finished), history.EscalationKey.Compare)...)
	for _, key := range slices.SortedFunc(maps.Keys(o.rates), groupKey.compare) {
		p := o.rates[key]
		b.Rates = append(b.Rates, history.Rate{Route: key.route, Shadow: key.shadow, Ends: p.ends, Sent: p.sent})
	}
}

func (o *deliveryBatch) empty() bool {
	return len(o.written) == 0 && len(o.finished) == 0 && len(o.deliveries) == 0 && len(o.rates) == 0
}

// enqueue adds a delivery; tells is the meaning for reports, note.Kind the form.
func (o *deliveryBatch) enqueue(list []*escalation, ref history.HandlerRef, note *handler.Notification, tells string) error {
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

// Presence is the present state of a source on a node, as its view shows it.
type Presence struct {
	Namespace model.NamespaceID
	Status    model.Status
	Severity  model.Severity
	Output    string
	Executed  int64 // Unix ns
	Changed   int64 // Unix ns
	Expired   bool
	Problem   *model.Problem // the open one; nil: none
	Hooks     []model.HookResult
}

// EventPresence returns the Presence of checks, which the event view shows. It knows no other kind of source.
func EventPresence(get func(model.NodeID, model.CheckID) (event.State, bool)) func(model.NodeID, model.Source) (Presence, bool) {
	return func(node model.NodeID, source model.Source) (Presence, bool) {
		if source.Kind != model.SourceCheck {
			return Presence{}, false
		}
		s, ok := get(node, source.Check())
		return Presence{s.Namespace, s.Status, s.Severity, s.Output, s.Executed, s.Changed, s.Expired, s.Problem, s.Beside.Hooks}, ok
	}
}

// problemNow returns the open problem with the status of now; the problem's own is the worst so
// far. Nil: none is open.
func (p *Presence) problemNow() *model.Problem {
	if p.Problem == nil {
		return nil
	}
	now := *p.Problem
	now.Status = p.Status
	return &now
}

// presence returns the present state of a problem: from this very batch, else from the view. False: the problem
// has closed, and its transition is on its way.
func (r *router) presence(o *deliveryBatch, e *escalation) (Presence, bool) {
	if t := o.opened[e.Problem]; t != nil {
		return Presence{t.Namespace, t.Status, t.Severity, t.Output, t.Executed, t.Received, t.Expired, t.Problem, t.Hooks}, true
	}
	p, ok := r.Present(e.NodeID, e.Source)
	if !ok || p.Problem == nil || p.Problem.ID != e.Problem {
		return Presence{}, false
	}
	return p, true
}

// note returns a notification of a problem as it is now.
func (r *router) note(e *escalation, p Presence, kind string) *handler.Notification {
	n := &handler.Notification{Kind: kind, Problem: e.Problem, Labels: r.names.NodeLabels(e.NodeID),
		Status: p.Status.String(), Worst: p.Problem.Status.String(), Severity: p.Problem.Severity.String(), Output: p.Output,
		Opened: p.Problem.Opened.UTC(), Executed: time.Unix(0, p.Executed).UTC(), Expired: p.Expired, Hooks: p.Hooks}
	space, node, source := namesOf(r.names, &event.Transition{Node: e.NodeID, Source: e.Source, Namespace: p.Namespace, Chunk: p.Problem.Chunk})
	n.Space, n.Node = space, node
	n.SetSource(e.Source, source)
	return n
}

// closingNote returns a notification of a problem as a transition leaves it.
func closingNote(t *event.Transition, p *history.Problem, labels map[string]string) *handler.Notification {
	n := &handler.Notification{
		Kind: handler.Closed, Problem: p.ID, Node: p.Node, Labels: labels, Space: p.Namespace,
		Status: t.Status.String(), Worst: p.Status.String(), Severity: p.Severity.String(), Output: t.Output,
		Opened: p.Opened.UTC(), Executed: time.Unix(0, t.Executed).UTC(), Expired: t.Expired, Hooks: t.Hooks,
	}
	n.SetSource(p.Source, p.SourceName)
	if !p.Closed.IsZero() {
		n.Closed = p.Closed.UTC()
	}
	return n
}
