// Package reports sums history up: messages that shadow namespaces would have sent, and noise
// (what paged people, which checks never fail, which silences are stale).
//
// A report reads many rows; a limiter bounds the number of concurrent reports.
//
// Start reading at Register.
package reports

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// historyGapNotes returns notes about the parts of a report's period for which history has no data.
func (s *reportRequest) historyGapNotes(ctx context.Context, since time.Time) (notes []string, err error) {
	if kept := s.Now().Add(-s.Retention); s.Retention > 0 && since.Before(kept) {
		notes = append(notes, fmt.Sprintf("history covers %s (--history-retention): data before %s is missing or incomplete", model.Duration(s.Retention), kept.UTC().Format(time.RFC3339)))
	}
	oldest, err := s.History.Oldest(ctx)
	switch {
	case err != nil:
		return nil, err
	case oldest.IsZero():
		notes = append(notes, "history is empty")
	case oldest.After(since):
		notes = append(notes, fmt.Sprintf("history starts at %s: it has no data before", oldest.UTC().Format(time.RFC3339)))
	}
	return notes, nil
}

// ReportInput has the namespace and the period, the parameters of every report.
type ReportInput struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	list.Period
}

// completePeriod checks that the report's namespace exists, and completes the report's period. It also sets a missing
// start or end of the period.
func (s *reportRequest) completePeriod(ctx context.Context, in *ReportInput, length time.Duration) error {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return err
	}
	return in.Period.Complete(s.Now(), length)
}

// reportShadow returns the notifications that namespaces in shadow mode did not send. A namespace in shadow mode
// notifies nobody.
func (s *reportRequest) reportShadow(ctx context.Context, in *struct {
	ReportInput
	list.Where
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.ShadowList], error) {
	if err := s.completePeriod(ctx, &in.ReportInput, 7*24*time.Hour); err != nil {
		return nil, err
	}
	filter, err := list.NewRowFilter(ctx, s.View, in.Where)
	if err != nil {
		return nil, err
	}
	out := v1.ShadowList{Since: in.Since, Until: in.Until}
	if in.After == "" {
		if out.Notes, err = s.shadowNotes(ctx, in.Namespace, in.Since); err != nil {
			return nil, err
		}
	}
	q := history.MessageQuery{Namespace: in.Namespace, Shadow: true, Since: in.Since, Until: in.Until}
	out.Items, out.Next, err = list.ReadPage(s.View, list.PagedRows[history.Message]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) (_ []history.Message, err error) {
			if q.Limit = size; !behind.IsZero() {
				q.Until = behind.Time()
				if q.BeforeID, err = behind.IntID(); err != nil {
					return nil, err
				}
			}
			return s.History.Messages(ctx, q)
		},
		Cursor: func(m *history.Message) list.Cursor { return list.TimeCursor(m.Ended, m.ID) },
	}, func(m *history.Message) (model.NodeID, v1.ShadowMessage) { return 0, s.showShadowMessage(m) })
	return op.Answer(out), err
}

// shadowNotes returns notes about missing history and about namespaces that are not in shadow mode.
func (s *reportRequest) shadowNotes(ctx context.Context, namespace string, since time.Time) ([]string, error) {
	notes, err := s.historyGapNotes(ctx, since)
	if err != nil {
		return nil, err
	}
	shadows := 0
	spaces, err := s.Intent.List(ctx, intent.ListQuery{Kind: "Namespace"}, nil)
	if err != nil {
		return nil, err
	}
	for i := range spaces {
		switch ns := spaces[i].Metadata.Name; {
		case spaces[i].Spec.(*model.NamespaceSpec).Notifications == model.NotificationsShadow:
			shadows++
		case ns == namespace:
			notes = append(notes, fmt.Sprintf("namespace %s sends its messages now: this list has only messages from its time as a shadow", ns))
		}
	}
	if shadows == 0 && namespace == "" {
		notes = append(notes, "no namespace has notifications: shadow now: this list has only messages from before")
	}
	return notes, nil
}

// showShadowMessage converts a notification that a shadow namespace did not send to the API type ShadowMessage
func (s *reportRequest) showShadowMessage(m *history.Message) v1.ShadowMessage {
	out := v1.ShadowMessage{At: m.Ended, Handler: handlerName(m.Handler), Route: m.Route, Event: m.Event, Namespace: m.Namespace, Node: m.Node, Check: m.SourceKind.Label(m.SourceName), Source: v1.Source{Kind: m.SourceKind.String(), Name: m.SourceName}, Problem: m.Problem, Count: m.Count}
	if n, err := handler.Decode(m.Payload); err == nil && s.SeesNamespace(n.Space) { // node and check of the first problem in the message, which is the worst
		out.Namespace, out.Node, out.Check, out.Opened = n.Space, n.Node, n.Source.Kind.Label(n.Source.Name), n.Opened
		out.Status, out.Severity, out.Summary, out.Source = n.Status, n.Severity, n.Summary, events.ShowSource(n.Source.Source, n.Source.Name)
	}
	return out
}

// handlerName formats the name of a handler as NAMESPACE/NAME.
func handlerName(h history.HandlerRef) string { return strings.TrimPrefix(h.Namespace+"/"+h.Name, "/") }

// Options has the parts of the server from which reports are made.
type Options struct {
	Retention time.Duration // age of the oldest history; 0: unknown
}

// reportRequest handles an HTTP request for a report. Its methods are the operations of the API.
type reportRequest struct {
	op.Request
	Options
	reports *op.RequestLimiter
}

// Register adds the API operations about reports to the server.
func Register(r *op.Routes, o Options) {
	reports := op.NewRequestLimiter(r, "reports", "reports", model.Errorf(model.Unavailable, "too many report requests wait on the server").WithHint("try again in a moment"))
	at := op.NewOperationSet(r, func(q op.Request) *reportRequest { return &reportRequest{q, o, reports} })
	op.Handle(at, op.Get("reportShadow", "/api/v1/reports/shadow", "reports", "List messages of shadow namespaces, newest first", model.NotFound), access.NeedOn(access.Read, "report"), (*reportRequest).reportShadow)
	op.Handle(at, op.Get("reportNoise", "/api/v1/reports/noise", "reports", "Report on noise: messages by check and route, quiet checks, stale silences", model.NotFound), access.NeedOn(access.Read, "report"), (*reportRequest).reportNoise)
}
