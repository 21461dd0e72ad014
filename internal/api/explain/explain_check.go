// Package explain answers muster why: for a node, the reasons for its groups and checks; for a check on a node, the
// chain from its declaration to the last delivery, with the reason where the chain ends early.
//
// Start reading at traceBuilder.addAllSteps.
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

// explainCheck answers the command muster why for a check on a node, from its declaration to its notifications.
func (s *explainRequest) explainCheck(ctx context.Context, in *events.Path) (*op.Body[v1.Trace], error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
	}
	source, err := events.FindSourceOnNode(ctx, s.View, node, *in)
	if err != nil {
		return nil, err
	}
	c := traceBuilder{explainRequest: s, ctx: ctx, node: node, source: source, check: model.CheckID(source.ID), out: v1.Trace{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Definition: s.View.Definition(source)}}
	if err := c.addAllSteps(); err != nil {
		return nil, err
	}
	return op.Answer(c.out), nil
}

// declarationStep returns the trace step about the last change of a resource. It has the author, revision and reason.
func (s *explainRequest) declarationStep(ctx context.Context, key intent.Key) (v1.Link, error) {
	entries, err := s.Intent.Audit(ctx, intent.ChangeQuery{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Limit: 1}, true)
	if err != nil || len(entries) == 0 {
		return v1.Link{Name: "declared", Text: fmt.Sprintf("%s %s: no record", strings.ToLower(key.Kind), key.Name)}, err
	}
	last := resources.ShowChange(&entries[0])
	text := fmt.Sprintf("%s %s was %sd by %s", strings.ToLower(key.Kind), key.Name, last.Op, last.User) // created, updated
	if last.Address != "" {
		text += " from " + last.Address
	}
	text += fmt.Sprintf(", revision %d", last.Revision)
	if last.Message != "" {
		text += ": " + last.Message
	}
	return v1.Link{Name: "declared", Holds: true, Text: text, At: last.At}, nil
}

// traceBuilder builds the steps by which muster why explains a check on a node. The steps go from the declaration to
// the notifications.
type traceBuilder struct {
	*explainRequest
	ctx         context.Context
	node        model.NodeID
	source      model.Source
	check       model.CheckID // or the Template of a trigger
	targeted    bool          // the check's targets include the node
	lastRun     time.Time     // start of the last known run
	clockOffset time.Duration // difference of the node's clock to the server's
	usesCron    bool          // the schedule of the check is a cron expression
	out         v1.Trace

	noAgent, stopped bool // no agent is connected; the agent was stopped on purpose
}

// addTraceStep adds a step with a name and a text to the trace. Parameter holds is false if nothing follows because of
// this step.
func (c *traceBuilder) addTraceStep(name string, holds bool, format string, args ...any) *v1.Link {
	c.out.Links = append(c.out.Links, v1.Link{Name: name, Holds: holds, Text: fmt.Sprintf(format, args...)})
	return &c.out.Links[len(c.out.Links)-1]
}

