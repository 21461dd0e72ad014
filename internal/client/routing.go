package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Silence makes a silence.
func (c *Client) Silence(ctx context.Context, r v1.SilenceRequest) (v1.Silenced, error) {
	var out v1.Silenced
	_, err := c.call(ctx, http.MethodPost, "/api/v1/silences", nil, nil, r, &out)
	return out, err
}

// EndSilence ends one.
func (c *Client) EndSilence(ctx context.Context, namespace, name, note string) (v1.Silenced, error) {
	var out v1.Silenced
	_, err := c.call(ctx, http.MethodPost, "/api/v1/silences/"+namespace+"/"+name+"/end", nil, nil, v1.Action{Note: note}, &out)
	return out, err
}

// TestRoute says who would hear of a problem; status and severity may be empty, at zero.
func (c *Client) TestRoute(ctx context.Context, namespace, node, check string, at time.Time, status, severity string) (v1.RouteTest, error) {
	query := url.Values{}
	set(query, "status", status)
	set(query, "severity", severity)
	if !at.IsZero() {
		query.Set("at", at.UTC().Format(time.RFC3339))
	}
	var out v1.RouteTest
	_, err := c.call(ctx, http.MethodGet, "/api/v1/routetest/"+namespace+"/"+node+"/"+check, query, nil, nil, &out)
	return out, err
}
