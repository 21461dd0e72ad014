package problems

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// pastStatus is the status of an event at a past time. Before the first change after that time it
// is the previous status of that change.
type pastStatus struct {
	known   bool // false: no result came before the time, or history does not reach back so far
	status  model.Status
	changed time.Time
	output  string
}

// historyPage is the number of rows that is read from history at a time.
const historyPage = 1000

// changesSince returns the status changes of an event after a time, oldest first.
func (s *request) changesSince(ctx context.Context, node model.NodeID, check string, since time.Time) ([]history.Entry, error) {
	var out []history.Entry
	for q := (history.EntryQuery{NodeID: node, Check: check, Kind: history.StatusChanged, Since: since.Add(1), Limit: historyPage}); ; {
		page, err := s.History.Entries(ctx, q)
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if len(page) < q.Limit {
			slices.Reverse(out)
			return out, nil
		}
		q.Before, q.BeforeID = page[len(page)-1].At, page[len(page)-1].ID
	}
}

// statusAt returns the status of an event at a time, and its changes since, oldest first.
func (s *request) statusAt(ctx context.Context, st *event.State, check string, at time.Time) (pastStatus, []history.Entry, error) {
	changed := view.Time(st.Changed)
	if st.Changed != 0 && !changed.After(at) {
		return pastStatus{true, st.Status, changed, st.Output}, nil, nil
	}
	var changes []history.Entry
	if changed.After(at) {
		var err error
		if changes, err = s.changesSince(ctx, st.Node, check, at); err != nil {
			return pastStatus{}, nil, err
		}
	}
	if len(changes) > 0 && changes[0].First {
		return pastStatus{}, changes, nil
	}
	before, err := s.History.Entries(ctx, history.EntryQuery{NodeID: st.Node, Check: check, Kind: history.StatusChanged, Before: at.Add(1), Limit: 1})
	if err != nil {
		return pastStatus{}, nil, err
	}
	if len(before) > 0 {
		return statusAfter(&before[0]), changes, nil
	}
	return statusBefore(changes), changes, nil
}

// statusAfter returns the status that a change led to.
func statusAfter(e *history.Entry) pastStatus { return pastStatus{true, e.Status, e.At, e.Output} }

// statusBefore returns the status before the first of some changes, as far as that change has it.
func statusBefore(changes []history.Entry) pastStatus {
	if len(changes) == 0 || changes[0].First {
		return pastStatus{}
	}
	return pastStatus{known: true, status: changes[0].Previous}
}

