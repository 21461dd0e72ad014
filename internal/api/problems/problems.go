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

func registerProblems(at subject) {
	op.Handle(at, op.Get("listProblems", "/api/v1/problems", "problems", "List problems, newest first"), access.On(access.Read, "problem"), (*request).listProblems)
	op.Handle(at, op.Get("getProblem", "/api/v1/problems/{id}", "problems", "Get one"), access.On(access.Read, "problem"), (*request).getProblem)
}

func (s *request) listProblems(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Node      string `query:"node" maxLength:"253"`
	Check     string `query:"check" maxLength:"253"`
	Open      bool   `query:"open" doc:"Only those that are open."`
	list.OfNode
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}) (*op.Body[v1.ProblemList], error) {
	filter, err := list.ByNode(s.View, in.OfNode)
	if err != nil {
		return nil, err
	}
	q := history.ProblemQuery{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Open: in.Open}
	if id, ok := s.Directory.NodeByName(in.Namespace, in.Node); ok { // also problems under older names of the node
		q.Namespace, q.Node, q.NodeID = "", "", id
	}
	items, next, err := list.Page(s.View, list.Rows[history.Problem]{
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

func (s *request) getProblem(ctx context.Context, in *op.IDPath) (*op.Body[v1.Problem], error) {
	p, err := s.History.Problem(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return op.Answer(s.showProblem(p)), nil
}

// showProblem names the node by its present name, if it exists. The event view knows the worst status
// of an open problem so far; history learns it when the problem closes.
func (s *request) showProblem(p history.Problem) v1.Problem {
	if _, name, ok := s.Directory.NodeName(p.NodeID); ok {
		p.Node = name
	}
	if p.Closed.IsZero() {
		if st, ok := s.Events.Get(p.NodeID, p.Source.Check()); ok && st.Problem != nil && st.Problem.ID == p.ID {
			p.Status, p.Severity, p.Ack = st.Problem.Status, st.Problem.Severity, st.Problem.Ack
		}
	}
	return v1.Problem{OpenProblem: *events.ShowProblem(s.View, p.Problem, p.SourceName), Namespace: p.Namespace, Node: p.Node,
		Check: events.CheckName(p.Source, p.SourceName)}
}
