package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Notifications are the operations on silences, routes and handlers.
type Notifications struct{ c *connection }

// Silence makes a silence.
func (n Notifications) Silence(ctx context.Context, r v1.SilenceRequest) (v1.Silenced, error) {
	return post[v1.Silenced](ctx, n.c, "/silences", r)
}

// EndSilence ends a silence.
func (n Notifications) EndSilence(ctx context.Context, namespace, name, note string) (v1.Silenced, error) {
	return post[v1.Silenced](ctx, n.c, "/silences/"+namespace+"/"+name+"/end", v1.Action{Note: note})
}

// TestRoute returns the notifications that a problem would cause; status and severity may be empty,
// the time zero.
func (n Notifications) TestRoute(ctx context.Context, namespace, node, check string, at time.Time, status, severity string) (v1.RouteTest, error) {
	query := queryOf("status", status, "severity", severity, "at", timeParam(at.UTC()))
	return get[v1.RouteTest](ctx, n.c, "/routetest/"+namespace+"/"+node+"/"+check, query)
}

func handlerPath(namespace, name string) string { return "/handlers/" + namespace + "/" + name }

// TestHandler sends a test message to a handler.
func (n Notifications) TestHandler(ctx context.Context, namespace, name string, t v1.HandlerTest) (v1.HandlerTested, error) {
	return post[v1.HandlerTested](ctx, n.c, handlerPath(namespace, name)+"/test", t)
}

// DeadLetters returns a page of the dead letters of a handler, newest first.
func (n Notifications) DeadLetters(ctx context.Context, namespace, name string, limit int, after string, narrow ...v1.Narrow) (v1.DeliveryList, error) {
	query := queryOf("limit", strconv.Itoa(limit), "after", after)
	return get[v1.DeliveryList](ctx, n.c, handlerPath(namespace, name)+"/dead", narrowed(query, narrow))
}

// ReplayHandler puts dead letters of a handler back into its outbox.
func (n Notifications) ReplayHandler(ctx context.Context, namespace, name string, r v1.HandlerReplay) (v1.HandlerReplayed, error) {
	return post[v1.HandlerReplayed](ctx, n.c, handlerPath(namespace, name)+"/replay", r)
}

// Reports are the reports over a period of history.
type Reports struct{ c *connection }

func reportQuery(q v1.ReportQuery) url.Values {
	return queryOf("namespace", q.Namespace, "after", q.After, "where", q.Where, "since", timeParam(q.Since), "until", timeParam(q.Until))
}

// Shadow returns a page of messages of namespaces in shadow mode, newest first.
func (r Reports) Shadow(ctx context.Context, q v1.ReportQuery) (v1.ShadowList, error) {
	return get[v1.ShadowList](ctx, r.c, "/reports/shadow", reportQuery(q))
}

// Noise returns the pages of each check and route, and checks and silences without effect.
func (r Reports) Noise(ctx context.Context, q v1.ReportQuery) (v1.Noise, error) {
	return get[v1.Noise](ctx, r.c, "/reports/noise", reportQuery(q))
}

func availabilityQuery(q v1.AvailabilityQuery) url.Values {
	return queryOf("namespace", q.Namespace, "node", q.Node, "check", q.Check, "group", q.Group, "selector", q.Selector,
		"where", q.Where, "after", q.After, "since", timeParam(q.Since), "until", timeParam(q.Until))
}

// Availability returns a page of the seconds that events spent in each status.
func (r Reports) Availability(ctx context.Context, q v1.AvailabilityQuery) (v1.AvailabilityList, error) {
	return get[v1.AvailabilityList](ctx, r.c, "/availability", availabilityQuery(q))
}

// GroupAvailability returns the share of a period in which the nodes of groups were up.
func (r Reports) GroupAvailability(ctx context.Context, q v1.AvailabilityQuery) (v1.GroupAvailabilityList, error) {
	return get[v1.GroupAvailabilityList](ctx, r.c, "/availability/groups", availabilityQuery(q))
}