// addAllSteps adds all steps of the trace, from the declared check to its notifications. It stops at a step that
// failed.
func (c *traceBuilder) addAllSteps() error {
	spec, err := c.addTargetStep()
	if err != nil {
		return err
	}
	st, ok := c.Events.Get(c.node, c.source)
	if c.source.Kind != model.SourceRule { // no agent takes part
		c.addAgentSteps(&st)
		c.addScheduleSteps(spec)
		c.addMissingPropertySteps()
	}
	if !ok {
		if text := quietChecks[c.check]; text != "" {
			c.addTraceStep("result", true, "none: %s", text)
			return nil
		}
		c.addReachedLimitSteps()
		c.addTraceStep("result", false, "%s", c.explainMissingResult(spec))
		return nil
	}
	c.addTraceStep("result", true, "%s; %d applied, %d lost; executed", st.Status, st.Results, st.Lost).At = view.TimeOfNanoseconds(st.Executed)
	c.addLateResultStep(spec, &st)
	text := fmt.Sprintf("%s, %d in a row, since", st.Status, st.Occurrences)
	if st.Expired {
		text = "no result arrived in time: " + text
	}
	c.addTraceStep("event", true, "%s", text).At = view.TimeOfNanoseconds(st.Changed)
	c.addStreamSteps(&st)
	if spec != nil {
		c.addPipelineSteps(spec.Pipelines)
	} else if c.check == model.KeepaliveCheck {
		c.addPipelineSteps(c.Directory.Keepalive(c.node).Pipelines)
	}
	if st.Problem == nil && st.Status == model.OK && c.check == model.KeepaliveCheck {
		c.out.Links = append(c.out.Links, c.keepaliveDeadlineStep())
		return c.addUnsentDeliverySteps()
	}
	if st.Problem == nil {
		c.addTraceStep("problem", st.Status == model.OK, "%s", explainMissingProblem(&st, spec))
		return c.addUnsentDeliverySteps()
	}
	link := c.addTraceStep("problem", true, "%s is open since", st.Problem.ID)
	link.At = st.Problem.Opened
	for _, name := range slices.Sorted(maps.Keys(st.Problem.Labels)) {
		link.Steps = append(link.Steps, v1.Link{Holds: true, Text: "label " + name + "=" + st.Problem.Labels[name]})
	}
	if st.Problem.Description != "" {
		link.Steps = append(link.Steps, v1.Link{Holds: true, Text: st.Problem.Description})
	}
	if ack := st.Problem.Ack; ack.Active(c.Now()) {
		link := c.addTraceStep("on hold", false, "acknowledged by %s: no repeats and no next steps", strings.TrimSuffix(ack.By+": "+ack.Note, ": "))
		if link.At = ack.Until; !ack.Until.IsZero() {
			link.Text += ", until"
		}
	}
	for _, h := range notification.ActiveHolds(c.View, st.Problem) {
		link := c.addTraceStep("on hold", false, "%s", h.Text())
		if link.At = h.Until; !h.Until.IsZero() {
			link.Text += ", until"
		}
	}
	return c.addDeliverySteps(st.Problem)
}

// addAgentSteps adds steps about the agent and its assignment to the trace.
func (c *traceBuilder) addAgentSteps(st *event.State) {
	agent := c.agentStep(c.node)
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
		c.addTraceStep("assignment", false, "%s", notRunningReason(u))
	}
	if c.targeted && agent.Holds {
		if held := c.assignmentStep(c.node); !held.Holds {
			c.out.Links = append(c.out.Links, held)
		}
	}
}

// addMissingPropertySteps adds a trace step for each property that the check reads and the node lacks
func (c *traceBuilder) addMissingPropertySteps() {
	for _, f := range c.Directory.NodeFaults(c.node) {
		if f.Check == 0 {
			c.addTraceStep("error", false, "%s", f.Text)
		} else if f.Check == c.check {
			c.addTraceStep("property", false, "%s", f.Text).Steps = []v1.Link{
				{Text: "set it for this node, its groups, its namespace or all nodes: kind Property, or spec.properties of a Node or Group"},
			}
		}
	}
}

// reachedLimitAge is the greatest age of a reached limit that counts as a reason.
const reachedLimitAge = time.Hour

// addReachedLimitSteps adds a trace step for each namespace limit that recently refused results of the node.
// Only the last hour counts.
func (c *traceBuilder) addReachedLimitSteps() {
	for _, l := range c.Limits(c.out.Namespace) {
		if l.Node == c.out.Node && c.Now().Sub(l.Last) < reachedLimitAge {
			c.addTraceStep("limit", false, "the server refused or delayed results of this node: %s; raise spec.limits.%s: muster edit namespace %s; last", l.Reason, l.Name, c.out.Namespace).At = l.Last
		}
	}
}

