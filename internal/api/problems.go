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

func (s *server) problemRoutes() {
	handle(s, operation("listProblems", http.MethodGet, "/api/v1/problems", "problems", "List problems, newest first"), access.On(access.Read, "problem"), (*server).listProblems)
	handle(s, operation("getProblem", http.MethodGet, "/api/v1/problems/{id}", "problems", "Get one"), access.On(access.Read, "problem"), (*server).getProblem)
	handle(s, operation("listDeliveries", http.MethodGet, "/api/v1/problems/{id}/deliveries", "problems", "Who was told of it"), access.On(access.Read, "problem"), (*server).listDeliveries)
}

type listProblemsInput struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Node      string `query:"node" maxLength:"253"`
	Check     string `query:"check" maxLength:"253"`
	Open      bool   `query:"open" doc:"Only those that are open."`
	NarrowInput
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}

func (s *server) listProblems(ctx context.Context, in *listProblemsInput) (*body[v1.ProblemList], error) {
	n, err := s.narrow(&overNodeRows, in.NarrowInput)
	if err != nil {
		return nil, err
	}
	q := history.ProblemQuery{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Open: in.Open}
	if id, ok := s.Directory.NodeByName(in.Namespace, in.Node); ok { // also what it had under another name
		q.Namespace, q.Node, q.NodeID = "", "", id
	}
	if in.After != "" {
		place, err := s.after(in.After)
		if err != nil {
			return nil, err
		}
		text, id, ok := strings.Cut(place, ".")
		ns, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			return nil, noToken()
		}
		q.Before, q.BeforeID = time.Unix(0, ns), id
	}
	read := func(behind *history.Problem, size int) ([]history.Problem, error) {
		if q.Limit = size; behind != nil {
			q.Before, q.BeforeID = behind.Opened, behind.ID
		}
		return s.History.Problems(ctx, q)
	}
	items, behind, err := paged(s, n, in.Limit, read, func(p *history.Problem) (model.NodeID, v1.Problem) { return p.NodeID, s.problemOf(*p) })
	if err != nil {
		return nil, err
	}
	out := v1.ProblemList{Items: items}
	if behind != nil {
		out.Next = s.next(strconv.FormatInt(behind.Opened.UnixNano(), 10) + "." + behind.ID)
	}
	return &body[v1.ProblemList]{out}, nil
}

func (s *server) getProblem(ctx context.Context, in *idPath) (*body[v1.Problem], error) {
	p, err := s.History.Problem(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &body[v1.Problem]{s.problemOf(p)}, nil
}

// problemOf names the node as it is called now, if it is still there. While a problem is
// open, what its worst is so far is known to the view; history learns it at its end.
func (s *server) problemOf(p history.Problem) v1.Problem {
	if _, name, ok := s.Directory.NodeName(p.NodeID); ok {
		p.Node = name
	}
	if p.Closed.IsZero() {
		if st, ok := s.Events.Get(p.NodeID, p.Source.Check()); ok && st.Problem != nil && st.Problem.ID == p.ID {
			p.Status, p.Severity, p.Ack = st.Problem.Status, st.Problem.Severity, st.Problem.Ack
		}
	}
	return v1.Problem{OpenProblem: *s.openProblem(p.Problem, p.SourceName), Namespace: p.Namespace, Node: p.Node,
		Check: checkOf(p.Source, p.SourceName)}
}

func sourceOf(s model.Source, name string) v1.Source {
	return v1.Source{Kind: s.Kind.String(), Name: name, ID: s.ID, Instance: s.Instance}
}

// checkOf returns the name of a source that is a check; empty: it is none.
func checkOf(s model.Source, name string) string {
	if s.Kind != model.SourceCheck {
		return ""
	}
	return name
}

func (s *server) listDeliveries(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"253"`
	WhereInput
}) (*body[v1.DeliveryList], error) {
	list, err := s.History.Deliveries(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	items := make([]v1.Delivery, len(list))
	for i := range list {
		items[i] = deliveryOf(&list[i])
	}
	if items, err = theseRows(s, in.WhereInput, items); err != nil {
		return nil, err
	}
	return &body[v1.DeliveryList]{v1.DeliveryList{Items: items}}, nil
}

func deliveryOf(d *history.Delivery) v1.Delivery {
	return v1.Delivery{
		ID: d.ID, Problem: d.Problem, Namespace: d.Handler.Namespace, Handler: d.Handler.Name, Kind: d.Kind,
		State: string(d.State), Attempts: d.Attempts, Created: d.Created, NextAt: d.NextAt, LastError: d.LastError, Ended: d.Ended, Replayed: d.Replayed,
	}
}
