package nodes

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/resources"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

func registerLifecycle(at subject) {
	rename := op.Post("renameNode", "/api/v1/nodes/{namespace}/{name}/rename", "nodes", "Give a node another name; it keeps its events and history", model.NotFound)
	op.Handle(at, op.ChangesResources(rename), access.On(access.Change, "Node"), (*request).renameNode)
	replace := op.Post("replaceNode", "/api/v1/nodes/{namespace}/{name}/replace", "nodes", "Make a token with which another machine becomes this node's; it is shown once", model.NotFound, model.Conflict)
	op.Handle(at, replace, access.On(access.Change, "Node"), (*request).replaceNode)
	retire := op.Post("retireNodes", "/api/v1/retire", "nodes", "Take nodes out of service, in one transaction", model.NotFound)
	retire.MaxBodyBytes = 8 << 20 // 10,000 names
	op.Handle(at, op.ChangesResources(retire), access.On(access.Change, "Node"), (*request).retireNodes)
	op.Handle(at, op.Get("listTombstones", "/api/v1/tombstones", "nodes", "Machines that are nodes no more, and why; the newest first"), access.On(access.Read, "tombstone"), (*request).tombstones)
	op.Handle(at, op.Delete("deleteTombstone", "/api/v1/tombstones/{id}", "nodes", "Take one away: its machine may ask to join", model.NotFound), access.On(access.Change, "tombstone"), (*request).deleteTombstone)
}

func (s *request) renameNode(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.NodeRename
}) (*op.Body[v1.Applied], error) {
	o := intent.ApplyOptions{DryRun: in.Body.DryRun, Yes: in.Body.Yes, MaxAffected: in.Body.MaxAffected}
	applied, err := s.Intent.Rename(ctx, access.Author(ctx, in.Body.Message), in.Namespace, in.Name, in.Body.To, o)
	if err != nil {
		return nil, s.NotFound(ctx, err, intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Name})
	}
	return op.Answer(resources.Applied(s.View, applied, in.Body.DryRun, nil)), nil
}

func (s *request) replaceNode(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.NodeReplace
}) (*op.Body[v1.JoinToken], error) {
	key := intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.NotFound(ctx, err, key)
	}
	uid, err := uuid.Parse(r.Spec.(*model.NodeSpec).UID)
	if err != nil {
		return nil, model.Errorf(model.Conflict, "%s has no machine yet that could be replaced", key).WithHint("let one join under that name: muster node token, and there muster-agent join TOKEN --name %s; if a trusted group holds the node: muster node accept KEY --name %s", in.Name, in.Name)
	}
	return s.newJoinToken(ctx, pki.JoinToken{Namespace: in.Namespace, Node: uid, MaxUses: 1, Note: in.Body.Message}, in.Body.ExpiresIn)
}

func (s *request) retireNodes(ctx context.Context, in *struct{ Body v1.NodeRetire }) (*op.Body[v1.Applied], error) {
	var keys []intent.Key
	for _, ref := range in.Body.Nodes {
		key := intent.Key{Kind: "Node", Namespace: cmp.Or(ref.Namespace, model.DefaultNamespaceName), Name: ref.Name}
		if slices.Contains(keys, key) {
			return nil, model.Errorf(model.Invalid, "%s stands twice in the list", key)
		}
		if _, err := s.Intent.Get(ctx, key); err != nil {
			return nil, s.NotFound(ctx, err, key)
		}
		keys = append(keys, key)
	}
	o := intent.ApplyOptions{DryRun: in.Body.DryRun, Yes: in.Body.Yes, MaxAffected: in.Body.MaxAffected}
	applied, err := s.Intent.Retire(ctx, access.Author(ctx, in.Body.Message), keys, o)
	if err != nil {
		return nil, err
	}
	return op.Answer(resources.Applied(s.View, applied, in.Body.DryRun, nil)), nil
}

func (s *request) tombstones(_ context.Context, in *struct {
	list.Where
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100"`
}) (*op.Body[v1.TombstoneList], error) {
	items := []v1.Tombstone{}
	for _, g := range s.Intent.ListTombstones() {
		items = append(items, v1.Tombstone{
			ID: g.ID, Name: g.Name, Namespace: g.Namespace, Why: g.Why, Reason: g.Reason, By: g.By, At: g.At, Until: g.Until,
		})
	}
	items, err := list.Matching(s.View, in.Where, items)
	if err != nil {
		return nil, err
	}
	return op.Answer(v1.TombstoneList{Items: items[:min(in.Limit, len(items))], All: len(items)}), nil
}

func (s *request) deleteTombstone(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"128"`
}) (*op.Empty, error) {
	return nil, s.Intent.LiftTombstone(ctx, access.Author(ctx, ""), in.ID)
}
