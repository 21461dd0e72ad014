package resources

import (
	"context"
	"strconv"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

type changesInput struct {
	Kind      string `query:"kind" maxLength:"253"`
	Namespace string `query:"namespace" maxLength:"253"`
	Name      string `query:"name" maxLength:"253"`
	list.Where
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	After string `query:"after" maxLength:"64" doc:"The next of the page before."`
}

func (s *request) changes(ctx context.Context, in *changesInput) (*op.Body[v1.ChangeList], error) {
	filter, err := list.ByRow(s.View, in.Where)
	if err != nil {
		return nil, err
	}
	q := intent.ChangeQuery{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name, Bodies: true}
	if k, ok := s.Kinds.Of(in.Kind); ok {
		q.Kind = k.Name
	}
	items, next, err := list.Page(s.View, list.Rows[intent.AuditEntry]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) ([]intent.AuditEntry, error) {
			part, err := behind.IntID()
			if err != nil {
				return nil, err
			}
			q.Revision, q.Part, q.Limit = behind.Number, int(part), size
			return s.Intent.Audit(ctx, q, !access.MayChange(ctx, in.Namespace))
		},
		Cursor: func(e *intent.AuditEntry) list.Cursor {
			return list.Cursor{Number: e.Revision, ID: strconv.Itoa(e.Part)}
		},
	}, func(e *intent.AuditEntry) (model.NodeID, v1.Change) { return 0, ShowChange(e) })
	return op.Answer(v1.ChangeList{Items: items, Next: next}), err
}

// ShowChange converts an entry of the record of changes.
func ShowChange(e *intent.AuditEntry) v1.Change {
	return v1.Change{
		Revision: e.Revision, At: e.At, User: e.Who.User, Whence: e.Who.Whence, Message: e.Who.Why, Owner: e.Who.Owner,
		Kind: e.Key.Kind, Namespace: e.Key.Namespace, Name: e.Key.Name, Op: e.Op, Was: e.Was, Diff: e.Diff,
	}
}
