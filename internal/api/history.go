package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

func (s *server) historyRoutes() {
	handle(s, withErrors(operation("listHistory", http.MethodGet, "/api/v1/history", "events", "List what happened, newest first"), model.NotFound), access.On(access.Read, "event"), (*server).listHistory)
	handle(s, withErrors(operation("listPastEvents", http.MethodGet, "/api/v1/history/events", "events", "List events as they were at a time"), model.NotFound), access.On(access.Read, "event"), (*server).listPastEvents)
	handle(s, withErrors(operation("listAvailability", http.MethodGet, "/api/v1/availability", "events", "How long events had which status"), model.NotFound), access.On(access.Read, "event"), (*server).listAvailability)
	handle(s, withErrors(operation("groupAvailability", http.MethodGet, "/api/v1/availability/groups", "events", "For which part of a time the nodes of groups were up"), model.NotFound), access.On(access.Read, "event"), (*server).groupAvailability)
}

// Period is a span of time that a question is about.
type Period struct {
	Since time.Time `query:"since" doc:"From this time on (RFC 3339)."`
	Until time.Time `query:"until" doc:"Before this time."`
}

func (p Period) check() error {
	if !p.Since.IsZero() && !p.Until.IsZero() && !p.Since.Before(p.Until) {
		return model.Errorf(model.Invalid, "since %s is not before until %s", p.Since.Format(time.RFC3339), p.Until.Format(time.RFC3339))
	}
	return nil
}

type listHistoryInput struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Node      string `query:"node" maxLength:"253" doc:"As it is called now, or, of one that is gone, as it was called."`
	Check     string `query:"check" maxLength:"253"`
	NarrowInput
	Period
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}

func (s *server) listHistory(ctx context.Context, in *listHistoryInput) (*body[v1.EntryList], error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	n, err := s.narrow(&overNodeRows, in.NarrowInput)
	if err != nil {
		return nil, err
	}
	q := history.EntryQuery{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Since: in.Since, Before: in.Until}
	there := in.Node == ""
	if id, ok := s.Directory.NodeByName(in.Namespace, in.Node); ok { // also what it had under another name
		q.Namespace, q.Node, q.NodeID, there = "", "", id, true
	}
	if in.After != "" {
		if q.Before, q.BeforeID, err = s.entryPlace(in.After); err != nil {
			return nil, err
		}
	}
	read := func(behind *history.Entry, size int) ([]history.Entry, error) {
		if q.Limit = size; behind != nil {
			q.Before, q.BeforeID = behind.At, behind.ID
		}
		entries, err := s.History.Entries(ctx, q)
		there = there || len(entries) > 0
		return entries, err
	}
	items, behind, err := paged(s, n, in.Limit, read, func(e *history.Entry) (model.NodeID, v1.Entry) { return e.NodeID, entryOf(e) })
	if err != nil {
		return nil, err
	}
	if !there && in.After == "" && in.Since.IsZero() && in.Until.IsZero() {
		return nil, s.noNode(ctx, in.Namespace, in.Node)
	}
	out := v1.EntryList{Items: items}
	if behind != nil {
		out.Next = s.next(strconv.FormatInt(behind.At.UnixNano(), 10) + "." + strconv.FormatInt(behind.ID, 10))
	}
	return &body[v1.EntryList]{out}, nil
}

// entryPlace is where the page before ended.
func (s *server) entryPlace(token string) (time.Time, int64, error) {
	place, err := s.after(token)
	if err != nil {
		return time.Time{}, 0, err
	}
	at, id, ok := strings.Cut(place, ".")
	ns, err1 := strconv.ParseInt(at, 10, 64)
	n, err2 := strconv.ParseInt(id, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return time.Time{}, 0, noToken()
	}
	return time.Unix(0, ns), n, nil
}

func entryOf(e *history.Entry) v1.Entry {
	out := v1.Entry{
		At: e.At, Executed: e.Executed, Kind: string(e.Kind), Namespace: e.Namespace, Node: e.Node, Check: checkOf(e.Source, e.SourceName), Source: sourceOf(e.Source, e.SourceName),
		Status: e.Status, StatusName: e.Status.String(), Output: e.Output, Count: e.Count, Expired: e.Expired,
	}
	if e.Kind == history.StatusChanged && !e.First {
		out.Previous = &e.Previous
	}
	return out
}
