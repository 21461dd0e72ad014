package client

import (
	"context"
	"net/http"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Events has the operations on events and their history.
type Events struct{ c *connection }

// eventPath returns the API path of one event.
func eventPath(namespace, node, check string) string {
	return escapePath("events", namespace, node, check)
}

// List returns a page of events, worst first.
func (e Events) List(ctx context.Context, f v1.EventFilter) (v1.EventList, error) {
	return getJSON[v1.EventList](ctx, e.c, "/events", buildQuery(f))
}

// ListAt returns a page of events with their statuses at a past time
func (e Events) ListAt(ctx context.Context, f v1.EventFilter, at time.Time) (v1.PastEventList, error) {
	return getJSON[v1.PastEventList](ctx, e.c, "/history/events", buildQuery(f, "at", at))
}

// Get returns one event.
func (e Events) Get(ctx context.Context, namespace, node, check string) (v1.Event, error) {
	return getJSON[v1.Event](ctx, e.c, eventPath(namespace, node, check), nil)
}

// History returns the newest history entries of one event.
func (e Events) History(ctx context.Context, namespace, node, check string, limit int) (v1.EntryList, error) {
	return getJSON[v1.EntryList](ctx, e.c, eventPath(namespace, node, check)+"/history", buildQuery("limit", limit))
}

// Entries returns a page of the history of many events, newest first.
func (e Events) Entries(ctx context.Context, q v1.HistoryQuery) (v1.EntryList, error) {
	return getJSON[v1.EntryList](ctx, e.c, "/history", buildQuery(q))
}

// Trace returns each step on the way from a check's declaration to the notifications about one node. An empty
// check means the whole node.
func (e Events) Trace(ctx context.Context, namespace, node, check string) (v1.Trace, error) {
	path := escapePath("why", namespace, node)
	if check != "" {
		path += escapePath(check)
	}
	return getJSON[v1.Trace](ctx, e.c, path, nil)
}

// Resolve sets an event to status OK, until the check's next result arrives. The method returns when the change
// is durable.
func (e Events) Resolve(ctx context.Context, namespace, node, check, note string) error {
	return requestWithoutAnswer(ctx, e.c, http.MethodPost, eventPath(namespace, node, check)+"/resolve", nil, v1.Action{Note: note})
}

// Acknowledge acknowledges the open problem of an event until a given time. The time zero means until the
// problem closes. The method returns when the change is durable.
func (e Events) Acknowledge(ctx context.Context, namespace, node, check, note string, until time.Time) error {
	return requestWithoutAnswer(ctx, e.c, http.MethodPost, eventPath(namespace, node, check)+"/acknowledge", nil, v1.Acknowledgement{Note: note, Until: until})
}

// Unacknowledge removes the acknowledgement of a problem. The method returns when the change is durable.
func (e Events) Unacknowledge(ctx context.Context, namespace, node, check, note string) error {
	return requestWithoutAnswer(ctx, e.c, http.MethodPost, eventPath(namespace, node, check)+"/unacknowledge", nil, v1.Action{Note: note})
}

// Notify notifies the handlers of an event about its open problem, except handlers that were notified before.
func (e Events) Notify(ctx context.Context, namespace, node, check, note string) (v1.RoutingEffect, error) {
	return postJSON[v1.RoutingEffect](ctx, e.c, eventPath(namespace, node, check)+"/notify", v1.Action{Note: note})
}

// Delete deletes an event. The method returns when the change is durable.
func (e Events) Delete(ctx context.Context, namespace, node, check, note string) error {
	return requestWithoutAnswer(ctx, e.c, http.MethodDelete, eventPath(namespace, node, check), buildQuery("note", note), nil)
}

// Bulk applies one action, such as acknowledge or delete, to all events that a request selects. verb is
// acknowledge, unacknowledge, resolve or delete. The method returns when the change is durable.
func (e Events) Bulk(ctx context.Context, verb string, r v1.BulkRequest) (v1.BulkDone, error) {
	return postJSON[v1.BulkDone](ctx, e.c, "/events/"+verb, r)
}

// Watch streams changed events to fn until ctx or the connection ends. It calls `opened` at the start of the stream.
// Changes during opened wait in the connection, so a list that opened requests misses no change.
func (e Events) Watch(ctx context.Context, f v1.EventFilter, opened func() error, fn func(v1.Event) error) error {
	_, err := readStream(ctx, e.c, http.MethodGet, "/events/watch", buildQuery(f), nil, opened, func(event v1.Event) (bool, error) { return false, fn(event) })
	switch {
	case isStreamReadError(err):
		return model.Errorf(model.Unavailable, "the connection that streams events (watch) broke: %w", err).WithHint("repeat the command")
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return model.Errorf(model.Unavailable, "the server ended the stream of events (watch)").WithHint("repeat the command")
}

// Problems has the operations on problems.
type Problems struct{ c *connection }

// Items returns a page of items (metrics of nodes) with their last values, sorted by node and key
func (c *Client) Items(ctx context.Context, f v1.ItemFilter, limit int, after string, narrow ...v1.RowFilter) (v1.ItemList, error) {
	return getJSON[v1.ItemList](ctx, c.c, "/items", buildQuery(f, "after", after, "limit", limit, narrow))
}

// Texts returns the newest text and log values of the items that match a filter, sorted by time.
func (c *Client) Texts(ctx context.Context, f v1.TextFilter) (v1.TextList, error) {
	return getJSON[v1.TextList](ctx, c.c, "/texts", buildQuery(f))
}

// ValueLoad returns how busy the server is with processing the values of items (metrics).
func (c *Client) ValueLoad(ctx context.Context) (v1.ValueLoad, error) {
	return getJSON[v1.ValueLoad](ctx, c.c, "/items/load", nil)
}

// Compliance returns a page with the outcome of the last run of each policy directive on each node. It is
// sorted by node and directive.
func (c *Client) Compliance(ctx context.Context, f v1.ComplianceFilter, limit int, after string, narrow ...v1.RowFilter) (v1.ComplianceList, error) {
	return getJSON[v1.ComplianceList](ctx, c.c, "/compliance", buildQuery(f, "after", after, "limit", limit, narrow))
}

// List returns a page of problems, newest first.
func (p Problems) List(ctx context.Context, namespace, node, check string, open bool, limit int, after string, narrow ...v1.RowFilter) (v1.ProblemList, error) {
	query := buildQuery("namespace", namespace, "node", node, "check", check, "open", open, "after", after, "limit", limit, narrow)
	return getJSON[v1.ProblemList](ctx, p.c, "/problems", query)
}

// Get returns one problem.
func (p Problems) Get(ctx context.Context, id string) (v1.Problem, error) {
	return getJSON[v1.Problem](ctx, p.c, escapePath("problems", id), nil)
}

// Deliveries returns the notifications of a problem, oldest first.
func (p Problems) Deliveries(ctx context.Context, problem string) (v1.DeliveryList, error) {
	return getJSON[v1.DeliveryList](ctx, p.c, escapePath("problems", problem, "deliveries"), nil)
}

// Timeline returns everything that happened to a problem, such as changes and messages, oldest first.
func (p Problems) Timeline(ctx context.Context, problem string) (v1.Timeline, error) {
	return getJSON[v1.Timeline](ctx, p.c, escapePath("problems", problem, "timeline"), nil)
}

// Notifications has the API operations on silences, routes and handlers
type Notifications struct{ c *connection }

// Silence creates a silence.
func (n Notifications) Silence(ctx context.Context, r v1.SilenceRequest) (v1.Silenced, error) {
	return postJSON[v1.Silenced](ctx, n.c, "/silences", r)
}

// EndSilence ends a silence.
func (n Notifications) EndSilence(ctx context.Context, namespace, name, note string) (v1.Silenced, error) {
	return postJSON[v1.Silenced](ctx, n.c, escapePath("silences", namespace, name, "end"), v1.Action{Note: note})
}

// TestRoute asks the server which notifications an assumed problem would cause. status and severity may be empty, and
// the time zero.
func (n Notifications) TestRoute(ctx context.Context, namespace, node, check string, at time.Time, status, severity string) (v1.RouteTest, error) {
	return getJSON[v1.RouteTest](ctx, n.c, escapePath("routetest", namespace, node, check), buildQuery("status", status, "severity", severity, "at", at.UTC()))
}

// handlerPath returns the API path of a handler.
func handlerPath(namespace, name string) string { return escapePath("handlers", namespace, name) }

// TestHandler sends a test message to a handler.
func (n Notifications) TestHandler(ctx context.Context, namespace, name string, t v1.HandlerTest) (v1.HandlerTestResult, error) {
	return postJSON[v1.HandlerTestResult](ctx, n.c, handlerPath(namespace, name)+"/test", t)
}

// DeadLetters returns a page of a handler's dead letters (notifications given up), newest first
func (n Notifications) DeadLetters(ctx context.Context, namespace, name string, limit int, after string, narrow ...v1.RowFilter) (v1.DeliveryList, error) {
	return getJSON[v1.DeliveryList](ctx, n.c, handlerPath(namespace, name)+"/dead", buildQuery("limit", limit, "after", after, narrow))
}

// ReplayDeadLetters sends a handler's dead letters (notifications given up) again
func (n Notifications) ReplayDeadLetters(ctx context.Context, namespace, name string, r v1.HandlerReplay) (v1.HandlerReplayed, error) {
	return postJSON[v1.HandlerReplayed](ctx, n.c, handlerPath(namespace, name)+"/replay", r)
}

// Rollouts has the operations on roll-outs of policy directives
type Rollouts struct{ c *connection }

// List returns the last roll-out of each policy directive. Directives with a running roll-out come first.
func (r Rollouts) List(ctx context.Context, namespace string) (v1.RolloutList, error) {
	return getJSON[v1.RolloutList](ctx, r.c, "/rollouts", buildQuery("namespace", namespace))
}

// Get returns the last roll-out of a policy directive.
func (r Rollouts) Get(ctx context.Context, namespace, name string) (v1.Rollout, error) {
	return getJSON[v1.Rollout](ctx, r.c, escapePath("rollouts", namespace, name), nil)
}

// Requests returns the change requests that await the approval of another person, the oldest first.
func (r Rollouts) Requests(ctx context.Context, namespace string) (v1.ReviewRequestList, error) {
	return getJSON[v1.ReviewRequestList](ctx, r.c, "/review-requests", buildQuery("namespace", namespace))
}

// Request returns one change request (a change that awaits approval), with the differences of its resources.
func (r Rollouts) Request(ctx context.Context, id string) (v1.ReviewRequest, error) {
	return getJSON[v1.ReviewRequest](ctx, r.c, escapePath("review-requests", id), nil)
}

// Do performs an action (approve, start, pause, stop or undo) on the roll-out of a policy directive.
func (r Rollouts) Do(ctx context.Context, verb, namespace, name string, a v1.RolloutAction) (v1.Rollout, error) {
	return postJSON[v1.Rollout](ctx, r.c, escapePath("rollouts", namespace, name, verb), a)
}

// Reports has the API operations that return reports about a period of history
type Reports struct{ c *connection }

// Shadow returns a page of the notifications that shadow mode recorded but did not send, newest first.
func (r Reports) Shadow(ctx context.Context, q v1.ReportQuery) (v1.ShadowList, error) {
	return getJSON[v1.ShadowList](ctx, r.c, "/reports/shadow", buildQuery(q))
}

// Noise returns the noise report, which counts how often checks and routes notified people in a period. It says
// how often each check and route paged people, and which checks and silences have no effect.
func (r Reports) Noise(ctx context.Context, q v1.ReportQuery) (v1.Noise, error) {
	return getJSON[v1.Noise](ctx, r.c, "/reports/noise", buildQuery(q))
}

// Availability returns a page with the seconds that each event spent in each status
func (r Reports) Availability(ctx context.Context, q v1.AvailabilityQuery) (v1.AvailabilityList, error) {
	return getJSON[v1.AvailabilityList](ctx, r.c, "/availability", buildQuery(q))
}

// Compliance returns the compliance of each policy, directive, component, node or group, least compliant first.
func (r Reports) Compliance(ctx context.Context, q v1.ComplianceQuery) (v1.ComplianceReport, error) {
	return getJSON[v1.ComplianceReport](ctx, r.c, "/reports/compliance", buildQuery(q))
}

// ComplianceDays returns the compliance of each day of a period
func (r Reports) ComplianceDays(ctx context.Context, namespace, directiveLabels string, since, until time.Time) (v1.ComplianceDays, error) {
	return getJSON[v1.ComplianceDays](ctx, r.c, "/reports/compliance/days", buildQuery("namespace", namespace, "directiveLabels", directiveLabels, "since", since, "until", until))
}

// Evidence returns the signed history of a node's runs of policy directives, as evidence for auditors. A zero
// time is the server's default.
func (r Reports) Evidence(ctx context.Context, namespace, node string, since, until time.Time) (v1.Evidence, error) {
	return getJSON[v1.Evidence](ctx, r.c, "/reports/compliance/evidence", buildQuery("namespace", namespace, "node", node, "since", since, "until", until))
}

// GroupAvailability returns the percentage of a period in which the nodes of each group were up
func (r Reports) GroupAvailability(ctx context.Context, q v1.AvailabilityQuery) (v1.GroupAvailabilityList, error) {
	return getJSON[v1.GroupAvailabilityList](ctx, r.c, "/availability/groups", buildQuery(q))
}
