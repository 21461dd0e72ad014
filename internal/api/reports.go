package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

func (s *server) reportRoutes() {
	handle(s, withErrors(operation("reportShadow", http.MethodGet, "/api/v1/reports/shadow", "reports", "What namespaces that only show their messages would have sent, newest first"), model.NotFound), access.On(access.Read, "report"), (*server).reportShadow)
	handle(s, withErrors(operation("reportNoise", http.MethodGet, "/api/v1/reports/noise", "reports", "What called people, and what never does"), model.NotFound), access.On(access.Read, "report"), (*server).reportNoise)
}

// span fills in what a period leaves out: until now, and so long before.
func (s *server) span(p *Period, length time.Duration) error {
	if now := s.Now(); p.Until.IsZero() || p.Until.After(now) {
		p.Until = now
	}
	if p.Since.IsZero() {
		p.Since = p.Until.Add(-length)
	}
	return p.check()
}

// unknown says in words what history cannot tell of the time since then.
func (s *server) unknown(ctx context.Context, since time.Time) (notes []string, err error) {
	if kept := s.Now().Add(-s.Retention); s.Retention > 0 && since.Before(kept) {
		notes = append(notes, fmt.Sprintf("history is kept for %s (--history-retention): of what was before %s nothing or not all is known", model.Duration(s.Retention), kept.UTC().Format(time.RFC3339)))
	}
	oldest, err := s.History.Oldest(ctx)
	switch {
	case err != nil:
		return nil, err
	case oldest.IsZero():
		notes = append(notes, "history holds nothing yet")
	case oldest.After(since):
		notes = append(notes, fmt.Sprintf("the oldest change that history holds is of %s: nothing is known of what was before", oldest.UTC().Format(time.RFC3339)))
	}
	return notes, nil
}

// ReportInput is a namespace and a period.
type ReportInput struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Of the nodes. Empty: all."`
	Period
}

// look fills in and checks what a report is asked of.
func (s *server) look(ctx context.Context, in *ReportInput, length time.Duration) error {
	if in.Namespace != "" {
		if _, ok := s.Directory.NamespaceByName(in.Namespace); !ok {
			return s.noNamespace(ctx, in.Namespace)
		}
	}
	return s.span(&in.Period, length)
}

func (s *server) reportShadow(ctx context.Context, in *struct {
	ReportInput
	WhereInput
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}) (*body[v1.ShadowList], error) {
	if err := s.look(ctx, &in.ReportInput, 7*24*time.Hour); err != nil {
		return nil, err
	}
	n, err := s.narrowRows(in.WhereInput)
	if err != nil {
		return nil, err
	}
	out := v1.ShadowList{Since: in.Since, Until: in.Until}
	q := history.MessageQuery{Namespace: in.Namespace, Shadow: true, Since: in.Since, Until: in.Until}
	if in.After != "" {
		if q.Until, q.BeforeID, err = s.entryPlace(in.After); err != nil {
			return nil, err
		}
	} else {
		notes, err := s.shadowNotes(ctx, in.Namespace, in.Since)
		if err != nil {
			return nil, err
		}
		out.Notes = notes
	}
	read := func(behind *history.Message, size int) ([]history.Message, error) {
		if q.Limit = size; behind != nil {
			q.Until, q.BeforeID = behind.Ended, behind.ID
		}
		return s.History.Messages(ctx, q)
	}
	items, behind, err := paged(s, n, in.Limit, read, func(m *history.Message) (model.NodeID, v1.ShadowMessage) { return 0, s.shadowOf(m) })
	if err != nil {
		return nil, err
	}
	if out.Items = items; behind != nil {
		out.Next = s.next(strconv.FormatInt(behind.Ended.UnixNano(), 10) + "." + strconv.FormatInt(behind.ID, 10))
	}
	return &body[v1.ShadowList]{out}, nil
}

// shadowNotes also says which namespaces send what they have to say.
func (s *server) shadowNotes(ctx context.Context, namespace string, since time.Time) ([]string, error) {
	notes, err := s.unknown(ctx, since)
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
			notes = append(notes, fmt.Sprintf("namespace %s sends its messages now: what it only showed before is here, what it sent is not", ns))
		}
	}
	if shadows == 0 && namespace == "" {
		notes = append(notes, "no namespace says notifications: shadow now: what was only shown before is here, what is sent is not")
	}
	return notes, nil
}

func (s *server) shadowOf(m *history.Message) v1.ShadowMessage {
	out := v1.ShadowMessage{At: m.Ended, Handler: nameOf(m.Handler), Route: m.Route, Tells: m.Tells, Namespace: m.Namespace, Node: m.Node, Check: m.SourceKind.Label(m.SourceName), Problem: m.Problem, Count: m.Count}
	if n, err := handler.Decode(m.Payload); err == nil && s.sees(n.Space) { // its names are those of the worst, which is told first
		out.Namespace, out.Node, out.Check, out.Opened = n.Space, n.Node, n.Source.Kind.Label(n.Source.Name), n.Opened
		out.Status, out.Severity, out.Summary = n.Status, n.Severity, n.Summary
	}
	return out
}

func nameOf(h history.HandlerRef) string { return strings.TrimPrefix(h.Namespace+"/"+h.Name, "/") }
