package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func handlerPath(namespace, name string) string { return "/api/v1/handlers/" + namespace + "/" + name }

// TestHandler sends a test message to a handler now.
func (c *Client) TestHandler(ctx context.Context, namespace, name string, t v1.HandlerTest) (v1.HandlerTested, error) {
	var out v1.HandlerTested
	_, err := c.call(ctx, http.MethodPost, handlerPath(namespace, name)+"/test", nil, nil, t, &out)
	return out, err
}

// DeadLetters lists what a handler was not told, newest first.
func (c *Client) DeadLetters(ctx context.Context, namespace, name string, limit int, after string, narrow ...v1.Narrow) (v1.DeliveryList, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	narrowed(query, narrow)
	set(query, "after", after)
	var out v1.DeliveryList
	_, err := c.call(ctx, http.MethodGet, handlerPath(namespace, name)+"/dead", query, nil, nil, &out)
	return out, err
}

// ReplayHandler sends dead letters of a handler again.
func (c *Client) ReplayHandler(ctx context.Context, namespace, name string, r v1.HandlerReplay) (v1.HandlerReplayed, error) {
	var out v1.HandlerReplayed
	_, err := c.call(ctx, http.MethodPost, handlerPath(namespace, name)+"/replay", nil, nil, r, &out)
	return out, err
}
