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
	query := url.Values{}
	set(query, "namespace", f.Namespace)
	set(query, "node", f.Node)
	set(query, "check", f.Check)
	set(query, "status", f.Status)
	set(query, "group", f.Group)
	set(query, "selector", f.Selector)
	set(query, "where", f.Where)
	set(query, "after", f.After)
	if f.Problem {
		query.Set("problem", "true")
	}
	if f.Limit > 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	return query
}

// Events returns a page of events, worst first.
func (c *Client) Events(ctx context.Context, f v1.EventFilter) (v1.EventList, error) {
	var out v1.EventList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/events", eventQuery(f), nil, nil, &out)
	return out, err
}

func eventPath(namespace, node, check string) string {
	return "/api/v1/events/" + namespace + "/" + node + "/" + check
}

// Event returns one event.
func (c *Client) Event(ctx context.Context, namespace, node, check string) (v1.Event, error) {
	var out v1.Event
	_, err := c.call(ctx, http.MethodGet, eventPath(namespace, node, check), nil, nil, nil, &out)
	return out, err
}

// History returns what happened to an event, newest first.
func (c *Client) History(ctx context.Context, namespace, node, check string, limit int) (v1.EntryList, error) {
	var out v1.EntryList
	_, err := c.call(ctx, http.MethodGet, eventPath(namespace, node, check)+"/history",
		url.Values{"limit": {strconv.Itoa(limit)}}, nil, nil, &out)
	return out, err
}

// Entries returns a page of what happened to events, newest first.
func (c *Client) Entries(ctx context.Context, q v1.HistoryQuery) (v1.EntryList, error) {
	query := url.Values{}
	set(query, "namespace", q.Namespace)
	set(query, "node", q.Node)
	set(query, "check", q.Check)
	set(query, "after", q.After)
	narrowed(query, []v1.Narrow{q.Narrow})
	setPeriod(query, q.Since, q.Until)
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var out v1.EntryList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/history", query, nil, nil, &out)
	return out, err
}

// Availability returns a page of how long events had which status.
func (c *Client) Availability(ctx context.Context, q v1.AvailabilityQuery) (v1.AvailabilityList, error) {
	query := url.Values{}
	set(query, "namespace", q.Namespace)
	set(query, "node", q.Node)
	set(query, "check", q.Check)
	set(query, "group", q.Group)
	set(query, "selector", q.Selector)
	set(query, "where", q.Where)
	set(query, "after", q.After)
	setPeriod(query, q.Since, q.Until)
	var out v1.AvailabilityList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/availability", query, nil, nil, &out)
	return out, err
}

// GroupAvailability returns for which part of a time the nodes of groups were up.
func (c *Client) GroupAvailability(ctx context.Context, q v1.AvailabilityQuery) (v1.GroupAvailabilityList, error) {
	query := url.Values{}
	set(query, "namespace", q.Namespace)
	set(query, "check", q.Check)
	set(query, "group", q.Group)
	setPeriod(query, q.Since, q.Until)
	var out v1.GroupAvailabilityList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/availability/groups", query, nil, nil, &out)
	return out, err
}

// PastEvents returns a page of events as they were at a time.
func (c *Client) PastEvents(ctx context.Context, f v1.EventFilter, at time.Time) (v1.PastEventList, error) {
	query := eventQuery(f)
	query.Set("at", at.Format(time.RFC3339Nano))
	var out v1.PastEventList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/history/events", query, nil, nil, &out)
	return out, err
}

func setPeriod(query url.Values, since, until time.Time) {
	if !since.IsZero() {
		query.Set("since", since.Format(time.RFC3339Nano))
	}
	if !until.IsZero() {
		query.Set("until", until.Format(time.RFC3339Nano))
	}
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
	query := url.Values{}
	set(query, "note", note)
	_, err := c.call(ctx, http.MethodDelete, eventPath(namespace, node, check), query, nil, nil, nil)
	return err
}

// Problems returns problems, newest first.
func (c *Client) Problems(ctx context.Context, namespace, node, check string, open bool, limit int, after string, narrow ...v1.Narrow) (v1.ProblemList, error) {
	query := url.Values{}
	narrowed(query, narrow)
	set(query, "namespace", namespace)
	set(query, "node", node)
	set(query, "check", check)
	set(query, "after", after)
	if open {
		query.Set("open", "true")
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	var out v1.ProblemList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/problems", query, nil, nil, &out)
	return out, err
}

// Problem returns one problem.
func (c *Client) Problem(ctx context.Context, id string) (v1.Problem, error) {
	var out v1.Problem
	_, err := c.call(ctx, http.MethodGet, "/api/v1/problems/"+id, nil, nil, nil, &out)
	return out, err
}

// Deliveries returns what was sent about a problem, oldest first.
func (c *Client) Deliveries(ctx context.Context, problem string) (v1.DeliveryList, error) {
	var out v1.DeliveryList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/problems/"+problem+"/deliveries", nil, nil, nil, &out)
	return out, err
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
	var out v1.Why
	_, err := c.call(ctx, http.MethodGet, path, nil, nil, nil, &out)
	return out, err
}