// addTargetStep adds a trace step with the part of the check's targets that selects the node. spec is nil for a
// built-in check.
func (c *traceBuilder) addTargetStep() (*model.CheckSpec, error) {
	switch c.source.Kind {
	case model.SourceTrigger:
		return nil, c.addTemplateStep()
	case model.SourceRule:
		return nil, c.addRuleGroupStep()
	}
	why, ok := c.Directory.ExplainCheck(c.node, c.check)
	if !ok {
		switch {
		case !model.IsServerCheck(c.check):
			c.addTraceStep("assigned", true, "check %s is built in: every node has it", c.out.Check)
		case c.out.Node == model.ServerNodeName:
			c.addTraceStep("assigned", true, "check %s is built in: the server reports about itself", c.out.Check)
		default:
			c.addTraceStep("assigned", false, "check %s is about the server: muster why %s/%s", c.out.Check, model.ServerNodeName, c.out.Check)
		}
		return nil, nil
	}
	kind := "Check"
	if c.source.Kind == model.SourceDirective {
		kind = "Directive"
	}
	c.targeted = why.Lands
	assigned := len(c.out.Links)
	c.addTraceStep("assigned", why.Lands, "%s", why.Text).Steps = nodes.ReasonLinks(why.Steps)
	namespace, name, _ := c.Directory.SourceName(c.source)
	key := intent.Key{Kind: kind, Namespace: namespace, Name: name}
	declared, err := c.declarationStep(c.ctx, key)
	if err != nil {
		return nil, err
	}
	c.out.Links = append(c.out.Links, declared)
	if err := c.addWaiverSteps(); err != nil {
		return nil, err
	}
	r, err := c.Intent.Get(c.ctx, key)
	if err != nil {
		return nil, err
	}
	spec, _ := r.Spec.(*model.CheckSpec)
	if spec != nil && spec.Passive {
		c.out.Links[assigned].Holds = true // a passive check needs no target
	}
	return spec, nil
}

// quietChecks has, for the built-in checks of nodes that report trouble only, the text about a node without a result.
var quietChecks = map[model.CheckID]string{
	model.IdentityCheck: "no second machine has this node's identity",
	model.LimitsCheck:   "this node reached no limit of its namespace",
	model.MetricsCheck:  "no Sensu agent sent metrics of this node without a check",
}

// addTemplateStep adds a trace step about the Template that contains the trigger. It tells whether the Template
// applies to the node, and its last change.
func (c *traceBuilder) addTemplateStep() error {
	namespace, name, _ := c.Directory.SourceName(c.source)
	c.targeted = c.Directory.RunsUnit(c.node, c.check)
	if c.targeted {
		c.addTraceStep("assigned", true, "template %s lands on the node", name)
	} else {
		c.addTraceStep("assigned", false, "the node is no target of template %s: muster describe template %s", name, name)
	}
	declared, err := c.declarationStep(c.ctx, intent.Key{Kind: "Template", Namespace: namespace, Name: name})
	c.out.Links = append(c.out.Links, declared)
	return err
}

// addWaiverSteps adds trace steps for a directive's grace period and its Waivers (permitted exceptions). A Waiver
// counts if it covers components of the directive on the node.
func (c *traceBuilder) addWaiverSteps() error {
	unit := c.Directory.SourceUnit(c.source)
	if unit == nil || unit.Definition.AsDirective() == nil {
		return nil
	}
	if grace := unit.Definition.AsDirective().Grace; grace > 0 {
		c.addTraceStep("grace", true, "a node that newly gets the directive, or a changed one, is no problem for %s", model.Duration(grace))
	}
	waivers, err := c.ReadWaivers(c.ctx)
	if err != nil {
		return err
	}
	for _, w := range waivers.Covering(c.node, unit.Definition.AsDirective()) {
		c.addTraceStep("waiver", true, "%s; it expires", w.Text()).At = w.Expires
	}
	return nil
}

// addRuleGroupStep adds a trace step about the rule and the RuleGroup that raise an alert. A second step tells the
// last change of the RuleGroup.
func (c *traceBuilder) addRuleGroupStep() error {
	namespace, name, _ := c.Directory.SourceName(c.source)
	unit := c.Directory.SourceUnit(c.source)
	rule := unit.Definition.AsRuleGroup().AlertRule(c.source.Instance)
	switch {
	case rule == nil:
		c.addTraceStep("assigned", false, "rulegroup %s has no rule of this alert: muster describe rulegroup %s", name, name)
	case unit.Disabled:
		c.addTraceStep("assigned", false, "rulegroup %s is disabled", name)
	default:
		c.addTraceStep("assigned", true, "rulegroup %s evaluates the alert every %s; see its state: muster get rules", name, model.Duration(unit.Definition.AsRuleGroup().Interval))
	}
	declared, err := c.declarationStep(c.ctx, intent.Key{Kind: "RuleGroup", Namespace: namespace, Name: name})
	c.out.Links = append(c.out.Links, declared)
	return err
}

