package client

import (
	"context"
	"net/http"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func nodePath(namespace, name string) string { return "/api/v1/nodes/" + namespace + "/" + name }

// RenameNode gives a node another name.
func (c *Client) RenameNode(ctx context.Context, namespace, name string, r v1.NodeRename) (v1.Applied, error) {
	var out v1.Applied
	_, err := c.call(ctx, http.MethodPost, nodePath(namespace, name)+"/rename", nil, nil, r, &out)
	return out, err
}
