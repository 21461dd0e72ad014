package client

import (
	"context"
	"strconv"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func handlerPath(namespace, name string) string { return "/api/v1/handlers/" + namespace + "/" + name }

// TestHandler sends a test message to a handler now.
func (c *Client) TestHandler(ctx context.Context, namespace, name string, t v1.HandlerTest) (v1.HandlerTested, error) {
	return post[v1.HandlerTested](ctx, c, handlerPath(namespace, name)+"/test", t)
}

// DeadLetters lists what a handler was not told, newest first.
func (c *Client) DeadLetters(ctx context.Context, namespace, name string, limit int, after string, narrow ...v1.Narrow) (v1.DeliveryList, error) {
	query := queryOf("limit", strconv.Itoa(limit), "after", after)
	return get[v1.DeliveryList](ctx, c, handlerPath(namespace, name)+"/dead", narrowed(query, narrow))
}

// ReplayHandler sends dead letters of a handler again.
func (c *Client) ReplayHandler(ctx context.Context, namespace, name string, r v1.HandlerReplay) (v1.HandlerReplayed, error) {
	return post[v1.HandlerReplayed](ctx, c, handlerPath(namespace, name)+"/replay", r)
}
