package routing

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// predictRoutes predicts which handlers an assumed problem would notify, and when, without sending anything
func (s *routingRequest) predictRoutes(ctx context.Context, in *struct {
	events.Path
	At       time.Time `query:"at" doc:"When it would open; default now."`
	Status   string    `query:"status" maxLength:"64" doc:"Default critical."`
	Severity string    `query:"severity" maxLength:"64" doc:"Default: what the status means."`
}) (*op.Body[v1.RouteTest], error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
	}
	source, err := events.FindSourceOnNode(ctx, s.View, node, in.Path)
	if err != nil {
		return nil, err
	}
	status, ok := model.ParseStatus(cmp.Or(in.Status, "critical"))
	if !ok || status == model.OK {
		return nil, model.Errorf(model.Invalid, "%q is not a status that a problem can have", in.Status).WithHint("warning, critical or unknown")
	}
	c := assumedProblem{routingRequest: s, check: model.CheckID(source.ID), definition: notification.Definition(s.View, node, source), at: in.At}
	if c.at.IsZero() {
		c.at = s.Now()
	}
	severity := model.DefaultSeverity(status)
	if c.definition != nil {
		severity = c.definition.Severities[status]
	}
	if in.Severity != "" {
		if severity, ok = model.ParseSeverity(in.Severity); !ok {
			return nil, model.Errorf(model.Invalid, "unknown severity %q", in.Severity).WithHint("information, warning, average, high or disaster")
		}
	}
	c.problem = route.NewProblem(s.Directory, node, source, status, severity, s.ProblemLabels(node, source))
	out := v1.RouteTest{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Source: events.ShowSourceByID(s.View, source), At: c.at.UTC(), Status: status, StatusName: status.String(), SeverityName: severity.String()}
	routes, why := c.chooseRoutes()
	out.Reason, out.Routes = why, []v1.RouteTestRoute{}
	c.dependencies = s.Directory.Dependencies(node, source)
	for i := range c.dependencies {
		out.Dependencies = append(out.Dependencies, c.dependencies[i].Name.String())
	}
	for _, r := range routes {
		out.Routes = append(out.Routes, c.predictSteps(r))
	}
	return op.Answer(out), nil
}

// assumedProblem is the made-up problem that a route test is about. The test predicts its notifications.
type assumedProblem struct {
	*routingRequest
	check      model.CheckID
	definition *model.CheckDefinition
	problem    *route.Problem
	at         time.Time

	dependencies []route.Dependency // checks on which the problem's check depends
}

// chooseRoutes returns the routes that would notify about the assumed problem. It also returns the rule by which they
// are selected.
func (c *assumedProblem) chooseRoutes() ([]*route.Route, string) {
	routes, by := notification.Routes(c.View, c.problem, c.definition)
	why := "nobody: the check names no route (alert.route), no route matches, none is called default, and namespace " + c.problem.Node.Namespace + " names no handlers"
	switch by {
	case route.ByHandlers:
		why = "the check names handlers (alert.handlers)"
		if c.check == model.KeepaliveCheck {
			why = "the node names handlers (keepalive.handlers), or its Sensu agent does (agentHears)"
		}
	case route.ByRoute:
		why = "the check names the route (alert.route)"
	case route.ByMatch:
		why = model.CountNoun(len(routes), "route") + " matching (match)"
	case route.ByDefault:
		why = "no other route matches"
	case route.ByNamespace:
		why = "no route matches and none is called default: handlers of namespace " + c.problem.Node.Namespace
	case route.ByPipelines:
		why = "only the handlers of pipelines: " + notification.DeclaringResourceText(c.check) + " names pipelines, no route and no handlers, and no route matches"
	}
	if c.definition != nil && len(c.definition.Pipelines) > 0 {
		why += "; muster why shows its pipelines, which decide separately: " + strings.Join(c.definition.Pipelines, ", ")
	}
	return routes, why
}

// predictSteps predicts the steps of a route for the assumed problem without an acknowledgement.
func (c *assumedProblem) predictSteps(r *route.Route) v1.RouteTestRoute {
	out := v1.RouteTestRoute{GroupWait: model.Duration(r.GroupWait)}
	if r.Name.Name != "" {
		out.Route, out.GroupBy = r.Name.String(), strings.Join(r.GroupBy(), ", ")
	}
	if r.Rate != nil {
		out.Rate = r.Rate.String()
	}
	for i, due := range r.Escalate(c.at, c.at.Add(r.GroupWait)) {
		step := v1.RouteTestStep{Due: due.UTC(), Repeat: model.Duration(r.Steps[i].Repeat)}
		for _, to := range r.Steps[i].To {
			_, there := c.Directory.Handler(to.Namespace, to.Name)
			step.Handlers = append(step.Handlers, v1.RouteHandler{Name: to.String(), Missing: !there})
		}
		step.At, step.Holds = c.predictNotificationTime(r, due)
		out.Steps = append(out.Steps, step)
	}
	return out
}

// maxConsecutiveHolds is the greatest number of consecutive holds that a prediction follows.
const maxConsecutiveHolds = 20

// predictNotificationTime returns the predicted time of the notifications of a route's step. If the time is unknown or
// never comes, it is zero.
func (c *assumedProblem) predictNotificationTime(r *route.Route, due time.Time) (time.Time, []v1.NotificationHold) {
	var holds []route.Hold
	for range maxConsecutiveHolds {
		now := c.Routing.Holds(c.problem, r, due)
		if hold, _ := route.DependencyHold(c.dependencies, c.OpenProblem); hold != nil { // its end is unknown
			now = append(now, *hold)
		}
		if len(now) == 0 {
			return due.UTC(), notification.ShowHolds(holds)
		}
		for _, h := range now {
			if !slices.Contains(holds, h) {
				holds = append(holds, h)
			}
			if h.Drop || h.Until.IsZero() {
				return time.Time{}, notification.ShowHolds(holds)
			}
			if h.Until.After(due) {
				due = h.Until
			}
		}
	}
	return time.Time{}, notification.ShowHolds(holds)
}
