package nodes

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

func registerJoinTokens(at subject) {
	op.Handle(at, op.Get("authority", "/api/v1/ca", "nodes", "The server's CA, by which machines know it", model.NotFound), access.ByAnybody("server"), (*request).authority)
	op.Handle(at, op.Get("listJoinTokens", "/api/v1/jointokens", "nodes", "List tokens with which machines join"), access.On(access.Read, "jointoken"), (*request).listJoinTokens)
	op.Handle(at, op.Post("createJoinToken", "/api/v1/jointokens", "nodes", "Make one; it is shown once", model.NotFound), access.On(access.Change, "jointoken"), (*request).createJoinToken)
	op.Handle(at, op.Delete("deleteJoinToken", "/api/v1/jointokens/{id}", "nodes", "Take one back; nodes that joined with it stay"), access.On(access.Change, "jointoken"), (*request).deleteJoinToken)
}

// authority is public: it lets a machine recognize the server, and no more.
func (s *request) authority(context.Context, *op.Empty) (*op.Body[v1.Authority], error) {
	if s.CA == nil {
		return nil, model.Errorf(model.NotFound, "this server has no CA")
	}
	return op.Answer(s.CA()), nil
}

func (s *request) listJoinTokens(ctx context.Context, in *list.Labelled) (*op.Body[v1.JoinTokenList], error) {
	tokens, err := s.JoinTokens.List(ctx)
	if err != nil {
		return nil, err
	}
	items := []v1.JoinToken{}
	for _, t := range tokens {
		if s.Sees(t.Namespace) {
			items = append(items, joinTokenOf(t))
		}
	}
	if items, err = list.MatchingLabels(s.View, *in, items, func(t *v1.JoinToken) map[string]string { return t.Labels }); err != nil {
		return nil, err
	}
	return op.Answer(v1.JoinTokenList{Items: items}), nil
}

func joinTokenOf(t pki.JoinToken) v1.JoinToken {
	return v1.JoinToken{
		ID: t.ID, Namespace: t.Namespace, Groups: t.Groups, Labels: t.Labels, Lifecycle: t.Lifecycle, Replace: t.Replace, Node: t.Node, Expires: t.Expires,
		MaxUses: t.MaxUses, Uses: t.Uses, Created: t.Created, By: t.By, Note: t.Note,
	}
}

func (s *request) createJoinToken(ctx context.Context, in *struct{ Body v1.JoinTokenRequest }) (*op.Body[v1.JoinToken], error) {
	r := in.Body
	if r.Namespace == "" {
		r.Namespace = model.DefaultNamespaceName
	}
	if err := s.RequireNamespace(ctx, r.Namespace); err != nil {
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

// newJoinToken creates a token by the caller that expires after so many seconds; 0: never.
func (s *request) newJoinToken(ctx context.Context, keep pki.JoinToken, seconds int64) (*op.Body[v1.JoinToken], error) {
	keep.By = access.CallerOf(ctx).User
	if seconds > 0 {
		keep.Expires = s.Now().Add(time.Duration(seconds) * time.Second).UTC()
	}
	token, keep, err := s.NewJoinToken(keep)
	if err != nil {
		return nil, err
	}
	if err := s.JoinTokens.Create(ctx, access.Author(ctx, "join token created"), keep); err != nil {
		return nil, err
	}
	out := joinTokenOf(keep)
	out.Token = token.String()
	return op.Answer(out), nil
}

func (s *request) deleteJoinToken(ctx context.Context, in *op.IDPath) (*op.Empty, error) {
	list, err := s.JoinTokens.List(ctx)
	if err != nil {
		return nil, err
	}
	err = model.Errorf(model.NotFound, "hidden")
	if !slices.ContainsFunc(list, func(t pki.JoinToken) bool { return t.ID == in.ID && !s.Sees(t.Namespace) }) {
		err = s.JoinTokens.Delete(ctx, access.Author(ctx, "join token deleted"), in.ID)
	}
	if model.ClassOf(err) == model.NotFound {
		return nil, model.Errorf(model.NotFound, "there is no join token %s", in.ID).WithHint("what there is: muster node token list")
	}
	return nil, err
}
