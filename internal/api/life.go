package api

import (
	"context"
	"net/http"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// lifeRoutes are what happens to a node after it joined.
func (s *server) lifeRoutes() {
	rename := operation("renameNode", http.MethodPost, "/api/v1/nodes/{namespace}/{name}/rename", "nodes", "Give a node another name; it keeps its events and history")
	handle(s, changing(also(rename, model.NotFound)), s.renameNode)
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
	applied, err := s.Intent.Rename(ctx, who(ctx, in.Body.Message), in.Namespace, in.Name, in.Body.To, o)
	if err != nil {
		return nil, s.notThere(ctx, err, intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Name})
	}
	return &body[v1.Applied]{s.applied(applied, in.Body.DryRun, nil)}, nil
}