// explainMissingResult returns the reason why a check has no result, such as an agent without a connection.
func (c *traceBuilder) explainMissingResult(spec *model.CheckSpec) string {
	for _, link := range c.out.Links {
		if !link.Holds {
			return "none: " + strings.TrimSuffix(link.Text, lastHeardText)
		}
	}
	if c.source.Kind == model.SourceDirective {
		return c.explainMissingRun()
	}
	if spec != nil && spec.Passive {
		return "none: no sender has reported this node"
	}
	if c.usesCron {
		return "none: the first run is at the time above"
	}
	return "none: a new check runs within 10 seconds; the result arrives when it ends"
}

// explainMissingRun explains why a policy directive has no event on the node. Either its runs were compliant, or the
// first run has not come.
func (c *traceBuilder) explainMissingRun() string {
	name := c.out.Node + "/" + strings.TrimSuffix(c.out.Check, ":"+model.ComplianceInstance)
	unit := c.Directory.SourceUnit(c.source)
	if unit != nil && unit.Definition.AsDirective() != nil && unit.Definition.AsDirective().Cron != "" {
		return "none: the event begins with the first run that is not compliant, and the directive runs at " + unit.Definition.AsDirective().Cron + "; see its last run: muster describe compliance " + name
	}
	if unit != nil && unit.Definition.AsDirective() != nil && unit.Definition.AsDirective().OneShot != nil {
		return "none: the event begins with a run that is not compliant, and the node runs the directive once; see the run: muster describe compliance " + name
	}
	return "none: the event begins with the first run that is not compliant; see the last run: muster describe compliance " + name
}

// explainMissingProblem explains why an event has no open problem.
func explainMissingProblem(st *event.State, spec *model.CheckSpec) string {
	if st.Status == model.OK {
		return "none open: the status is OK"
	}
	if spec != nil && spec.Alert != nil && spec.Alert.FailAfter > 1 {
		return fmt.Sprintf("none open: %d of %d consecutive results that are not OK (alert.failAfter)", st.Failing, spec.Alert.FailAfter)
	}
	return "none open: this status opens no problem"
}

// keepaliveDeadlineStep returns the trace step with the time at which missing heartbeats would open a problem.
// It tells when a problem opens if the agent stays silent, or why none opens.
func (c *traceBuilder) keepaliveDeadlineStep() v1.Link {
	link := v1.Link{Name: "problem", Holds: true}
	node := c.Events.Summaries([]model.NodeID{c.node})[0]
	fails := view.TimeOfNanoseconds(node.LastHeartbeat + node.Silence)
	switch {
	case node.Stopped:
		link.Text = "none open: a user stopped the agent, so the server expects no heartbeat"
	case node.Silence == 0:
		link.Text = "none open: the status is OK"
	case !c.noAgent:
		link.Text = "none open: a problem opens after " + model.TimeSpan(time.Duration(node.Silence)) + " without a heartbeat"
	case fails.After(c.Now()):
		link.Text, link.At = "none open: the agent is silent; without a heartbeat a problem opens", fails
	default:
		link.Text = "none open: the agent is silent; a problem opens unless the agent returns within the time that agents have after a start of the server (--reconnect-grace)"
	}
	return link
}

// addDeliverySteps adds a trace step for each notification (delivery) about the problem, with its state
func (c *traceBuilder) addDeliverySteps(problem *model.Problem) error {
	list, err := c.History.Deliveries(c.ctx, problem.ID)
	if err != nil {
		return err
	}
	for i := range list {
		c.addDeliveryStep(&list[i])
	}
	routes, err := c.History.EscalationsOf(c.ctx, problem.ID)
	if err != nil {
		return err
	}
	for i := range routes {
		c.addEscalationStep(problem, &routes[i], list)
	}
	return c.explainMissingDelivery(problem, list, routes)
}

