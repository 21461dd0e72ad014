package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// lifeRoutes are what happens to a node after it joined.
func (s *server) lifeRoutes() {
	rename := operation("renameNode", http.MethodPost, "/api/v1/nodes/{namespace}/{name}/rename", "nodes", "Give a node another name; it keeps its events and history")
	handle(s, withChangeErrors(withErrors(rename, model.NotFound)), access.On(access.Change, "Node"), (*server).renameNode)
	replace := operation("replaceNode", http.MethodPost, "/api/v1/nodes/{namespace}/{name}/replace", "nodes", "Make a token with which another machine becomes this node's; it is shown once")
	handle(s, withErrors(replace, model.NotFound, model.Conflict), access.On(access.Change, "Node"), (*server).replaceNode)
	retire := operation("retireNodes", http.MethodPost, "/api/v1/retire", "nodes", "Take nodes out of service, in one transaction")
	retire.MaxBodyBytes = 8 << 20 // 10,000 names
	handle(s, withChangeErrors(withErrors(retire, model.NotFound)), access.On(access.Change, "Node"), (*server).retireNodes)
	handle(s, operation("listTombstones", http.MethodGet, "/api/v1/tombstones", "nodes", "Machines that are nodes no more, and why; the newest first"), access.On(access.Read, "tombstone"), (*server).tombstones)
	handle(s, withErrors(operation("deleteTombstone", http.MethodDelete, "/api/v1/tombstones/{id}", "nodes", "Take one away: its machine may ask to join"), model.NotFound), access.On(access.Change, "tombstone"), (*server).deleteTombstone)
}

// NodePath names one node.
type NodePath struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Name      string `path:"name" maxLength:"253"`
}

func (s *server) renameNode(ctx context.Context, in *struct {
	NodePath
	Body v1.NodeRename
}) (*body[v1.Applied], error) {
	o := intent.ApplyOptions{DryRun: in.Body.DryRun, Yes: in.Body.Yes, MaxAffected: in.Body.MaxAffected}
	applied, err := s.Intent.Rename(ctx, author(ctx, in.Body.Message), in.Namespace, in.Name, in.Body.To, o)
	if err != nil {
		return nil, s.notThere(ctx, err, intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Name})
	}
	return &body[v1.Applied]{s.applied(applied, in.Body.DryRun, nil)}, nil
}

func (s *server) replaceNode(ctx context.Context, in *struct {
	NodePath
	Body v1.NodeReplace
}) (*body[v1.JoinToken], error) {
	key := intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.notThere(ctx, err, key)
	}
	uid, err := uuid.Parse(r.Spec.(*model.NodeSpec).UID)
	if err != nil {
		return nil, model.Errorf(model.Conflict, "%s has no machine yet that could be replaced", key).WithHint("let one join under that name: muster node token, and there muster-agent join TOKEN --name %s; if a trusted group holds the node: muster node accept KEY --name %s", in.Name, in.Name)
	}
	return s.newJoinToken(ctx, pki.JoinToken{Namespace: in.Namespace, Node: uid, MaxUses: 1, Note: in.Body.Message}, in.Body.ExpiresIn)
}

func (s *server) retireNodes(ctx context.Context, in *struct{ Body v1.NodeRetire }) (*body[v1.Applied], error) {
	var keys []intent.Key
	for _, ref := range in.Body.Nodes {
		key := intent.Key{Kind: "Node", Namespace: cmp.Or(ref.Namespace, model.DefaultNamespaceName), Name: ref.Name}
		if slices.Contains(keys, key) {
			return nil, model.Errorf(model.Invalid, "%s stands twice in the list", key)
		}
		if _, err := s.Intent.Get(ctx, key); err != nil {
			return nil, s.notThere(ctx, err, key)
		}
		keys = append(keys, key)
	}
	o := intent.ApplyOptions{DryRun: in.Body.DryRun, Yes: in.Body.Yes, MaxAffected: in.Body.MaxAffected}
	applied, err := s.Intent.Retire(ctx, author(ctx, in.Body.Message), keys, o)
	if err != nil {
		return nil, err
	}
	return &body[v1.Applied]{s.applied(applied, in.Body.DryRun, nil)}, nil
}

func (s *server) tombstones(_ context.Context, in *struct {
	WhereInput
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100"`
}) (*body[v1.TombstoneList], error) {
	items := []v1.Tombstone{}
	for _, g := range s.Intent.ListTombstones() {
		items = append(items, v1.Tombstone{
			ID: g.ID, Name: g.Name, Namespace: g.Namespace, Why: g.Why, Reason: g.Reason, By: g.By, At: g.At, Until: g.Until,
		})
	}
	items, err := theseRows(s, in.WhereInput, items)
	if err != nil {
		return nil, err
	}
	return &body[v1.TombstoneList]{v1.TombstoneList{Items: items[:min(in.Limit, len(items))], All: len(items)}}, nil
}

func (s *server) deleteTombstone(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"128"`
}) (*none, error) {
	return nil, s.Intent.LiftTombstone(ctx, author(ctx, ""), in.ID)
}
