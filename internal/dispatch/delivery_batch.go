package dispatch

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

// deliveryBatch collects the messages and other rows that the router writes to the database in one transaction.
// The rows are deliveries, rates and escalations, each the progress of a problem on a route.
type deliveryBatch struct {
	*router
	now        time.Time
	written    map[history.EscalationKey]*escalation
	finished   map[history.EscalationKey]bool
	deliveries []history.Delivery
	rates      map[groupKey]*history.RouteRate // counts of routes that this batch changed
	opened     map[string]*event.Transition    // openings of problems in this batch, by problem
}

// newDeliveryBatch returns an empty batch for the router's decisions at the given time.
func newDeliveryBatch(r *router, now time.Time) *deliveryBatch {
	return &deliveryBatch{router: r, now: now, written: map[history.EscalationKey]*escalation{}, finished: map[history.EscalationKey]bool{},
		rates: map[groupKey]*history.RouteRate{}, opened: map[string]*event.Transition{}}
}

// writeEscalation adds the changed progress of one problem on one notification route (escalation) to the batch.
func (o *deliveryBatch) writeEscalation(e *escalation) {
	delete(o.finished, e.EscalationKey)
	o.written[e.EscalationKey] = e
}

// finishEscalation ends the progress of one problem on one route (escalation), and deletes its database row.
func (o *deliveryBatch) finishEscalation(e *escalation) {
	o.removeEscalation(e)
	delete(o.written, e.EscalationKey)
	o.finished[e.EscalationKey] = true
}

// addRowsTo appends the collected rows, sorted, to a batch of writes to the history database.
func (o *deliveryBatch) addRowsTo(b *history.Batch) {
	b.Deliveries = append(b.Deliveries, o.deliveries...)
	for _, key := range slices.SortedFunc(maps.Keys(o.written), history.EscalationKey.Compare) {
		b.Escalations = append(b.Escalations, o.written[key].Escalation)
	}
	b.Finished = append(b.Finished, slices.SortedFunc(maps.Keys(o.finished), history.EscalationKey.Compare)...)
	for _, key := range slices.SortedFunc(maps.Keys(o.rates), groupKey.compare) {
		b.Rates = append(b.Rates, *o.rates[key])
	}
}

// empty reports whether the batch has no row to write.
func (o *deliveryBatch) empty() bool {
	return len(o.written) == 0 && len(o.finished) == 0 && len(o.deliveries) == 0 && len(o.rates) == 0
}

// enqueueDelivery adds one encoded message to the batch, to be written to the outbox table. It also records in the
// problems' escalations that the handler was notified. tells is the kind of the message for reports; note.Kind decides
// the form of its text.
func (o *deliveryBatch) enqueueDelivery(list []*escalation, ref history.HandlerRef, note *handler.Notification, tells string) error {
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	d := history.Delivery{
		Key:     list[0].Problem + "/" + note.Kind + "/" + ref.Namespace + "/" + ref.Name,
		Problem: note.Problem, NodeID: list[0].NodeID, Namespace: note.Space, Node: note.Node, Handler: ref, Kind: note.Kind, Payload: payload, Created: o.now,
		Route: list[0].Route, Event: tells, Count: len(list),
	}
	if route := list[0].Route; route != "" || note.Kind != handler.Opened && note.Kind != handler.Closed { // the message may be repeated: its key needs a time
		d.Key += fmt.Sprintf("/%s/%d", route, o.now.UnixNano())
	}
	switch {
	case list[0].Shadow:
		d.State, d.Ended = history.Shadow, o.now
	case o.mayHaveBeenSent(list[0].at):
		d.State, d.Ended, d.LastError = history.Withheld, o.now, history.ReasonUnknown
	}
	for _, e := range list {
		if e.Problem != d.Problem {
			d.FurtherProblems = append(d.FurtherProblems, e.Problem)
		}
	}
	o.deliveries = append(o.deliveries, d)
	return nil
}

// EventState returns a function that looks up in memory the present event of a problem's check or trigger. The source
// is a check or trigger; RoutingOptions.Present uses the function.
func EventState(get func(model.NodeID, model.Source) (event.State, bool)) func(model.NodeID, model.Source) *event.Transition {
	return func(node model.NodeID, source model.Source) *event.Transition {
		s, ok := get(node, source)
		if !ok {
			return nil
		}
		return &event.Transition{
			Node: node, Source: source, Definition: s.Definition, Namespace: s.Namespace, Status: s.Status, Severity: s.Severity, Output: s.Output,
			Executed: s.Executed, Received: s.Changed, Expired: s.Expired, Problem: s.Problem, Hooks: s.Extra.Hooks,
		}
	}
}

// presentProblem returns the open problem of an event, with the event's present status instead of the worst
// status. Its status is the event's present status, not the worst status.
func presentProblem(state *event.Transition) *model.Problem {
	if state == nil || state.Problem == nil {
		return nil
	}
	now := *state.Problem
	now.Status = state.Status
	return &now
}

// presentState returns the present event of a problem that is still open, or nil for a closed problem.
func (o *deliveryBatch) presentState(e *escalation) *event.Transition {
	if t := o.opened[e.Problem]; t != nil {
		return t
	}
	if t := o.Present(e.NodeID, e.Source); t != nil && t.Problem != nil && t.Problem.ID == e.Problem {
		return t
	}
	return nil
}

// newNotification returns a notification about a problem, with the status and output after an event change.
func newNotification(names Names, kind string, t *event.Transition, p *history.Problem) *handler.Notification {
	n := &handler.Notification{
		Kind: kind, Problem: p.ID, Node: p.Node, Labels: model.MergeTags(names.NodeLabels(t.Node), p.Labels), Space: p.Namespace,
		Status: t.Status.String(), Worst: p.Status.String(), Severity: p.Severity.String(), Output: t.Output,
		Opened: p.Opened.UTC(), Executed: time.Unix(0, t.Executed).UTC(), Expired: t.Expired, Hooks: t.Hooks,
		Description: p.Description,
	}
	n.SetSource(p.Source, p.SourceName)
	addCheckTexts(n, names, p.Source)
	if !p.Closed.IsZero() {
		n.Closed, n.Output = p.Closed.UTC(), model.Truncate(n.Output, history.MaxChangeOutput)
	}
	return n
}

// addCheckTexts sets the display name and runbook of a notification from the present declaration of the check.
// The check or Template declares both.
func addCheckTexts(n *handler.Notification, names Names, source model.Source) {
	unit := names.SourceUnit(source)
	if unit == nil {
		return
	}
	n.DisplayName, n.Runbook = unit.DisplayName, unit.Runbook
	if template := unit.Definition.AsTemplate(); template != nil {
		if t := template.Trigger(source.Instance); t != nil {
			n.Runbook = t.Runbook
		}
	}
}
