package client

import (
	"context"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Silence makes a silence.
func (c *Client) Silence(ctx context.Context, r v1.SilenceRequest) (v1.Silenced, error) {
	return post[v1.Silenced](ctx, c, "/api/v1/silences", r)
}

// EndSilence ends one.
func (c *Client) EndSilence(ctx context.Context, namespace, name, note string) (v1.Silenced, error) {
	return post[v1.Silenced](ctx, c, "/api/v1/silences/"+namespace+"/"+name+"/end", v1.Action{Note: note})
}

// TestRoute says who would hear of a problem; status and severity may be empty, at zero.
func (c *Client) TestRoute(ctx context.Context, namespace, node, check string, then time.Time, status, severity string) (v1.RouteTest, error) {
	query := queryOf("status", status, "severity", severity, "at", at(then.UTC()))
	return get[v1.RouteTest](ctx, c, "/api/v1/routetest/"+namespace+"/"+node+"/"+check, query)
}
