package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func reportQuery(q v1.ReportQuery) url.Values {
	query := url.Values{}
	set(query, "namespace", q.Namespace)
	set(query, "after", q.After)
	set(query, "where", q.Where)
	setPeriod(query, q.Since, q.Until)
	return query
}

// Shadow returns a page of messages that were not sent, newest first.
func (c *Client) Shadow(ctx context.Context, q v1.ReportQuery) (v1.ShadowList, error) {
	var out v1.ShadowList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/reports/shadow", reportQuery(q), nil, nil, &out)
	return out, err
}

// Noise returns what called people in a period, and what never does.
func (c *Client) Noise(ctx context.Context, q v1.ReportQuery) (v1.Noise, error) {
	var out v1.Noise
	_, err := c.call(ctx, http.MethodGet, "/api/v1/reports/noise", reportQuery(q), nil, nil, &out)
	return out, err
}