// addDeliveryStep adds a trace step about one notification to a handler. It tells whether the handler accepted, or
// since when it fails, with its answer and the next attempt.
func (c *traceBuilder) addDeliveryStep(d *history.Delivery) {
	link := c.addTraceStep("notified", d.State != history.Dead, "%s (%s): %s", d.Handler.Name, d.Kind, d.State)
	switch link.At = d.Ended; d.State {
	case history.Pending:
		if link.Text = fmt.Sprintf("%s (%s): waiting, due", d.Handler.Name, d.Kind); d.Attempts > 0 {
			link.Text, link.Holds = fmt.Sprintf("%s (%s): not notified, failed %s, next attempt", d.Handler.Name, d.Kind, repetitionsText(d.Attempts)), false
			link.Steps = []v1.Link{{Text: "failing since", At: d.AttemptsStart()}}
		}
		link.At = d.NextAt
	case history.Withheld:
		link.Text, link.Holds = fmt.Sprintf("%s: not sent: %s", d.Handler.Name, d.LastError), false
		return
	case history.Shadow:
		link.Text = fmt.Sprintf("%s (%s): not sent, the namespace is a shadow (notifications: shadow)", d.Handler.Name, d.Kind)
	case history.Dead:
		link.Text = fmt.Sprintf("%s (%s): not notified, gave up after %s; send it again: muster handler replay %s", d.Handler.Name, d.Kind, model.CountNoun(d.Attempts, "attempt"), c.handlerArgument(d.Handler))
	}
	if d.LastError != "" {
		link.Steps = append(link.Steps, v1.Link{Text: "last error: " + d.LastError})
	}
}

// handlerArgument formats a handler's name as a command-line argument, with -n NAMESPACE outside namespace
// default. Outside namespace default, -n and the namespace follow.
func (c *traceBuilder) handlerArgument(h history.HandlerRef) string {
	if h.Namespace == model.DefaultNamespaceName {
		return h.Name
	}
	return h.Name + " -n " + h.Namespace
}

// addUnsentDeliverySteps adds a trace step for each unsent notification about the event's last, closed problem.
// The notification of the recovery can be among them.
func (c *traceBuilder) addUnsentDeliverySteps() error {
	last, err := c.History.Problems(c.ctx, history.ProblemQuery{Namespace: c.out.Namespace, NodeID: c.node, Check: c.out.Check, Limit: 1})
	if err != nil || len(last) == 0 || last[0].Closed.IsZero() {
		return err
	}
	list, err := c.History.Deliveries(c.ctx, last[0].ID)
	list = slices.DeleteFunc(list, func(d history.Delivery) bool { return d.State != history.Pending && d.State != history.Dead })
	if len(list) == 0 {
		return err
	}
	c.addTraceStep("problem", true, "%s, the last one, has closed", last[0].ID).At = last[0].Closed
	for i := range list {
		c.addDeliveryStep(&list[i])
	}
	return nil
}

// addEscalationStep adds a step about a route's next notification, or the reason why the route sends none.
func (c *traceBuilder) addEscalationStep(problem *model.Problem, e *history.Escalation, deliveries []history.Delivery) {
	ns, name := model.SplitRef("", e.Route)
	to, ok := c.Routing.Route(route.Name{Namespace: ns, Name: name})
	who := "the handlers of the check"
	switch {
	case e.Closing != nil:
		return // the problem closes
	case e.Route != "" && !ok && len(e.Notified) > 0:
		c.addTraceStep("next", true, "route %s is deleted: %s, notified through it, will be notified of the closing", c.shortName(route.Name{Namespace: ns, Name: name}), c.handlerNamesText(notifiedHandlerNames(e.Notified)))
		return
	case e.Route != "" && !ok:
		c.addTraceStep("notified", false, "route %s is deleted: the server moves the problem to its present routes in a moment", c.shortName(route.Name{Namespace: ns, Name: name}))
		return
	case ok:
		who = "route " + c.shortName(to.Name)
	case len(e.Direct) > 0:
		to = route.NewDirectRoute(handlerNames(e.Direct))
		who = "handlers " + c.handlerNamesText(to.Steps[0].To)
	}
	step, due, waits := e.Next.Due()
	hold := c.holdReasonAt(problem, e.Route, due)
	switch {
	case e.Hold != nil && e.Hold.Until.IsZero():
		c.addTraceStep("notified", false, "%s: not notified, because %s; %s", who, holdReason(e.Hold), c.endHoldCommand(e.Hold))
	case e.Hold != nil:
		c.addTraceStep("notified", false, "%s: not notified, because %s; %s, or wait for the end of the hold", who, holdReason(e.Hold), c.endHoldCommand(e.Hold)).At = e.Hold.Until
	case !waits:
		notified, holds := c.notifiedHandlersText(e, deliveries)
		c.addTraceStep("notified", holds, "%s: %s, and no later step or repetition is due", who, notified)
	case len(e.Notified) > 0:
		c.addTraceStep("next", true, "%s: %s, if still open and not acknowledged,", who, c.handlerNamesText(to.Steps[step].To)).At = due
	case hold != nil:
		c.addTraceStep("notified", false, "%s will notify %s at the end of the hold, if the problem is open then: %s", who, c.handlerNamesText(to.Steps[step].To), hold.Text())
	default:
		pause := "groupWait " + model.Duration(to.GroupWait).String()
		if after := to.Steps[step].After; due.Sub(e.Opened) >= after && after > 0 {
			pause = "after " + model.Duration(after).String()
		}
		text := fmt.Sprintf("%s will notify %s: waits (%s) until", who, c.handlerNamesText(to.Steps[step].To), pause)
		if !due.After(c.Now()) {
			text = fmt.Sprintf("%s must notify %s, but history lags behind (muster status); due since", who, c.handlerNamesText(to.Steps[step].To))
		}
		c.addTraceStep("notified", false, "%s", text).At = due
	}
	if len(e.Notified) == 0 && waits {
		c.addMissingHandlerSteps(to.Steps[step].To)
	}
}

