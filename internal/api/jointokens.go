package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

func (s *server) joinTokenRoutes() {
	handle(s, withErrors(operation("authority", http.MethodGet, "/api/v1/ca", "nodes", "The server's CA, by which machines know it"), model.NotFound), access.ByAnybody("server"), (*server).authority)
	handle(s, operation("listJoinTokens", http.MethodGet, "/api/v1/jointokens", "nodes", "List tokens with which machines join"), access.On(access.Read, "jointoken"), (*server).listJoinTokens)
	handle(s, withErrors(operation("createJoinToken", http.MethodPost, "/api/v1/jointokens", "nodes", "Make one; it is shown once"), model.NotFound), access.On(access.Change, "jointoken"), (*server).createJoinToken)
	handle(s, operation("deleteJoinToken", http.MethodDelete, "/api/v1/jointokens/{id}", "nodes", "Take one back; nodes that joined with it stay"), access.On(access.Change, "jointoken"), (*server).deleteJoinToken)
}

// authority is public: who has it can tell the server from others, and no more.
func (s *server) authority(context.Context, *none) (*body[v1.Authority], error) {
	if s.CA == nil {
		return nil, model.Errorf(model.NotFound, "this server has no CA")
	}
	return &body[v1.Authority]{s.CA()}, nil
}

func (s *server) listJoinTokens(ctx context.Context, in *LabelledInput) (*body[v1.JoinTokenList], error) {
	list, err := s.JoinTokens.List(ctx)
	if err != nil {
		return nil, err
	}
	items := []v1.JoinToken{}
	for _, t := range list {
		if s.sees(t.Namespace) {
			items = append(items, joinTokenOf(t))
		}
	}
	if items, err = labelled(s, *in, items, func(t *v1.JoinToken) map[string]string { return t.Labels }); err != nil {
		return nil, err
	}
	return &body[v1.JoinTokenList]{v1.JoinTokenList{Items: items}}, nil
}

func joinTokenOf(t pki.JoinToken) v1.JoinToken {
	return v1.JoinToken{
		ID: t.ID, Namespace: t.Namespace, Groups: t.Groups, Labels: t.Labels, Lifecycle: t.Lifecycle, Replace: t.Replace, Node: t.Node, Expires: t.Expires,
		MaxUses: t.MaxUses, Uses: t.Uses, Created: t.Created, By: t.By, Note: t.Note,
	}
}

func (s *server) createJoinToken(ctx context.Context, in *struct{ Body v1.JoinTokenRequest }) (*body[v1.JoinToken], error) {
	r := in.Body
	if r.Namespace == "" {
		r.Namespace = model.DefaultNamespaceName
	}
	if err := s.namespaceIsThere(ctx, r.Namespace); err != nil {
		return nil, err
	}
	keep := pki.JoinToken{
		Namespace: r.Namespace, Groups: r.Groups, Labels: r.Labels, Lifecycle: r.Lifecycle, Replace: r.Replace, MaxUses: r.MaxUses, Note: r.Note,
	}
	if err := s.Intent.CheckJoinGrant(ctx, keep); err != nil {
		return nil, err
	}
	return s.newJoinToken(ctx, keep, r.ExpiresIn)
}

// newJoinToken makes a token of what is asked for, by the caller, for so many seconds; 0: for ever.
func (s *server) newJoinToken(ctx context.Context, keep pki.JoinToken, seconds int64) (*body[v1.JoinToken], error) {
	keep.By = callerOf(ctx).User
	if seconds > 0 {
		keep.Expires = s.Now().Add(time.Duration(seconds) * time.Second).UTC()
	}
	token, keep, err := s.NewJoinToken(keep)
	if err != nil {
		return nil, err
	}
	if err := s.JoinTokens.Create(ctx, author(ctx, "join token created"), keep); err != nil {
		return nil, err
	}
	out := joinTokenOf(keep)
	out.Token = token.String()
	return &body[v1.JoinToken]{out}, nil
}

func (s *server) deleteJoinToken(ctx context.Context, in *idPath) (*none, error) {
	list, err := s.JoinTokens.List(ctx)
	if err != nil {
		return nil, err
	}
	err = model.Errorf(model.NotFound, "hidden")
	if !slices.ContainsFunc(list, func(t pki.JoinToken) bool { return t.ID == in.ID && !s.sees(t.Namespace) }) {
		err = s.JoinTokens.Delete(ctx, author(ctx, "join token deleted"), in.ID)
	}
	if model.ClassOf(err) == model.NotFound {
		return nil, model.Errorf(model.NotFound, "there is no join token %s", in.ID).WithHint("what there is: muster node token list")
	}
	return nil, err
}
