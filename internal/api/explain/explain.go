// Package explain answers muster why: for a node, the reasons for its groups and checks; for a check on a node, the
// chain from its declaration to the last delivery, with the reason where the chain ends early.
//
// Start reading at traceBuilder.addAllLinks.
package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/resources"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

func (s *explainRequest) explainCheck(ctx context.Context, in *events.Path) (*op.Body[v1.Trace], error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
	}
	check, err := events.FindCheckOn(ctx, s.View, node, *in)
	if err != nil {
		return nil, err
	}
	c := traceBuilder{explainRequest: s, ctx: ctx, node: node, check: check, out: v1.Trace{Namespace: in.Namespace, Node: in.Node, Check: in.Check}}
	if err := c.addAllLinks(); err != nil {
		return nil, err
	}
	return op.Answer(c.out), nil
}

// declarationLink explains the last change of a resource: author, address, revision, reason.
func (s *explainRequest) declarationLink(ctx context.Context, key intent.Key) (v1.Link, error) {
	entries, err := s.Intent.Audit(ctx, intent.ChangeQuery{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Limit: 1}, true)
	if err != nil || len(entries) == 0 {
		return v1.Link{Name: "declared", Text: fmt.Sprintf("%s %s: no record", strings.ToLower(key.Kind), key.Name)}, err
	}
	last := resources.ShowChange(&entries[0])
	text := fmt.Sprintf("%s %s was %sd by %s", strings.ToLower(key.Kind), key.Name, last.Op, last.User) // created, updated
	if last.Whence != "" {
		text += " from " + last.Whence
	}
	text += fmt.Sprintf(", revision %d", last.Revision)
	if last.Message != "" {
		text += ": " + last.Message
	}
	return v1.Link{Name: "declared", Holds: true, Text: text, At: last.At}, nil
}

// traceBuilder builds the trace of one check on one node, from its declaration to its deliveries.
type traceBuilder struct {
	*explainRequest
	ctx         context.Context
	node        model.NodeID
	check       model.CheckID
	targeted    bool          // the check's targets include the node
	lastRun     time.Time     // start of the last known run
	clockOffset time.Duration // difference of the node's clock to the server's
	usesCron    bool          // the schedule of the check is a cron expression
	out         v1.Trace

	noAgent, stopped bool // no agent is connected; the agent was stopped on purpose
}

// addTraceLink adds a step to the trace; holds tells whether the step succeeded.
func (c *traceBuilder) addTraceLink(name string, holds bool, format string, args ...any) *v1.Link {
	c.out.Links = append(c.out.Links, v1.Link{Name: name, Holds: holds, Text: fmt.Sprintf(format, args...)})
	return &c.out.Links[len(c.out.Links)-1]
}

// addAllLinks adds the links from the declaration to the last delivery, and ends at the first
// failed link after which no later step can happen.
func (c *traceBuilder) addAllLinks() error {
	spec, err := c.addTargetLink()
	if err != nil {
		return err
	}
	st, ok := c.Events.Get(c.node, c.check)
	c.addAgentLinks(&st)
	c.addScheduleLinks(spec)
	c.addMissingPropertyLinks()
	if !ok {
		if c.check == model.IdentityCheck {
			c.addTraceLink("result", true, "none: no second machine has this node's identity")
			return nil
		}
		c.addReachedLimitLinks()
		c.addTraceLink("result", false, "%s", c.explainMissingResult(spec))
		return nil
	}
	c.addTraceLink("result", true, "%s; %d applied, %d lost; executed", st.Status, st.Results, st.Lost).At = view.TimeOfNanoseconds(st.Executed)
	c.addLateResultLink(spec, &st)
	text := fmt.Sprintf("%s, %d in a row, since", st.Status, st.Occurrences)
	if st.Expired {
		text = "no result arrived in time: " + text
	}
	c.addTraceLink("event", true, "%s", text).At = view.TimeOfNanoseconds(st.Changed)
	c.addStreamLinks(&st)
	if spec != nil {
		c.addPipelineLinks(spec.Pipelines)
	} else if c.check == model.KeepaliveCheck {
		c.addPipelineLinks(c.Directory.Keepalive(c.node).Pipelines)
	}
	if st.Problem == nil {
		c.addTraceLink("problem", st.Status == model.OK, "%s", explainMissingProblem(&st, spec))
		return nil
	}
	c.addTraceLink("problem", true, "%s is open since", st.Problem.ID).At = st.Problem.Opened
	if ack := st.Problem.Ack; ack.Active(c.Now()) {
		link := c.addTraceLink("held", false, "acknowledged by %s: no repeats and no next steps", strings.TrimSuffix(ack.By+": "+ack.Note, ": "))
		if link.At = ack.Until; !ack.Until.IsZero() {
			link.Text += ", until"
		}
	}
	holds := notification.ActiveHolds(c.View, st.Problem)
	waiting, err := c.routeHolds(st.Problem.ID, holds)
	if err != nil {
		return err
	}
	for _, h := range append(holds, waiting...) {
		link := c.addTraceLink("held", false, "%s", h.Text())
		if link.At = h.Until; !h.Until.IsZero() {
			link.Text += ", until"
		}
	}
	return c.addDeliveryLinks(st.Problem)
}

