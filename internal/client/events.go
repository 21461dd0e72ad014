package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func eventQuery(f v1.EventFilter) url.Values {
	return queryOf("namespace", f.Namespace, "node", f.Node, "check", f.Check, "status", f.Status, "group", f.Group,
		"selector", f.Selector, "where", f.Where, "after", f.After, "problem", flag(f.Problem), "limit", most(f.Limit))
}

// Events returns a page of events, worst first.
func (c *Client) Events(ctx context.Context, f v1.EventFilter) (v1.EventList, error) {
	return get[v1.EventList](ctx, c, "/api/v1/events", eventQuery(f))
}

func eventPath(namespace, node, check string) string {
	return "/api/v1/events/" + namespace + "/" + node + "/" + check
}

// Event returns one event.
func (c *Client) Event(ctx context.Context, namespace, node, check string) (v1.Event, error) {
	return get[v1.Event](ctx, c, eventPath(namespace, node, check), nil)
}

// History returns what happened to an event, newest first.
func (c *Client) History(ctx context.Context, namespace, node, check string, limit int) (v1.EntryList, error) {
	return get[v1.EntryList](ctx, c, eventPath(namespace, node, check)+"/history", url.Values{"limit": {strconv.Itoa(limit)}})
}

// Entries returns a page of what happened to events, newest first.
func (c *Client) Entries(ctx context.Context, q v1.HistoryQuery) (v1.EntryList, error) {
	query := queryOf("namespace", q.Namespace, "node", q.Node, "check", q.Check, "after", q.After,
		"selector", q.Narrow.Selector, "where", q.Narrow.Where, "since", at(q.Since), "until", at(q.Until), "limit", most(q.Limit))
	return get[v1.EntryList](ctx, c, "/api/v1/history", query)
}

// Availability returns a page of how long events had which status.
func (c *Client) Availability(ctx context.Context, q v1.AvailabilityQuery) (v1.AvailabilityList, error) {
	query := queryOf("namespace", q.Namespace, "node", q.Node, "check", q.Check, "group", q.Group, "selector", q.Selector,
		"where", q.Where, "after", q.After, "since", at(q.Since), "until", at(q.Until))
	return get[v1.AvailabilityList](ctx, c, "/api/v1/availability", query)
}

// GroupAvailability returns for which part of a time the nodes of groups were up.
func (c *Client) GroupAvailability(ctx context.Context, q v1.AvailabilityQuery) (v1.GroupAvailabilityList, error) {
	query := queryOf("namespace", q.Namespace, "check", q.Check, "group", q.Group, "since", at(q.Since), "until", at(q.Until))
	return get[v1.GroupAvailabilityList](ctx, c, "/api/v1/availability/groups", query)
}

// PastEvents returns a page of events as they were at a time.
func (c *Client) PastEvents(ctx context.Context, f v1.EventFilter, then time.Time) (v1.PastEventList, error) {
	query := eventQuery(f)
	query.Set("at", at(then))
	return get[v1.PastEventList](ctx, c, "/api/v1/history/events", query)
}

// Resolve sets an event to OK by hand; kept before it returns.
func (c *Client) Resolve(ctx context.Context, namespace, node, check, note string) error {
	_, err := c.call(ctx, http.MethodPost, eventPath(namespace, node, check)+"/resolve", nil, nil, v1.Action{Note: note}, nil)
	return err
}

// Acknowledge says that the caller looks after the event's problem, until then (zero: until
// it ends); kept before it returns.
func (c *Client) Acknowledge(ctx context.Context, namespace, node, check, note string, until time.Time) error {
	_, err := c.call(ctx, http.MethodPost, eventPath(namespace, node, check)+"/acknowledge", nil, nil, v1.Acknowledgement{Note: note, Until: until}, nil)
	return err
}

// Unacknowledge says that nobody does any more; kept before it returns.
func (c *Client) Unacknowledge(ctx context.Context, namespace, node, check, note string) error {
	_, err := c.call(ctx, http.MethodPost, eventPath(namespace, node, check)+"/unacknowledge", nil, nil, v1.Action{Note: note}, nil)
	return err
}

// DeleteEvent forgets an event; kept before it returns.
func (c *Client) DeleteEvent(ctx context.Context, namespace, node, check, note string) error {
	_, err := c.call(ctx, http.MethodDelete, eventPath(namespace, node, check), queryOf("note", note), nil, nil, nil)
	return err
}

// Problems returns problems, newest first.
func (c *Client) Problems(ctx context.Context, namespace, node, check string, open bool, limit int, after string, narrow ...v1.Narrow) (v1.ProblemList, error) {
	query := queryOf("namespace", namespace, "node", node, "check", check, "after", after, "open", flag(open), "limit", most(limit))
	return get[v1.ProblemList](ctx, c, "/api/v1/problems", narrowed(query, narrow))
}

// Problem returns one problem.
func (c *Client) Problem(ctx context.Context, id string) (v1.Problem, error) {
	return get[v1.Problem](ctx, c, "/api/v1/problems/"+id, nil)
}

// Deliveries returns what was sent about a problem, oldest first.
func (c *Client) Deliveries(ctx context.Context, problem string) (v1.DeliveryList, error) {
	return get[v1.DeliveryList](ctx, c, "/api/v1/problems/"+problem+"/deliveries", nil)
}

// maxLine bounds one line of a watch: an event with its output as JSON.
const maxLine = 16 << 20

// Watch calls began when the server watches, and then fn with each event that changes from
// there on, until ctx or the connection ends. Who lists in began misses nothing; what
// changes meanwhile waits in the connection.
func (c *Client) Watch(ctx context.Context, f v1.EventFilter, began func() error, fn func(v1.Event) error) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	answer, err := c.send(ctx, http.MethodGet, "/api/v1/events/watch", eventQuery(f), header, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for first := true; lines.Scan(); first = false {
		if first { // a comment, sent when the watch is set up
			if err := began(); err != nil {
				return err
			}
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue // a comment that keeps the connection open, or an empty line
		}
		var e v1.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("read watch: %w", err)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := lines.Err(); err != nil {
		return model.Errorf(model.Unavailable, "the watch broke off: %w", err).WithHint("type the command again")
	}
	return model.Errorf(model.Unavailable, "the server ended the watch").WithHint("type the command again")
}

// Why returns the chain from what was declared to who was told; check may be empty.
func (c *Client) Why(ctx context.Context, namespace, node, check string) (v1.Why, error) {
	path := "/api/v1/why/" + namespace + "/" + node
	if check != "" {
		path += "/" + check
	}
	return get[v1.Why](ctx, c, path, nil)
}
