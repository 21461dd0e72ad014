package client

import (
	"context"
	"net/url"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Pending lists machines that asked to join without a token.
func (c *Client) Pending(ctx context.Context, narrow ...v1.Narrow) (v1.PendingList, error) {
	return get[v1.PendingList](ctx, c, "/api/v1/pending", narrowed(url.Values{}, narrow))
}

// AcceptPending lets one in.
func (c *Client) AcceptPending(ctx context.Context, r v1.PendingAccept) (v1.Member, error) {
	return post[v1.Member](ctx, c, "/api/v1/pending/accept", r)
}

// AcceptReturning lets all machines in that were nodes which the server does not know any more.
func (c *Client) AcceptReturning(ctx context.Context, r v1.PendingReturning) (v1.Returned, error) {
	return post[v1.Returned](ctx, c, "/api/v1/pending/accept-returning", r)
}

// RefusePending refuses one for good.
func (c *Client) RefusePending(ctx context.Context, r v1.PendingRefuse) (v1.Member, error) {
	return post[v1.Member](ctx, c, "/api/v1/pending/refuse", r)
}

// Authority is the server's CA and where agents find the server.
func (c *Client) Authority(ctx context.Context) (v1.Authority, error) {
	return get[v1.Authority](ctx, c, "/api/v1/ca", nil)
}
