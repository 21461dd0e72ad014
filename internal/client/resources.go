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
	var out v1.Applied
	_, err := c.call(ctx, http.MethodPost, "/api/v1/apply", nil, nil, r, &out)
	return out, err
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
	var out v1.State
	_, err := c.call(ctx, http.MethodGet, resourcePath(k, namespace, name)+"/state", nil, nil, nil, &out)
	return out, err
}

// NodeStates returns machines as the server sees them, worst first.
func (c *Client) NodeStates(ctx context.Context, f v1.NodeFilter) (v1.NodeStateList, error) {
	query := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "group", f.Group)
	set(query, "selector", f.Selector)
	set(query, "where", f.Where)
	var out v1.NodeStateList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/nodestates", query, nil, nil, &out)
	return out, err
}

// Agents returns a page of agents, the oldest version first.
func (c *Client) Agents(ctx context.Context, f v1.AgentFilter) (v1.AgentList, error) {
	query := url.Values{}
	if f.Limit > 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "selector", f.Selector)
	set(query, "where", f.Where)
	set(query, "version", f.Version)
	set(query, "after", f.After)
	if f.Spooling {
		query.Set("spooling", "true")
	}
	if f.Disconnected {
		query.Set("disconnected", "true")
	}
	var out v1.AgentList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/agents", query, nil, nil, &out)
	return out, err
}

// List returns a page of resources; namespace empty: of all. With state it holds where
// each lands, too.
func (c *Client) List(ctx context.Context, k model.KindInfo, namespace string, f v1.ResourceFilter, state bool, limit int, after string) (v1.ResourceList, error) {
	query := url.Values{}
	if state {
		query.Set("state", "true")
	}
	set(query, "namespace", namespace)
	set(query, "selector", f.Selector)
	set(query, "where", f.Where)
	set(query, "after", after)
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	var out v1.ResourceList
	_, err := c.call(ctx, http.MethodGet, resourcePath(k, "", ""), query, nil, nil, &out)
	return out, err
}

// Put makes one resource so, if it still has the ETag; an empty one: whatever it is now.
func (c *Client) Put(ctx context.Context, k model.KindInfo, namespace, name string, body json.RawMessage, etag, message string, maxAffected int, dryRun, yes bool) (v1.Applied, error) {
	var out v1.Applied
	_, err := c.call(ctx, http.MethodPut, resourcePath(k, namespace, name), changeQuery(message, maxAffected, dryRun, yes), ifMatch(etag), body, &out)
	return out, err
}

// DeleteMany removes resources, all or none.
func (c *Client) DeleteMany(ctx context.Context, r v1.DeleteRequest) (v1.Applied, error) {
	var out v1.Applied
	_, err := c.call(ctx, http.MethodPost, "/api/v1/delete", nil, nil, r, &out)
	return out, err
}

// Delete removes a resource, if it still has the ETag; an empty one: whatever it is now.
func (c *Client) Delete(ctx context.Context, k model.KindInfo, namespace, name string, etag, message string, maxAffected int, dryRun, yes bool) (v1.Applied, error) {
	var out v1.Applied
	_, err := c.call(ctx, http.MethodDelete, resourcePath(k, namespace, name), changeQuery(message, maxAffected, dryRun, yes), ifMatch(etag), nil, &out)
	return out, err
}

func changeQuery(message string, maxAffected int, dryRun, yes bool) url.Values {
	query := url.Values{}
	set(query, "message", message)
	if maxAffected > 0 {
		query.Set("maxAffected", strconv.Itoa(maxAffected))
	}
	if dryRun {
		query.Set("dryRun", "true")
	}
	if yes {
		query.Set("yes", "true")
	}
	return query
}

func ifMatch(etag string) http.Header {
	if etag == "" {
		return nil
	}
	return http.Header{"If-Match": {etag}}
}

// Changes returns recorded changes, newest first.
func (c *Client) Changes(ctx context.Context, kind, namespace, name string, limit int, after string, narrow ...v1.Narrow) (v1.ChangeList, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	narrowed(query, narrow)
	set(query, "kind", kind)
	set(query, "namespace", namespace)
	set(query, "name", name)
	set(query, "after", after)
	var out v1.ChangeList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/changes", query, nil, nil, &out)
	return out, err
}

// narrowed is what picks rows of a list.
func narrowed(query url.Values, narrow []v1.Narrow) url.Values {
	for _, n := range narrow {
		set(query, "selector", n.Selector)
		set(query, "where", n.Where)
	}
	return query
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