// routeHolds returns the holds of a problem's routes that are not among the known ones: the
// escalations have reasons of their own, such as a rate limit.
func (c *traceBuilder) routeHolds(problem string, known []v1.NotificationHold) (list []v1.NotificationHold, err error) {
	routes, err := c.History.EscalationsOf(c.ctx, problem)
	if err != nil {
		return nil, err
	}
	for _, e := range routes {
		if e.Held == nil || e.Held.Kind == route.Acknowledged {
			continue
		}
		if !slices.ContainsFunc(append(known, list...), func(h v1.NotificationHold) bool { return h.Kind == string(e.Held.Kind) }) {
			list = append(list, notification.ShowHolds([]route.Hold{*e.Held})...)
		}
	}
	return list, nil
}

// addAgentLinks adds links about the agent and its assignment, and keeps the state that later links need.
func (c *traceBuilder) addAgentLinks(st *event.State) {
	agent := c.agentLink(c.node)
	c.noAgent, c.stopped = !agent.Holds, !agent.Holds && c.Events.Summaries([]model.NodeID{c.node})[0].Stopped
	var idle []v1.IdleUnit // the check's unit, where the unit does not run
	if a, ok := c.Agent(c.node); ok {
		c.clockOffset = time.Duration(a.ClockOffsetMs) * time.Millisecond
		idle = slices.DeleteFunc(slices.Clone(a.IdleUnits), func(u v1.IdleUnit) bool { return u.ID != c.check })
	}
	if st.Executed != 0 && !st.Expired {
		c.lastRun = view.TimeOfNanoseconds(st.Executed).Add(-st.Duration)
	}
	c.out.Links = append(c.out.Links, agent)
	for _, u := range idle {
		c.addTraceLink("assignment", false, "%s", idleUnitText(u))
	}
	if c.targeted && agent.Holds {
		if held := c.assignmentLink(c.node); !held.Holds {
			c.out.Links = append(c.out.Links, held)
		}
	}
}

// addMissingPropertyLinks adds the properties that the check reads and the node does not have.
func (c *traceBuilder) addMissingPropertyLinks() {
	for _, f := range c.Directory.NodeFaults(c.node) {
		if f.Check == c.check || f.Check == 0 {
			c.addTraceLink("property", false, "%s", f.Text).Under = []v1.Link{
				{Text: "set it for this node, its groups, its namespace or all nodes: kind Property, or spec.properties of a Node or Group"},
			}
		}
	}
}

// reachedLimitAge is the age up to which a limit that was reached counts as a reason.
const reachedLimitAge = time.Hour

// addReachedLimitLinks adds a link for each namespace limit that refused results of the node in the last hour.
func (c *traceBuilder) addReachedLimitLinks() {
	for _, l := range c.Limits(c.out.Namespace) {
		if l.Node == c.out.Node && c.Now().Sub(l.Last) < reachedLimitAge {
			c.addTraceLink("limit", false, "the server refused or delayed results of this node: %s; raise spec.limits.%s: muster edit namespace %s; last", l.Reason, l.Name, c.out.Namespace).At = l.Last
		}
	}
}

