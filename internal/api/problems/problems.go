// Package problems answers about problems and the history of events: changes of status, events at
// a past time, availability of checks, nodes and groups.
//
// The event view knows the present, the history store the changes. A past status is computed from both: the present
// one, and the changes after the time in question. Events of deleted nodes come last (deleted_node_events.go).
//
// Start reading at Register.
package problems

import (
	"context"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// listProblems returns a page of open and closed problems, newest first.
func (s *problemRequest) listProblems(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Node      string `query:"node" maxLength:"253"`
	Check     string `query:"check" maxLength:"253"`
	Open      bool   `query:"open" doc:"Only those that are open."`
	list.NodeRows
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.ProblemList], error) {
	filter, err := list.NewNodeRowFilter(ctx, s.View, in.NodeRows)
	if err != nil {
		return nil, err
	}
	check, err := s.EventName(ctx, in.Namespace, in.Check)
	if err != nil {
		return nil, err
	}
	q := history.ProblemQuery{Namespace: in.Namespace, Node: in.Node, Check: check, Open: in.Open}
	if id, ok := s.Directory.NodeByName(in.Namespace, in.Node); ok { // the id also finds problems that opened under older names of the node
		q.Namespace, q.Node, q.NodeID = "", "", id
	}
	items, next, err := list.ReadPage(s.View, list.PagedRows[history.Problem]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) ([]history.Problem, error) {
			if q.Limit = size; !behind.IsZero() {
				q.Before, q.BeforeID = behind.Time(), behind.ID
			}
			return s.History.Problems(ctx, q)
		},
		Cursor: func(p *history.Problem) list.Cursor { return list.Cursor{Number: p.Opened.UnixNano(), ID: p.ID} },
	}, func(p *history.Problem) (model.NodeID, v1.Problem) { return p.NodeID, s.showProblem(*p) })
	return op.Answer(v1.ProblemList{Items: items, Next: next}), err
}

// getProblem returns one open or closed problem by its id.
func (s *problemRequest) getProblem(ctx context.Context, in *op.IDPath) (*op.Body[v1.Problem], error) {
	p, err := s.History.Problem(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return op.Answer(s.showProblem(p)), nil
}

// showProblem converts a problem to the API type Problem, with the current name of its node. For an open problem the
// event view knows the worst status so far; history has the worst status of closed problems.
func (s *problemRequest) showProblem(p history.Problem) v1.Problem {
	if _, name, ok := s.Directory.NodeName(p.NodeID); ok {
		p.Node = name
	}
	if p.Closed.IsZero() {
		if st, ok := s.Events.Get(p.NodeID, p.Source); ok && st.Problem != nil && st.Problem.ID == p.ID {
			p.Status, p.Severity, p.Ack, p.Labels, p.Description = st.Problem.Status, st.Problem.Severity, st.Problem.Ack, st.Problem.Labels, st.Problem.Description
		}
	}
	return v1.Problem{OpenProblem: *events.ShowProblem(s.View, p.Problem, p.SourceName), Namespace: p.Namespace, Node: p.Node,
		Check: p.Source.CommandName(p.SourceName)}
}

// problemRequest handles an HTTP request about problems, history or availability. Its methods are the operations of
// the API.
type problemRequest struct{ op.Request }

// Register adds the API operations about problems, history and availability to the server.
func Register(r *op.Routes) {
	at := op.NewOperationSet(r, func(q op.Request) *problemRequest { return &problemRequest{q} })
	op.Handle(at, op.Get("listProblems", "/api/v1/problems", "problems", "List problems, newest first"), access.NeedOn(access.Read, "problem"), (*problemRequest).listProblems)
	op.Handle(at, op.Get("getProblem", "/api/v1/problems/{id}", "problems", "Get one"), access.NeedOn(access.Read, "problem"), (*problemRequest).getProblem)
	op.Handle(at, op.Get("getTimeline", "/api/v1/problems/{id}/timeline", "problems", "List what happened to a problem, oldest first: notifications, silences, acknowledgements"),
		access.NeedOn(access.Read, "problem"), (*problemRequest).getTimeline)
	read := access.NeedOn(access.Read, "event")
	op.Handle(at, op.Get("eventHistory", "/api/v1/events/{namespace}/{node}/{check}/history", "events", "List the history of one event, newest first"), read, (*problemRequest).getEventHistory)
	op.Handle(at, op.Get("listHistory", "/api/v1/history", "events", "List the history of events, newest first", model.NotFound), read, (*problemRequest).listHistory)
	op.Handle(at, op.Get("listPastEvents", "/api/v1/history/events", "events", "List events with their status at a past time", model.NotFound), read, (*problemRequest).listPastEvents)
	op.Handle(at, op.Get("listAvailability", "/api/v1/availability", "events", "Time of events in each status in a period", model.NotFound), read, (*problemRequest).listAvailability)
	op.Handle(at, op.Get("groupAvailability", "/api/v1/availability/groups", "events", "Share of uptime of the nodes of groups in a period", model.NotFound), read, (*problemRequest).listGroupAvailability)
}

// getEventHistory returns the newest history entries of an event.
func (s *problemRequest) getEventHistory(ctx context.Context, in *struct {
	events.Path
	list.Where
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
}) (*op.Body[v1.EntryList], error) {
	filter, err := list.NewRowFilter(ctx, s.View, in.Where)
	if err != nil {
		return nil, err
	}
	q := history.EntryQuery{Namespace: in.Namespace, Node: in.Node, Check: in.Check}
	s.queryByNodeID(&q)
	items, _, _, err := s.listEntries(ctx, q, list.PagedRows[history.Entry]{Limit: in.Limit, Filter: filter})
	return op.Answer(v1.EntryList{Items: items}), err
}

// listHistory returns a page of history entries of many events, newest first.
func (s *problemRequest) listHistory(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Node      string `query:"node" maxLength:"253" doc:"Its name now, or the last name of a deleted node."`
	Check     string `query:"check" maxLength:"253"`
	list.NodeRows
	list.Period
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.EntryList], error) {
	if err := in.Period.Validate(); err != nil {
		return nil, err
	}
	filter, err := list.NewNodeRowFilter(ctx, s.View, in.NodeRows)
	if err != nil {
		return nil, err
	}
	check, err := s.EventName(ctx, in.Namespace, in.Check)
	if err != nil {
		return nil, err
	}
	q := history.EntryQuery{Namespace: in.Namespace, Node: in.Node, Check: check, Since: in.Since, Before: in.Until}
	exists := s.queryByNodeID(&q) || in.Node == ""
	items, next, found, err := s.listEntries(ctx, q, list.PagedRows[history.Entry]{Limit: in.Limit, After: in.After, Filter: filter})
	if err != nil {
		return nil, err
	}
	if !exists && !found && in.After == "" && in.Since.IsZero() && in.Until.IsZero() {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
	}
	return op.Answer(v1.EntryList{Items: items, Next: next}), nil
}

