package client

import (
	"context"
	"net/url"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func reportQuery(q v1.ReportQuery) url.Values {
	return queryOf("namespace", q.Namespace, "after", q.After, "where", q.Where, "since", at(q.Since), "until", at(q.Until))
}

// Shadow returns a page of messages that were not sent, newest first.
func (c *Client) Shadow(ctx context.Context, q v1.ReportQuery) (v1.ShadowList, error) {
	return get[v1.ShadowList](ctx, c, "/api/v1/reports/shadow", reportQuery(q))
}

// Noise returns what called people in a period, and what never does.
func (c *Client) Noise(ctx context.Context, q v1.ReportQuery) (v1.Noise, error) {
	return get[v1.Noise](ctx, c, "/api/v1/reports/noise", reportQuery(q))
}