// addTargetLink explains the target that places the check on the node. spec is nil for a built-in check.
func (c *traceBuilder) addTargetLink() (*model.CheckSpec, error) {
	why, ok := c.Directory.ExplainCheck(c.node, c.check)
	if !ok {
		c.addTraceLink("wanted", true, "check %s is built in: every node has it", c.out.Check)
		return nil, nil
	}
	c.targeted = why.Lands
	wanted := len(c.out.Links)
	c.addTraceLink("wanted", why.Lands, "%s", why.Text).Under = nodes.ReasonLinks(why.Under)
	namespace, name, _ := c.Directory.CheckName(c.check)
	key := intent.Key{Kind: "Check", Namespace: namespace, Name: name}
	declared, err := c.declarationLink(c.ctx, key)
	if err != nil {
		return nil, err
	}
	c.out.Links = append(c.out.Links, declared)
	r, err := c.Intent.Get(c.ctx, key)
	if err != nil {
		return nil, err
	}
	spec, _ := r.Spec.(*model.CheckSpec)
	if spec != nil && spec.Passive {
		c.out.Links[wanted].Holds = true // a passive check needs no target
	}
	return spec, nil
}

// explainMissingResult explains why the check has no result: by the first failed link, else that the first run is not due yet.
func (c *traceBuilder) explainMissingResult(spec *model.CheckSpec) string {
	for _, link := range c.out.Links {
		if !link.Holds {
			return "none: " + strings.TrimSuffix(link.Text, lastHeardText)
		}
	}
	if spec != nil && spec.Passive {
		return "none: no sender has reported this node"
	}
	if c.usesCron {
		return "none yet: the first run is at the time above"
	}
	return "none yet: a new check runs within 10 seconds; the result arrives when it ends"
}

// explainMissingProblem explains why an event has no open problem.
func explainMissingProblem(st *event.State, spec *model.CheckSpec) string {
	if st.Status == model.OK {
		return "none open: the status is OK"
	}
	if spec != nil && spec.Alert != nil && spec.Alert.FailAfter > 1 {
		return fmt.Sprintf("none open yet: %d of %d consecutive results that are not OK (alert.failAfter)", st.Failing, spec.Alert.FailAfter)
	}
	return "none open: this status opens no problem"
}

func (c *traceBuilder) addDeliveryLinks(problem *model.Problem) error {
	list, err := c.History.Deliveries(c.ctx, problem.ID)
	if err != nil {
		return err
	}
	for _, d := range list {
		link := c.addTraceLink("told", d.State != history.Dead, "%s (%s): %s", d.Handler.Name, d.Kind, d.State)
		switch link.At = d.Ended; d.State {
		case history.Pending:
			if link.Text = fmt.Sprintf("%s (%s): waiting, due", d.Handler.Name, d.Kind); d.Attempts > 0 {
				link.Text, link.Holds = fmt.Sprintf("%s (%s): failed %s, next attempt", d.Handler.Name, d.Kind, repetitionsText(d.Attempts)), false
			}
			link.At = d.NextAt
		case history.Withheld:
			link.Text, link.Holds = fmt.Sprintf("%s: not sent: %s", d.Handler.Name, d.LastError), false
			continue
		case history.Shadow:
			link.Text = fmt.Sprintf("%s (%s): not sent, the namespace is a shadow (notifications: shadow)", d.Handler.Name, d.Kind)
		case history.Dead:
			link.Text = fmt.Sprintf("%s (%s): gave up after %d attempts", d.Handler.Name, d.Kind, d.Attempts)
		}
		if d.LastError != "" {
			link.Under = []v1.Link{{Text: "last error: " + d.LastError}}
		}
	}
	if len(list) > 0 {
		return nil
	}
	chunk := notification.OpeningChunk(c.View, problem)
	if chunk == nil {
		chunk = notification.AssignedChunk(c.View, c.node, c.check)
	}
	to, by := notification.Routes(c.View, route.Describe(c.Directory, c.node, problem.Source, problem.Status, problem.Severity), chunk)
	switch by {
	case route.ByPipelines:
		c.addTraceLink("told", true, "only the handlers of pipelines: %s names pipelines but no route and no handlers, and no route matches", notification.DeclaringResource(c.check))
	case route.NoRecipient:
		c.addTraceLink("told", false, "nobody: the check names no route (alert.route), no route matches, none is called default, and namespace %s names no handlers", c.out.Namespace)
	case route.ByHandlers, route.ByNamespace:
		var named []string
		for _, name := range to[0].Steps[0].To {
			if _, ok := c.Directory.Handler(name.Namespace, name.Name); !ok {
				c.addTraceLink("told", false, "handler %s does not exist in namespace %s: muster get handlers -n %s", name.Name, name.Namespace, name.Namespace)
				return nil
			}
			text := name.Name
			if name.Namespace != c.out.Namespace {
				text = name.String()
			}
			named = append(named, text)
		}
		c.addTraceLink("told", false, "nobody yet: %s follows once history has recorded the problem; muster status shows its delay", strings.Join(named, ", "))
	default:
		c.addTraceLink("told", false, "nobody yet: %s", c.firstStepsText(to))
	}
	return nil
}