// queryByNodeID replaces the node name in a history query by the node's id, which no rename changes. The id
// also finds entries from before a rename. false: no node has the name now.
func (s *problemRequest) queryByNodeID(q *history.EntryQuery) bool {
	id, ok := s.Directory.NodeByName(q.Namespace, q.Node)
	if ok {
		q.Namespace, q.Node, q.NodeID = "", "", id
	}
	return ok
}

// listEntries returns one page of the history entries that match a query. If any entry exists, even one that
// the filter removes, found is true.
func (s *problemRequest) listEntries(ctx context.Context, q history.EntryQuery, page list.PagedRows[history.Entry]) (items []v1.Entry, next string, found bool, err error) {
	page.Read = func(behind list.Cursor, size int) (entries []history.Entry, err error) {
		if q.Limit = size; !behind.IsZero() {
			q.Before = behind.Time()
			if q.BeforeID, err = behind.IntID(); err != nil {
				return nil, err
			}
		}
		entries, err = s.History.Entries(ctx, q)
		found = found || len(entries) > 0
		return entries, err
	}
	page.Cursor = func(e *history.Entry) list.Cursor { return list.TimeCursor(e.At, e.ID) }
	items, next, err = list.ReadPage(s.View, page, func(e *history.Entry) (model.NodeID, v1.Entry) { return e.NodeID, showEntry(e) })
	return items, next, found, err
}

// showEntry converts a history entry to the API type Entry
func showEntry(e *history.Entry) v1.Entry {
	out := v1.Entry{
		At: e.At, Executed: e.Executed, Kind: string(e.Kind), Namespace: e.Namespace, Node: e.Node, Check: e.Source.CommandName(e.SourceName), Source: events.ShowSource(e.Source, e.SourceName),
		Status: e.Status, StatusName: e.Status.String(), Output: e.Output, Count: e.Count, Expired: e.Expired,
	}
	if e.Kind == history.StatusChanged && !e.First {
		out.Previous = &e.Previous
	}
	return out
}
