package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// promRoot is the path of Prometheus' API.
const promRoot = "/prometheus/api/v1"

// QuerySeries evaluates a PromQL expression over the time series of a namespace at one moment. An empty
// namespace means all that the caller may see.
func (c *Client) QuerySeries(ctx context.Context, namespace, expression string, at time.Time) (v1.SeriesResult, error) {
	return c.querySeries(ctx, "/query", buildQuery("query", expression, "namespace", namespace, "time", unixSeconds(at)))
}

// QuerySeriesRange evaluates a PromQL expression at each step of a period.
func (c *Client) QuerySeriesRange(ctx context.Context, namespace, expression string, start, end time.Time, step time.Duration) (v1.SeriesResult, error) {
	return c.querySeries(ctx, "/query_range", buildQuery("query", expression, "namespace", namespace, "start", unixSeconds(start), "end", unixSeconds(end),
		"step", strconv.FormatFloat(step.Seconds(), 'f', -1, 64)))
}

// MetricNames returns the names of all metrics in a namespace. An empty namespace means all that the caller may see.
func (c *Client) MetricNames(ctx context.Context, namespace string) ([]string, error) {
	a, err := getJSON[struct {
		Data []string `json:"data"`
	}](ctx, c.c, promRoot+"/label/__name__/values", buildQuery("namespace", namespace))
	return a.Data, err
}

// querySeries sends a PromQL query and decodes the answer, which has the JSON format of Prometheus.
func (c *Client) querySeries(ctx context.Context, path string, query url.Values) (v1.SeriesResult, error) {
	a, err := getJSON[struct {
		Data     v1.SeriesResult `json:"data"`
		Warnings []string        `json:"warnings"`
		Infos    []string        `json:"infos"`
	}](ctx, c.c, promRoot+path, query)
	a.Data.Warnings = append(a.Warnings, a.Infos...)
	return a.Data, err
}

// unixSeconds formats a time as seconds since 1970, for a query parameter of Prometheus.
func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}
