package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Pending lists machines that asked to join without a token.
func (c *Client) Pending(ctx context.Context, narrow ...v1.Narrow) (v1.PendingList, error) {
	var out v1.PendingList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/pending", narrowed(url.Values{}, narrow), nil, nil, &out)
	return out, err
}

// AcceptPending lets one in.
func (c *Client) AcceptPending(ctx context.Context, r v1.PendingAccept) (v1.Member, error) {
	var out v1.Member
	_, err := c.call(ctx, http.MethodPost, "/api/v1/pending/accept", nil, nil, r, &out)
	return out, err
}

// AcceptReturning lets all machines in that were nodes which the server does not know any more.
func (c *Client) AcceptReturning(ctx context.Context, r v1.PendingReturning) (v1.Returned, error) {
	var out v1.Returned
	_, err := c.call(ctx, http.MethodPost, "/api/v1/pending/accept-returning", nil, nil, r, &out)
	return out, err
}

// RefusePending refuses one for good.
func (c *Client) RefusePending(ctx context.Context, r v1.PendingRefuse) (v1.Member, error) {
	var out v1.Member
	_, err := c.call(ctx, http.MethodPost, "/api/v1/pending/refuse", nil, nil, r, &out)
	return out, err
}

// Authority is the server's CA and where agents find the server.
func (c *Client) Authority(ctx context.Context) (v1.Authority, error) {
	var out v1.Authority
	_, err := c.call(ctx, http.MethodGet, "/api/v1/ca", nil, nil, nil, &out)
	return out, err
}