// firstStepsText describes when and to whom the first step of each route notifies.
func (c *traceBuilder) firstStepsText(routes []*route.Route) string {
	var parts []string
	for _, r := range routes {
		var names []string
		for _, to := range r.Steps[0].To {
			names = append(names, to.String())
		}
		text := fmt.Sprintf("route %s notifies %s", r.Name, strings.Join(names, ", "))
		if r.Steps[0].After > 0 {
			text += " after " + model.Duration(r.Steps[0].After).String()
		}
		parts = append(parts, text)
	}
	return fmt.Sprintf("%s; step by step: muster route test %s/%s", strings.Join(parts, "; "), c.out.Node, c.out.Check)
}

func repetitionsText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// explainRequest is one API request of muster why.
type explainRequest struct{ op.Request }

// Register adds the operations of muster why.
func Register(r *op.Routes) {
	at := op.NewOperationSet(r, func(q op.Request) *explainRequest { return &explainRequest{q} })
	op.Handle(at, op.Get("whyNode", "/api/v1/why/{namespace}/{node}", "nodes", "The reasons for a node's groups and checks"), access.NeedOn(access.Read, "Node"), (*explainRequest).explainNode)
	op.Handle(at, op.Get("whyCheck", "/api/v1/why/{namespace}/{node}/{check}", "events",
		"The chain from the declaration of a check to its notifications, with the reason for each missing step"), access.NeedOn(access.Read, "event"), (*explainRequest).explainCheck)
}

// addPipelineLinks adds the last verdict of each workflow on the event.
func (c *traceBuilder) addPipelineLinks(names []string) {
	if len(names) == 0 {
		return
	}
	v, ok := c.Verdicts(c.node, c.check)
	if !ok {
		next := "the next result"
		if c.check == model.KeepaliveCheck {
			next = "its next change"
		}
		c.addTraceLink("pipelines", false, "no event since the server started or since %s names them; they get %s", notification.DeclaringResource(c.check), next)
		return
	}
	for i := range v.List {
		one := &v.List[i]
		switch {
		case one.Workflow == nil:
			c.addTraceLink("pipelines", false, "%s: %s", one.Pipeline.Name, one.Reason)
			continue
		case one.Pass:
			c.addTraceLink("pipelines", true, "%s: passed on to handler %s", one.Name(), one.Handler().Name).At = v.At
		case one.Filter == "":
			c.addTraceLink("pipelines", false, "%s: %s", one.Name(), one.Reason).At = v.At
		default:
			c.addTraceLink("pipelines", false, "%s: filter %s dropped it: %s; seen", one.Name(), one.Filter, one.Reason).At = v.At
		}
		for _, failed := range one.Failed {
			link := &c.out.Links[len(c.out.Links)-1]
			link.Under = append(link.Under, v1.Link{Text: "evaluation failed, without effect: " + failed})
		}
	}
}

// addStreamLinks adds the handlers that receive every result of the event, and their delay.
func (c *traceBuilder) addStreamLinks(st *event.State) {
	list := c.Directory.Streams()
	names := slices.SortedFunc(maps.Keys(list), func(a, b route.Name) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	for _, name := range names {
		picks, err := route.MatchFunc(name.Namespace, list[name].Stream.Only)
		if err != nil || !picks(route.Describe(c.Directory, c.node, model.CheckSource(c.check), st.Status, st.Severity)) {
			continue
		}
		s, ok := c.Stream(name)
		switch {
		case !ok:
			c.addTraceLink("streamed", false, "handler %s gets every result and is starting", name)
		case c.Directory.Shadow(c.out.Namespace):
			c.addTraceLink("streamed", true, "handler %s would get every result, but the namespace is a shadow (notifications: shadow)", name)
		case s.Trouble != "":
			c.addTraceLink("streamed", false, "handler %s gets every result and is %s behind: %s", name, roundedDurationText(s.BehindSeconds), s.Trouble)
		default:
			c.addTraceLink("streamed", true, "handler %s gets every result; %s behind", name, roundedDurationText(s.BehindSeconds))
		}
	}
}

func roundedDurationText(s float64) string {
	return fmt.Sprint(time.Duration(s * float64(time.Second)).Round(time.Second))
}
