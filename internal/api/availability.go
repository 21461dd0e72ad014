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
// first change after a time it was what that change calls previous. Events that are gone
// are not told of.

// past is what an event was at a time; not known: there was no result yet, or history does
// not reach back so far.
type past struct {
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
func (s *server) before(ctx context.Context, st *event.State, check string, at time.Time, after []history.Entry) (past, error) {
	if changed := moment(st.Changed); st.Changed != 0 && !changed.After(at) {
		return past{true, st.Status, changed, st.Output}, nil
	}
	if len(after) > 0 && after[0].First {
		return past{}, nil
	}
	last, err := s.History.Entries(ctx, history.EntryQuery{NodeID: st.Node, Check: check, Kind: history.StatusChanged, Before: at.Add(1), Limit: 1})
	if err != nil {
		return past{}, err
	}
	if len(last) > 0 {
		return past{true, last[0].Status, last[0].At, last[0].Output}, nil
	}
	if len(after) > 0 {
		return past{known: true, status: after[0].Previous}, nil
	}
	return past{}, nil
}

type pastEventsInput struct {
	At        time.Time `query:"at" required:"true" doc:"RFC 3339"`
	Namespace string    `query:"namespace" maxLength:"253"`
	Node      string    `query:"node" maxLength:"253"`
	Check     string    `query:"check" maxLength:"253"`
	Selector  string    `query:"selector" maxLength:"4096" doc:"Labels of the node: env=prod,tier!=db"`
	Limit     int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After     string    `query:"after" maxLength:"1024" doc:"The next of the page before."`
}

func (s *server) listPastEvents(ctx context.Context, in *pastEventsInput) (*body[v1.PastEventList], error) {
	if in.At.After(s.Now()) {
		return nil, model.Errorf(model.Invalid, "at %s has not come yet", in.At.Format(time.RFC3339))
	}
	q, err := s.query(ctx, &FilterInput{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Selector: in.Selector})
	if err != nil {
		return nil, err
	}
	q.Limit, q.After = in.Limit, in.After
	page, err := s.Events.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := v1.PastEventList{At: in.At, Items: []v1.PastEvent{}, Next: page.Next}
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
		if was.known {
			out.Items = append(out.Items, v1.PastEvent{Namespace: name.Namespace, Node: name.Node, Check: name.Check,
				Status: was.status, StatusName: was.status.String(), Changed: was.changed, Output: was.output})
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
	q, err := s.query(ctx, &FilterInput{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Selector: in.Selector})
	if err != nil {
		return nil, err
	}
	if in.Group != "" {
		if q.Nodes == nil {
			q.Nodes = s.Directory.Nodes(in.Namespace)
		}
		if q.Nodes, err = s.membersAmong(ctx, q.Nodes, in.Namespace, in.Group); err != nil {
			return nil, err
		}
	}
	q.Limit, q.After = in.Limit, in.After
	page, err := s.Events.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := v1.AvailabilityList{Since: in.Since, Until: in.Until, Items: []v1.Availability{}, Next: page.Next}
	for i := range page.States {
		one, err := s.availability(ctx, &page.States[i], in.Period)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, one)
	}
	return &body[v1.AvailabilityList]{out}, nil
}

// availability is how long one event had which status.
func (s *server) availability(ctx context.Context, st *event.State, p Period) (v1.Availability, error) {
	name := s.event(st)
	out := v1.Availability{Namespace: name.Namespace, Node: name.Node, Check: name.Check}
	var changes []history.Entry
	var err error
	if moment(st.Changed).After(p.Since) { // else it is what it was all the time
		if changes, err = s.changesOf(ctx, st.Node, name.Check, p.Since.Add(1), time.Time{}); err != nil {
			return out, err
		}
	}
	was, err := s.before(ctx, st, name.Check, p.Since, changes)
	if err != nil {
		return out, err
	}
	from := p.Since
	for i := range changes {
		e := &changes[i]
		if !e.At.Before(p.Until) {
			break
		}
		lasted(&out, was, e.At.Sub(from))
		from, was = e.At, past{known: true, status: e.Status}
		out.Changes++
	}
	lasted(&out, was, p.Until.Sub(from))
	return out, nil
}

func lasted(out *v1.Availability, was past, d time.Duration) {
	into := &out.Nothing
	if was.known {
		into = [...]*float64{&out.OK, &out.Warning, &out.Critical, &out.Unknown}[was.status&3]
	}
	*into += d.Seconds()
}
