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
	var out v1.Applied
	_, err := c.call(ctx, http.MethodPost, nodePath(namespace, name)+"/rename", nil, nil, r, &out)
	return out, err
}

// ReplaceNode makes a token with which another machine becomes a node's.
func (c *Client) ReplaceNode(ctx context.Context, namespace, name string, r v1.NodeReplace) (v1.JoinToken, error) {
	var out v1.JoinToken
	_, err := c.call(ctx, http.MethodPost, nodePath(namespace, name)+"/replace", nil, nil, r, &out)
	return out, err
}

// RetireNodes takes nodes out of service.
func (c *Client) RetireNodes(ctx context.Context, r v1.NodeRetire) (v1.Applied, error) {
	var out v1.Applied
	_, err := c.call(ctx, http.MethodPost, "/api/v1/retire", nil, nil, r, &out)
	return out, err
}

// Tombstones are machines that are nodes no more, the newest first, at most limit.
func (c *Client) Tombstones(ctx context.Context, limit int, narrow ...v1.Narrow) (v1.TombstoneList, error) {
	var out v1.TombstoneList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/tombstones", narrowed(url.Values{"limit": {strconv.Itoa(limit)}}, narrow), nil, nil, &out)
	return out, err
}

// Forgive takes a tombstone away.
func (c *Client) Forgive(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, "/api/v1/tombstones/"+url.PathEscape(id), nil, nil, nil, nil)
	return err
}