func (s *request) listPastEvents(ctx context.Context, in *struct {
	At time.Time `query:"at" required:"true" doc:"RFC 3339"`
	events.Selection
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.* as it is now"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}) (*op.Body[v1.PastEventList], error) {
	if in.At.After(s.Now()) {
		return nil, model.Errorf(model.Invalid, "at %s is in the future", in.At.Format(time.RFC3339))
	}
	filter, err := list.ByNode(s.View, list.OfNode{Where: in.Where})
	if err != nil {
		return nil, err
	}
	out := v1.PastEventList{At: in.At, Items: []v1.PastEvent{}}
	add := func(node model.NodeID, was pastStatus, one v1.PastEvent) {
		one.Status, one.StatusName, one.Changed, one.Output = was.status, was.status.String(), was.changed, was.output
		if was.known && filter.Match(node, func() any { return &one }) {
			out.Items = append(out.Items, one)
		}
	}
	if place, ok := s.deletedPlace(in.After); ok {
		out.Next, err = s.eachDeletedEvent(ctx, &in.Selection, in.At, place, func(e *deletedEvent) {
			add(e.node.id, e.was, v1.PastEvent{Namespace: e.node.namespace, Node: e.node.name, Check: e.check, Gone: e.node.at})
		})
		return op.Answer(out), err
	}
	page, err := s.eventPage(ctx, &in.Selection, in.At, in.Limit, in.After)
	if err != nil {
		return nil, err
	}
	out.Next = page.Next
	for i := range page.States {
		st := &page.States[i]
		name := events.Name(s.View, st)
		was, _, err := s.statusAt(ctx, st, name.Check, in.At)
		if err != nil {
			return nil, err
		}
		add(st.Node, was, v1.PastEvent{Namespace: name.Namespace, Node: name.Node, Check: name.Check})
	}
	return op.Answer(out), nil
}

func (s *request) listAvailability(ctx context.Context, in *struct {
	events.Selection
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.* as it is now"`
	list.Period
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}) (*op.Body[v1.AvailabilityList], error) {
	if err := in.Complete(s.Now(), 24*time.Hour); err != nil {
		return nil, err
	}
	filter, err := list.ByNode(s.View, list.OfNode{Where: in.Where})
	if err != nil {
		return nil, err
	}
	out := v1.AvailabilityList{Since: in.Since, Until: in.Until, Items: []v1.Availability{}}
	add := func(node model.NodeID, one v1.Availability) {
		if filter.Match(node, func() any { return &one }) {
			out.Items = append(out.Items, one)
		}
	}
	if place, ok := s.deletedPlace(in.After); ok {
		out.Next, err = s.eachDeletedEvent(ctx, &in.Selection, in.Since, place, func(e *deletedEvent) {
			p := in.Period
			if e.node.at.Before(p.Until) {
				p.Until = e.node.at // the node was deleted then
			}
			one := v1.Availability{Namespace: e.node.namespace, Node: e.node.name, Check: e.check, Gone: e.node.at}
			if sumDurations(&one, spansOf(p, e.was, e.changes)); one.Covered() > 0 {
				add(e.node.id, one)
			}
		})
		return op.Answer(out), err
	}
	page, err := s.eventPage(ctx, &in.Selection, in.Since, in.Limit, in.After)
	if err != nil {
		return nil, err
	}
	out.Next = page.Next
	for i := range page.States {
		st := &page.States[i]
		name := events.Name(s.View, st)
		spans, err := s.spans(ctx, st, name.Check, in.Period)
		if err != nil {
			return nil, err
		}
		one := v1.Availability{Namespace: name.Namespace, Node: name.Node, Check: name.Check}
		sumDurations(&one, spans)
		add(st.Node, one)
	}
	return op.Answer(out), nil
}

// eventPage returns a page of the events that exist. The page after the last one has the events of
// nodes that were deleted since a time, unless a group is asked for: history has no members of groups.
func (s *request) eventPage(ctx context.Context, in *events.Selection, since time.Time, limit int, after string) (event.Page, error) {
	q, err := events.Query(ctx, s.View, &events.Filter{Selection: *in})
	if err != nil && in.Node != "" && model.ClassOf(err) == model.NotFound {
		name := events.Selection{Namespace: in.Namespace, Node: in.Node}
		if nodes, _, failed := s.deletedNodes(ctx, &name, since, changePlace{}); failed == nil && len(nodes) > 0 {
			return event.Page{Next: s.nextDeleted(changePlace{})}, nil
		}
	}
	if err != nil {
		return event.Page{}, err
	}
	q.Limit, q.After = limit, after
	page, err := s.Events.List(ctx, q)
	if err == nil && page.Next == "" && in.Group == "" {
		page.Next = s.nextDeleted(changePlace{})
	}
	return page, err
}

// span is a time in which an event had one status.
type span struct {
	from, until time.Time
	was         pastStatus
}

// spansOf divides a period into spans, in order and without holes. was is the status at its
// beginning; changes are those since then, oldest first.
func spansOf(p list.Period, was pastStatus, changes []history.Entry) []span {
	out := []span{{from: p.Since, was: was}}
	for i := range changes {
		e := &changes[i]
		if !e.At.Before(p.Until) {
			break
		}
		out[len(out)-1].until = e.At
		out = append(out, span{from: e.At, was: statusAfter(e)})
	}
	out[len(out)-1].until = p.Until
	return out
}

// spans divides a period into the spans of an event that exists.
func (s *request) spans(ctx context.Context, st *event.State, check string, p list.Period) ([]span, error) {
	was, changes, err := s.statusAt(ctx, st, check, p.Since)
	return spansOf(p, was, changes), err
}

// sumDurations adds the seconds of each status.
func sumDurations(out *v1.Availability, spans []span) {
	for _, one := range spans {
		seconds := &out.Nothing
		if one.was.known {
			seconds = [...]*float64{&out.OK, &out.Warning, &out.Critical, &out.Unknown}[one.was.status&3]
		}
		*seconds += one.until.Sub(one.from).Seconds()
	}
	out.Changes = len(spans) - 1
}