// holdReasonAt returns the reason, such as a silence, why a route's notification waits beyond its time, or nil.
func (c *traceBuilder) holdReasonAt(problem *model.Problem, routeName string, due time.Time) *v1.NotificationHold {
	for _, h := range notification.ActiveHolds(c.View, problem) {
		if (h.Until.IsZero() || h.Until.After(due)) && !h.Drop && (h.Kind != string(route.Muted) || h.By == routeName) {
			return &h
		}
	}
	return nil
}

// notifiedHandlerNames converts the stored references to notified handlers to handler names.
func notifiedHandlerNames(list []history.NotifiedHandler) (names []route.Name) {
	for _, k := range list {
		names = append(names, route.Name(k.HandlerRef))
	}
	return names
}

// notifiedHandlersText describes which handlers of a route were notified. It names the previous route of a problem that has
// moved to another route. It returns false if a handler has accepted no message.
func (c *traceBuilder) notifiedHandlersText(e *history.Escalation, deliveries []history.Delivery) (text string, all bool) {
	if len(e.Notified) == 0 {
		return "nobody is notified", true
	}
	all = true
	parts := make([]string, len(e.Notified))
	for i, k := range e.Notified {
		parts[i] = c.shortName(route.Name(k.HandlerRef)) + " is notified"
		if unsent := unsentReasonText(k.HandlerRef, deliveries); unsent != "" {
			parts[i], all = c.shortName(route.Name(k.HandlerRef))+unsent, false
			continue
		}
		own := func(d history.Delivery) bool { return d.Handler == k.HandlerRef && d.Route == e.Route }
		other := slices.IndexFunc(deliveries, func(d history.Delivery) bool { return d.Handler == k.HandlerRef })
		if other < 0 || slices.ContainsFunc(deliveries, own) {
			continue
		}
		if parts[i] += " already"; deliveries[other].Route != "" {
			ns, name := model.SplitRef("", deliveries[other].Route)
			parts[i] += " through route " + c.shortName(route.Name{Namespace: ns, Name: name})
		}
	}
	return strings.Join(parts, ", "), all
}

// unsentReasonText describes why a handler has accepted no notification of a problem. It returns "" if the handler accepted
// one or got none.
func unsentReasonText(handler history.HandlerRef, deliveries []history.Delivery) (text string) {
	for _, d := range deliveries {
		switch {
		case d.Handler != handler:
		case d.State == history.Pending && d.Attempts > 0:
			text = " is not notified, its message fails and is tried again"
		case d.State == history.Pending:
			text = " is not notified, its message waits to be sent"
		case d.State == history.Dead:
			text = " is not notified, its message was given up"
		default:
			return ""
		}
	}
	return text
}

