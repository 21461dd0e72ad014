package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Apply declares resources.
func (c *Client) Apply(ctx context.Context, r v1.ApplyRequest) (v1.Applied, error) {
	return post[v1.Applied](ctx, c, "/api/v1/apply", r)
}

func resourcePath(k model.KindInfo, namespace, name string) string {
	path := "/api/v1/" + k.Plural
	if name == "" {
		return path
	}
	if k.Namespaced {
		path += "/" + namespace
	}
	return path + "/" + name
}

// Get returns one resource as JSON, and its ETag.
func (c *Client) Get(ctx context.Context, k model.KindInfo, namespace, name string) (json.RawMessage, string, error) {
	var out json.RawMessage
	header, err := c.call(ctx, http.MethodGet, resourcePath(k, namespace, name), nil, nil, nil, &out)
	return out, header.Get("ETag"), err
}

// State says where a resource lands, and how its events are.
func (c *Client) State(ctx context.Context, k model.KindInfo, namespace, name string) (v1.State, error) {
	return get[v1.State](ctx, c, resourcePath(k, namespace, name)+"/state", nil)
}

// NodeStates returns machines as the server sees them, worst first.
func (c *Client) NodeStates(ctx context.Context, f v1.NodeFilter) (v1.NodeStateList, error) {
	query := queryOf("limit", strconv.Itoa(f.Limit), "namespace", f.Namespace, "name", f.Name, "group", f.Group,
		"selector", f.Selector, "where", f.Where)
	return get[v1.NodeStateList](ctx, c, "/api/v1/nodestates", query)
}

// Agents returns a page of agents, the oldest version first.
func (c *Client) Agents(ctx context.Context, f v1.AgentFilter) (v1.AgentList, error) {
	query := queryOf("limit", most(f.Limit), "namespace", f.Namespace, "name", f.Name, "selector", f.Selector, "where", f.Where,
		"version", f.Version, "after", f.After, "spooling", flag(f.Spooling), "disconnected", flag(f.Disconnected))
	return get[v1.AgentList](ctx, c, "/api/v1/agents", query)
}

// List returns a page of resources; namespace empty: of all. With state it holds where
// each lands, too.
func (c *Client) List(ctx context.Context, k model.KindInfo, namespace string, f v1.ResourceFilter, state bool, limit int, after string) (v1.ResourceList, error) {
	query := queryOf("state", flag(state), "namespace", namespace, "selector", f.Selector, "where", f.Where, "after", after, "limit", most(limit))
	return get[v1.ResourceList](ctx, c, resourcePath(k, "", ""), query)
}

// Put makes one resource so, if it still has the ETag; an empty one: whatever it is now.
func (c *Client) Put(ctx context.Context, k model.KindInfo, namespace, name string, body json.RawMessage, etag, message string, maxAffected int, dryRun, yes bool) (v1.Applied, error) {
	var out v1.Applied
	_, err := c.call(ctx, http.MethodPut, resourcePath(k, namespace, name), changeQuery(message, maxAffected, dryRun, yes), ifMatch(etag), body, &out)
	return out, err
}

// DeleteMany removes resources, all or none.
func (c *Client) DeleteMany(ctx context.Context, r v1.DeleteRequest) (v1.Applied, error) {
	return post[v1.Applied](ctx, c, "/api/v1/delete", r)
}

// Delete removes a resource, if it still has the ETag; an empty one: whatever it is now.
func (c *Client) Delete(ctx context.Context, k model.KindInfo, namespace, name string, etag, message string, maxAffected int, dryRun, yes bool) (v1.Applied, error) {
	var out v1.Applied
	_, err := c.call(ctx, http.MethodDelete, resourcePath(k, namespace, name), changeQuery(message, maxAffected, dryRun, yes), ifMatch(etag), nil, &out)
	return out, err
}

func changeQuery(message string, maxAffected int, dryRun, yes bool) url.Values {
	return queryOf("message", message, "maxAffected", most(maxAffected), "dryRun", flag(dryRun), "yes", flag(yes))
}

func ifMatch(etag string) http.Header {
	if etag == "" {
		return nil
	}
	return http.Header{"If-Match": {etag}}
}

// Changes returns recorded changes, newest first.
func (c *Client) Changes(ctx context.Context, kind, namespace, name string, limit int, after string, narrow ...v1.Narrow) (v1.ChangeList, error) {
	query := queryOf("limit", strconv.Itoa(limit), "kind", kind, "namespace", namespace, "name", name, "after", after)
	return get[v1.ChangeList](ctx, c, "/api/v1/changes", narrowed(query, narrow))
}

// narrowed is what picks rows of a list.
func narrowed(query url.Values, narrow []v1.Narrow) url.Values {
	for _, n := range narrow {
		set(query, "selector", n.Selector)
		set(query, "where", n.Where)
	}
	return query
}
