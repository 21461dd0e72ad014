package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func nodePath(namespace, name string) string { return "/api/v1/nodes/" + namespace + "/" + name }

// RenameNode gives a node another name.
func (c *Client) RenameNode(ctx context.Context, namespace, name string, r v1.NodeRename) (v1.Applied, error) {
	return post[v1.Applied](ctx, c, nodePath(namespace, name)+"/rename", r)
}

// ReplaceNode makes a token with which another machine becomes a node's.
func (c *Client) ReplaceNode(ctx context.Context, namespace, name string, r v1.NodeReplace) (v1.JoinToken, error) {
	return post[v1.JoinToken](ctx, c, nodePath(namespace, name)+"/replace", r)
}

// RetireNodes takes nodes out of service.
func (c *Client) RetireNodes(ctx context.Context, r v1.NodeRetire) (v1.Applied, error) {
	return post[v1.Applied](ctx, c, "/api/v1/retire", r)
}

// Tombstones are machines that are nodes no more, the newest first, at most limit.
func (c *Client) Tombstones(ctx context.Context, limit int, narrow ...v1.Narrow) (v1.TombstoneList, error) {
	return get[v1.TombstoneList](ctx, c, "/api/v1/tombstones", narrowed(url.Values{"limit": {strconv.Itoa(limit)}}, narrow))
}

// Forgive takes a tombstone away.
func (c *Client) Forgive(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, "/api/v1/tombstones/"+url.PathEscape(id), nil, nil, nil, nil)
	return err
}
