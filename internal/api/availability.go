package api

import (
	"context"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// What an event was follows from what it is and from its changes of status: before the
// first change after a time it was what that change calls previous. Events of nodes that are
// gone come last (deletednodes.go); of others that are gone nothing is told.

// pastStatus is what an event was at a time; not known: there was no result yet, or history does
// not reach back so far.
type pastStatus struct {
	known   bool
	status  model.Status
	changed time.Time
	output  string
}

// changesOf are an event's changes of status in a period, oldest first.
func (s *server) changesOf(ctx context.Context, node model.NodeID, check string, since, until time.Time) ([]history.Entry, error) {
	var out []history.Entry
	for q := (history.EntryQuery{NodeID: node, Check: check, Kind: history.StatusChanged, Since: since, Before: until, Limit: 1000}); ; {
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

// before is what an event was at a time, given what it is and its changes after that time.
func (s *server) before(ctx context.Context, st *event.State, check string, at time.Time, after []history.Entry) (pastStatus, error) {
	if changed := moment(st.Changed); st.Changed != 0 && !changed.After(at) {
		return pastStatus{true, st.Status, changed, st.Output}, nil
	}
	if len(after) > 0 && after[0].First {
		return pastStatus{}, nil
	}
	last, err := s.History.Entries(ctx, history.EntryQuery{NodeID: st.Node, Check: check, Kind: history.StatusChanged, Before: at.Add(1), Limit: 1})
	if err != nil {
		return pastStatus{}, err
	}
	if len(last) > 0 {
		return pastStatus{true, last[0].Status, last[0].At, last[0].Output}, nil
	}
	if len(after) > 0 {
		return pastStatus{known: true, status: after[0].Previous}, nil
	}
	return pastStatus{}, nil
}

type pastEventsInput struct {
	At        time.Time `query:"at" required:"true" doc:"RFC 3339"`
	Namespace string    `query:"namespace" maxLength:"253"`
	Node      string    `query:"node" maxLength:"253"`
	Check     string    `query:"check" maxLength:"253"`
	Group     string    `query:"group" maxLength:"253" doc:"Only nodes of this group, as it is now."`
	Selector  string    `query:"selector" maxLength:"4096" doc:"Labels of the node: env=prod,tier!=db"`
	Where     string    `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.* as it is now"`
	Limit     int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After     string    `query:"after" maxLength:"1024" doc:"The next of the page before."`
}

func (s *server) listPastEvents(ctx context.Context, in *pastEventsInput) (*body[v1.PastEventList], error) {
	if in.At.After(s.Now()) {
		return nil, model.Errorf(model.Invalid, "at %s has not come yet", in.At.Format(time.RFC3339))
	}
	n, err := s.narrow(&overNodeRows, NarrowInput{Where: in.Where})
	if err != nil {
		return nil, err
	}
	filter := FilterInput{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Selector: in.Selector}
	out := v1.PastEventList{At: in.At, Items: []v1.PastEvent{}}
	if revision, part, ok := s.deletedToken(in.After); ok {
		err := s.pastOfDeleted(ctx, &filter, n, revision, part, &out)
		return &body[v1.PastEventList]{out}, err
	}
	page, err := s.eventPage(ctx, &filter, in.Group, in.At, in.Limit, in.After)
	if err != nil {
		return nil, err
	}
	out.Next = page.Next
	for i := range page.States {
		st := &page.States[i]
		name := s.event(st)
		var after []history.Entry
		if moment(st.Changed).After(in.At) {
			if after, err = s.changesOf(ctx, st.Node, name.Check, in.At.Add(1), time.Time{}); err != nil {
				return nil, err
			}
		}
		was, err := s.before(ctx, st, name.Check, in.At, after)
		if err != nil {
			return nil, err
		}
		one := v1.PastEvent{Namespace: name.Namespace, Node: name.Node, Check: name.Check,
			Status: was.status, StatusName: was.status.String(), Changed: was.changed, Output: was.output}
		if was.known && n.picks(st.Node, func() any { return &one }) {
			out.Items = append(out.Items, one)
		}
	}
	return &body[v1.PastEventList]{out}, nil
}

type availabilityInput struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Node      string `query:"node" maxLength:"253"`
	Check     string `query:"check" maxLength:"253"`
	Group     string `query:"group" maxLength:"253" doc:"Only nodes of this group."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels of the node: env=prod,tier!=db"`
	Where     string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.* as it is now"`
	Period
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}

func (s *server) listAvailability(ctx context.Context, in *availabilityInput) (*body[v1.AvailabilityList], error) {
	if now := s.Now(); in.Until.IsZero() || in.Until.After(now) {
		in.Until = now
	}
	if in.Since.IsZero() {
		in.Since = in.Until.AddDate(0, 0, -1)
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	n, err := s.narrow(&overNodeRows, NarrowInput{Where: in.Where})
	if err != nil {
		return nil, err
	}
	filter := FilterInput{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Selector: in.Selector}
	out := v1.AvailabilityList{Since: in.Since, Until: in.Until, Items: []v1.Availability{}}
	if revision, part, ok := s.deletedToken(in.After); ok {
		err := s.availabilityOfDeleted(ctx, &filter, n, in.Period, revision, part, &out)
		return &body[v1.AvailabilityList]{out}, err
	}
	page, err := s.eventPage(ctx, &filter, in.Group, in.Since, in.Limit, in.After)
	if err != nil {
		return nil, err
	}
	out.Next = page.Next
	for i := range page.States {
		one, err := s.availability(ctx, &page.States[i], in.Period)
		if err != nil {
			return nil, err
		}
		if n.picks(page.States[i].Node, func() any { return &one }) {
			out.Items = append(out.Items, one)
		}
	}
	return &body[v1.AvailabilityList]{out}, nil
}

// eventPage is a page of the events that are; the page after the last is of nodes that went since a
// time. Of groups, nobody knows who was in them.
func (s *server) eventPage(ctx context.Context, filter *FilterInput, group string, since time.Time, limit int, after string) (event.Page, error) {
	q, err := s.query(ctx, filter)
	if err != nil && filter.Node != "" && model.ClassOf(err) == model.NotFound {
		if list, _, wrong := s.deletedNodes(ctx, &FilterInput{Namespace: filter.Namespace, Node: filter.Node}, since, 0, 0); wrong == nil && len(list) > 0 {
			return event.Page{Next: s.next(deletedPrefix + "0.0")}, nil
		}
	}
	if err != nil {
		return event.Page{}, err
	}
	if err := s.boundToGroup(ctx, &q, filter.Namespace, group); err != nil {
		return event.Page{}, err
	}
	q.Limit, q.After = limit, after
	page, err := s.Events.List(ctx, q)
	if err == nil && page.Next == "" && group == "" {
		page.Next = s.next(deletedPrefix + "0.0")
	}
	return page, err
}

// spell is a time in which an event was one thing.
type spell struct {
	from, until time.Time
	was         pastStatus
}

// spellsOf are those of an event in a period, in order and without holes; changes are its
// changes since the period began, oldest first.
func spellsOf(p Period, was pastStatus, changes []history.Entry) []spell {
	out := []spell{{from: p.Since, was: was}}
	for i := range changes {
		e := &changes[i]
		if !e.At.Before(p.Until) {
			break
		}
		out[len(out)-1].until = e.At
		out = append(out, spell{from: e.At, was: pastStatus{true, e.Status, e.At, e.Output}})
	}
	out[len(out)-1].until = p.Until
	return out
}

// spells are those of an event that is.
func (s *server) spells(ctx context.Context, st *event.State, check string, p Period) ([]spell, error) {
	var changes []history.Entry
	var err error
	if moment(st.Changed).After(p.Since) { // else it is what it was all the time
		if changes, err = s.changesOf(ctx, st.Node, check, p.Since.Add(1), time.Time{}); err != nil {
			return nil, err
		}
	}
	was, err := s.before(ctx, st, check, p.Since, changes)
	if err != nil {
		return nil, err
	}
	return spellsOf(p, was, changes), nil
}

// availability is how long one event had which status.
func (s *server) availability(ctx context.Context, st *event.State, p Period) (v1.Availability, error) {
	name := s.event(st)
	out := v1.Availability{Namespace: name.Namespace, Node: name.Node, Check: name.Check}
	spells, err := s.spells(ctx, st, name.Check, p)
	if err == nil {
		sumUp(&out, spells)
	}
	return out, err
}

func sumUp(out *v1.Availability, spells []spell) {
	for _, one := range spells {
		addDuration(out, one.was, one.until.Sub(one.from))
	}
	out.Changes = len(spells) - 1
}

func addDuration(out *v1.Availability, was pastStatus, d time.Duration) {
	into := &out.Nothing
	if was.known {
		into = [...]*float64{&out.OK, &out.Warning, &out.Critical, &out.Unknown}[was.status&3]
	}
	*into += d.Seconds()
}
