package api

import (
	"context"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
)

type changesInput struct {
	Kind      string `query:"kind" maxLength:"253"`
	Namespace string `query:"namespace" maxLength:"253"`
	Name      string `query:"name" maxLength:"253"`
	Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	After     string `query:"after" maxLength:"64" doc:"The next of the page before."`
}

func (s *server) changes(ctx context.Context, in *changesInput) (*body[v1.ChangeList], error) {
	wanted := func(e *intent.AuditEntry) bool {
		return (in.Kind == "" || strings.EqualFold(in.Kind, e.Key.Kind)) &&
			(in.Namespace == "" || in.Namespace == e.Key.Namespace) && (in.Name == "" || in.Name == e.Key.Name)
	}
	before := int64(0)
	if in.After != "" {
		text, err := s.after(in.After)
		if err != nil {
			return nil, err
		}
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before <= 0 {
			return nil, noToken()
		}
	}
	list, err := s.changesBefore(ctx, before, in.Limit, wanted)
	if err != nil {
		return nil, err
	}
	return &body[v1.ChangeList]{list}, nil
}

const (
	changeWindow    = 500  // revisions read at once
	changeWindowMax = 20   // windows looked through for one page: the rest is for the next
	changesAtMost   = 5000 // changes of one window; one apply may hold more, then it is cut
)

// changesBefore walks back from a revision (0: from the newest) and collects what is
// wanted, newest first. All changes of a revision stay on one page.
func (s *server) changesBefore(ctx context.Context, before int64, limit int, wanted func(*intent.AuditEntry) bool) (v1.ChangeList, error) {
	out := v1.ChangeList{Items: []v1.Change{}}
	if before == 0 {
		newest, err := s.Intent.Store().Revision(ctx)
		if err != nil {
			return out, err
		}
		before = newest + 1
	}
	for range changeWindowMax {
		if before <= 1 {
			return out, nil
		}
		after := max(before-1-changeWindow, 0)
		entries, err := s.Intent.Audit(ctx, after, changesAtMost, !mayChange(ctx))
		if err != nil {
			return out, err
		}
		for i := len(entries) - 1; i >= 0; i-- {
			e := &entries[i]
			if e.Revision >= before || !wanted(e) {
				continue
			}
			if n := len(out.Items); n >= limit && out.Items[n-1].Revision != e.Revision {
				out.Next = s.next(strconv.FormatInt(out.Items[n-1].Revision, 10))
				return out, nil
			}
			out.Items = append(out.Items, changeOf(e))
		}
		before = after + 1
	}
	if before > 1 {
		out.Next = s.next(strconv.FormatInt(before, 10))
	}
	return out, nil
}

func changeOf(e *intent.AuditEntry) v1.Change {
	return v1.Change{
		Revision: e.Revision, At: e.At, User: e.Who.User, Whence: e.Who.Whence, Message: e.Who.Why,
		Kind: e.Key.Kind, Namespace: e.Key.Namespace, Name: e.Key.Name, Op: e.Op, Diff: e.Diff,
	}
}