// explainMissingDelivery adds the reason why no handler is notified of a problem. It also tells why a matching
// route is not used.
func (c *traceBuilder) explainMissingDelivery(problem *model.Problem, deliveries []history.Delivery, escalations []history.Escalation) error {
	to, by := notification.Routes(c.View, route.NewProblem(c.Directory, c.node, problem.Source, problem.Status, problem.Severity, problem.Labels), notification.Definition(c.View, c.node, c.source))
	if to = slices.DeleteFunc(to, func(r *route.Route) bool {
		return slices.ContainsFunc(escalations, func(e history.Escalation) bool {
			return e.Route == r.Name.String() || e.Route == "" && r.Name.Name == ""
		}) ||
			!slices.ContainsFunc(r.Steps[0].To, func(name route.Name) bool {
				return !slices.ContainsFunc(deliveries, func(d history.Delivery) bool { return d.Handler == history.HandlerRef(name) })
			})
	}); len(to) == 0 && len(deliveries)+len(escalations) > 0 {
		return nil
	}
	switch by {
	case route.ByPipelines:
		c.addTraceStep("notified", true, "only the handlers of pipelines: %s names pipelines but no route and no handlers, and no route matches", notification.DeclaringResourceText(c.check))
		return nil
	case route.NoRecipient:
		names := "the check names"
		if c.source.Kind == model.SourceDirective {
			names = "its policies name"
		}
		c.addTraceStep("notified", false, "not notified, because %s no route (alert.route), no route matches, none is called default, and namespace %s names no handlers; "+
			"to notify now: apply a Route called default (muster explain route)", names, c.out.Namespace)
		return nil
	}
	for _, r := range to {
		for _, step := range r.Steps {
			c.addMissingHandlerSteps(step.To)
		}
	}
	_, err := c.History.Problem(c.ctx, problem.ID)
	switch {
	case model.ClassOf(err) == model.NotFound:
		c.addTraceStep("notified", false, "not notified, because history has not recorded the problem; muster status shows the delay; then %s", c.firstStepsText(to))
		return nil
	case err != nil:
		return err
	}
	const never, not = "no route took the problem when it opened, and", "the problem did not match when it opened, and"
	c.addTraceStep("notified", false, "not notified, because %s now %s; to notify now: %s",
		map[bool]string{true: never, false: not}[len(deliveries)+len(escalations) == 0], c.firstStepsText(to), c.eventCommand("notify"))
	return nil
}

// addMissingHandlerSteps adds a trace step for each handler of a route that does not exist.
func (c *traceBuilder) addMissingHandlerSteps(names []route.Name) {
	for _, name := range names {
		if _, ok := c.Directory.Handler(name.Namespace, name.Name); !ok {
			c.addTraceStep("notified", false, "handler %s does not exist in namespace %s: apply the handler; list handlers: muster get handlers -n %s", name.Name, name.Namespace, name.Namespace)
		}
	}
}

// holdReason describes in words why a notification waits, such as "silenced by default/moving (ann): moving racks".
func holdReason(h *route.Hold) string {
	return notification.ShowHolds([]route.Hold{*h})[0].Text()
}

// endHoldCommand returns the command line that ends a silence or other reason why notifications wait.
func (c *traceBuilder) endHoldCommand(h *route.Hold) string {
	flag := ""
	if h.By.Namespace != model.DefaultNamespaceName {
		flag = " -n " + h.By.Namespace
	}
	switch h.Kind {
	case route.Silenced:
		return "to notify now: muster silence end " + h.By.Name + flag
	case route.Maintenance:
		return "to notify now: muster edit window " + h.By.Name + flag
	case route.Muted, route.OverRate:
		return "to notify now: muster edit route " + h.By.Name + flag
	case route.Acknowledged:
		return "to notify now: " + c.eventCommand("unack")
	case route.Earlier:
		return "to notify now: " + c.eventCommand("notify")
	}
	return "handlers are notified when the hold has ended"
}

// eventCommand returns the command line "muster event VERB" for the traced event.
func (c *traceBuilder) eventCommand(verb string) string {
	text := "muster event " + verb + " " + c.out.Node + "/" + c.out.Check
	if c.out.Namespace != model.DefaultNamespaceName {
		text += " -n " + c.out.Namespace
	}
	return text
}

// handlerNames converts references to handlers in history rows to names with namespace.
func handlerNames(refs []history.HandlerRef) (names []route.Name) {
	for _, ref := range refs {
		names = append(names, route.Name(ref))
	}
	return names
}

// shortName returns a handler's or route's name, prefixed with its namespace unless the event has the same
// namespace.
func (c *traceBuilder) shortName(n route.Name) string {
	if n.Namespace == c.out.Namespace {
		return n.Name
	}
	return n.String()
}

// handlerNamesText joins handler names with commas, and omits the event's own namespace.
func (c *traceBuilder) handlerNamesText(names []route.Name) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = c.shortName(n)
	}
	return strings.Join(list, ", ")
}

