package client

import (
	"context"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Bulk does one thing to all events that a selection picks: acknowledge, unacknowledge,
// resolve or delete; kept before it returns.
func (c *Client) Bulk(ctx context.Context, verb string, r v1.BulkRequest) (v1.BulkDone, error) {
	return post[v1.BulkDone](ctx, c, "/api/v1/events/"+verb, r)
}
