package api

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

type changesInput struct {
	Kind      string `query:"kind" maxLength:"253"`
	Namespace string `query:"namespace" maxLength:"253"`
	Name      string `query:"name" maxLength:"253"`
	WhereInput
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	After string `query:"after" maxLength:"64" doc:"The next of the page before."`
}

func (s *server) changes(ctx context.Context, in *changesInput) (*body[v1.ChangeList], error) {
	n, err := s.narrowRows(in.WhereInput)
	if err != nil {
		return nil, err
	}
	q := intent.ChangeQuery{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name, Bodies: true}
	if k, ok := s.Kinds.Of(in.Kind); ok {
		q.Kind = k.Name
	}
	if in.After != "" {
		text, err := s.after(in.After)
		if err != nil {
			return nil, err
		}
		revision, part, ok := strings.Cut(text, ".")
		var err1, err2 error
		q.Revision, err1 = strconv.ParseInt(revision, 10, 64)
		q.Part, err2 = strconv.Atoi(part)
		if !ok || err1 != nil || err2 != nil || q.Revision <= 0 {
			return nil, noToken()
		}
	}
	read := func(behind *intent.AuditEntry, size int) ([]intent.AuditEntry, error) {
		if q.Limit = size; behind != nil {
			q.Revision, q.Part = behind.Revision, behind.Part
		}
		return s.Intent.Audit(ctx, q, !mayChange(ctx, in.Namespace))
	}
	items, behind, err := paged(s, n, in.Limit, read, func(e *intent.AuditEntry) (model.NodeID, v1.Change) { return 0, changeOf(e) })
	if err != nil {
		return nil, err
	}
	out := v1.ChangeList{Items: items}
	if behind != nil {
		out.Next = s.next(fmt.Sprintf("%d.%d", behind.Revision, behind.Part))
	}
	return &body[v1.ChangeList]{out}, nil
}

func changeOf(e *intent.AuditEntry) v1.Change {
	return v1.Change{
		Revision: e.Revision, At: e.At, User: e.Who.User, Whence: e.Who.Whence, Message: e.Who.Why, Owner: e.Who.Owner,
		Kind: e.Key.Kind, Namespace: e.Key.Namespace, Name: e.Key.Name, Op: e.Op, Was: e.Was, Diff: e.Diff,
	}
}