// firstStepsText describes which handlers the first step of each route notifies, and when.
func (c *traceBuilder) firstStepsText(routes []*route.Route) string {
	var parts []string
	for _, r := range routes {
		if r.Name.Name == "" {
			parts = append(parts, c.handlerNamesText(r.Steps[0].To)+" is notified")
		} else {
			parts = append(parts, "route "+c.shortName(r.Name)+" notifies "+c.handlerNamesText(r.Steps[0].To))
		}
	}
	return strings.Join(parts, "; ")
}

// repetitionsText formats a number of repetitions, such as once or 2 times.
func repetitionsText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// explainRequest handles an HTTP request of muster why. Its methods are the operations of the API.
type explainRequest struct{ op.Request }

// Register adds the API operations of muster why, which explain the state of a check or node.
func Register(r *op.Routes) {
	at := op.NewOperationSet(r, func(q op.Request) *explainRequest { return &explainRequest{q} })
	op.Handle(at, op.Get("whyNode", "/api/v1/why/{namespace}/{node}", "nodes", "The reasons for a node's groups and checks"), access.NeedOn(access.Read, "Node"), (*explainRequest).explainNode)
	op.Handle(at, op.Get("whyCheck", "/api/v1/why/{namespace}/{node}/{check}", "events",
		"The chain from the declaration of a check to its notifications, with the reason for each missing step"), access.NeedOn(access.Read, "event"), (*explainRequest).explainCheck)
}

// addPipelineSteps adds a trace step for each pipeline workflow, with its last decision about the event
func (c *traceBuilder) addPipelineSteps(names []string) {
	if len(names) == 0 {
		return
	}
	v, ok := c.Verdicts(c.node, c.check)
	if !ok {
		next := "the next result"
		if c.check == model.KeepaliveCheck {
			next = "its next change"
		}
		c.addTraceStep("pipelines", false, "no event since the server started or since %s names them; they get %s", notification.DeclaringResourceText(c.check), next)
		return
	}
	for i := range v.List {
		one := &v.List[i]
		switch {
		case one.Workflow == nil:
			c.addTraceStep("pipelines", false, "%s: %s", one.Pipeline.Name, one.Reason)
			continue
		case one.Pass:
			c.addTraceStep("pipelines", true, "%s: passed on to handler %s", one.Name(), one.Handler().Name).At = v.At
		case one.Filter == "":
			c.addTraceStep("pipelines", false, "%s: %s", one.Name(), one.Reason).At = v.At
		default:
			c.addTraceStep("pipelines", false, "%s: filter %s dropped it: %s; seen", one.Name(), one.Filter, one.Reason).At = v.At
		}
		for _, failed := range one.Failed {
			link := &c.out.Links[len(c.out.Links)-1]
			link.Steps = append(link.Steps, v1.Link{Text: "evaluation failed, without effect: " + failed})
		}
	}
}

// addStreamSteps adds a trace step for each handler that receives every result, with its lag in the journal.
func (c *traceBuilder) addStreamSteps(st *event.State) {
	list := c.Directory.StreamHandlers()
	names := slices.SortedFunc(maps.Keys(list), func(a, b route.Name) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	for _, name := range names {
		picks, err := route.MatchFunc(name.Namespace, list[name].Stream.Only)
		if err != nil || !picks(route.NewProblem(c.Directory, c.node, c.source, st.Status, st.Severity, nil)) {
			continue
		}
		s, ok := c.Stream(name)
		switch {
		case !ok:
			c.addTraceStep("streamed", false, "handler %s gets every result and is starting", name)
		case c.Directory.Shadow(c.out.Namespace):
			c.addTraceStep("streamed", true, "handler %s would get every result, but the namespace is a shadow (notifications: shadow)", name)
		case s.Trouble != "":
			c.addTraceStep("streamed", false, "handler %s gets every result and is %s behind: %s", name, roundedDurationText(s.BehindSeconds), s.Trouble)
		default:
			c.addTraceStep("streamed", true, "handler %s gets every result; %s behind", name, roundedDurationText(s.BehindSeconds))
		}
	}
}

// roundedDurationText formats seconds as a duration, rounded to whole seconds.
func roundedDurationText(s float64) string {
	return fmt.Sprint(time.Duration(s * float64(time.Second)).Round(time.Second))
}
