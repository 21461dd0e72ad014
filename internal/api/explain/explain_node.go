package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// explainNode answers the command muster why for a node, with the reasons for its groups and checks.
func (s *explainRequest) explainNode(ctx context.Context, in *struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Node      string `path:"node" maxLength:"253"`
}) (*op.Body[v1.Trace], error) {
	id, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
	}
	out := v1.Trace{Namespace: in.Namespace, Node: in.Node}
	declared, err := s.declarationStep(ctx, intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Node})
	if err != nil {
		return nil, err
	}
	out.Links = append(out.Links, declared, s.agentStep(id), s.assignmentStep(id))
	if debt := s.StepDebt(id); debt > 0 {
		out.Links = append(out.Links, v1.Link{Name: "limit", Text: fmt.Sprintf("batches with values wait for other nodes: steps and triggers of this node took %v more than its share while others waited. Find the item: muster debug values", debt.Round(time.Millisecond))})
	}
	if oldest := s.OldestDeferred(id); !oldest.IsZero() {
		out.Links = append(out.Links, v1.Link{Name: "limit", Text: fmt.Sprintf("values wait for slow scripts of this node, the oldest for %v. Find the item: muster debug values", s.Now().Sub(oldest).Round(time.Second))})
	}
	for _, f := range s.Directory.NodeFaults(id) {
		out.Links = append(out.Links, v1.Link{Name: "error", Text: f.Text})
	}
	for _, w := range s.Directory.ExplainGroups(id) {
		out.Links = append(out.Links, v1.Link{Name: "group", Holds: w.Lands, Text: w.Text, Steps: nodes.ReasonLinks(w.Steps)})
	}
	out.Links = append(out.Links, s.assignedChecksStep(id, in.Namespace))
	if link := s.assignedTemplatesStep(id, in.Namespace); link.Holds {
		out.Links[len(out.Links)-1].Holds = true // a node with items needs no check
		out.Links = append(out.Links, link)
	}
	return op.Answer(out), nil
}

// assignedChecksStep returns the trace step with the node's checks and the reasons for their assignment.
func (s *explainRequest) assignedChecksStep(node model.NodeID, namespace string) v1.Link {
	link := v1.Link{Name: "checks", Text: "no checks: the targets of no check select this node; list checks: muster get checks"}
	count, names, because := 0, map[string][]string{}, map[string][]v1.Link{}
	for _, check := range s.Directory.NodeUnits(node) {
		ns, name, ok := s.Directory.SourceName(model.CheckSource(check))
		if !ok {
			continue // a Template
		}
		why, ok := s.Directory.ExplainCheck(node, check)
		if !ok {
			continue
		}
		if ns != namespace {
			name = ns + "/" + name
		}
		reason := fmt.Sprint(why.Steps)
		names[reason], because[reason] = append(names[reason], name), nodes.ReasonLinks(why.Steps)
		count++
	}
	if count == 0 {
		return link
	}
	link.Holds, link.Text = true, fmt.Sprintf("checks of this node: %d", count)
	for reason, list := range names {
		slices.Sort(list)
		link.Steps = append(link.Steps, v1.Link{Holds: true, Text: strings.Join(list, ", "), Steps: because[reason]})
	}
	slices.SortFunc(link.Steps, func(a, b v1.Link) int { return strings.Compare(a.Text, b.Text) })
	return link
}

// assignedTemplatesStep returns the trace step with the names of the node's Templates. The step does not hold if the
// node has none.
func (s *explainRequest) assignedTemplatesStep(node model.NodeID, namespace string) v1.Link {
	var list []string
	for _, unit := range s.Directory.NodeUnits(node) {
		source := model.TriggerSource(unit, "")
		u := s.Directory.SourceUnit(source)
		if u == nil || u.Definition.AsTemplate() == nil {
			continue
		}
		ns, name, _ := s.Directory.SourceName(source)
		if ns != namespace {
			name = ns + "/" + name
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return v1.Link{Name: "templates", Holds: len(list) > 0, Text: fmt.Sprintf("Templates of this node: %s", strings.Join(list, ", "))}
}

// clockTolerance is the clock error of a node above which answers mention it.
const clockTolerance = 2 * time.Second

// lastHeardText is the end of a link's text; the time when the server last heard from the agent follows.
const lastHeardText = "; last heartbeat"

// agentStep returns the trace step that shows whether the node's agent is connected.
func (s *explainRequest) agentStep(node model.NodeID) v1.Link {
	sum := s.Events.Summaries([]model.NodeID{node})[0]
	link := v1.Link{Name: "agent", At: view.TimeOfNanoseconds(sum.LastHeartbeat)}
	_, runsRudder := s.Directory.Node(node).Facts.Get(model.RudderInventoryFact)
	switch {
	case s.Directory.Node(node).Proxy:
		link.Holds, link.Text = true, "proxy node: it has no agent, other nodes run its checks"
	case runsRudder:
		link.Holds, link.Text = s.Connected(node), "Rudder's agent sends its runs in time; last file"
		if !link.Holds {
			link.Text = "no run of Rudder's agent came in time: on the machine, type: rudder agent run; last file"
		}
	case s.Connected(node):
		link.Holds, link.Text = true, "the agent is connected"
		link.Steps = s.sessionSteps(node)
		if !link.At.IsZero() {
			link.Text += lastHeardText
		}
	case sum.Stopped:
		link.Text = "a user stopped the agent: start the agent on the machine; last heartbeat"
	case link.At.IsZero():
		link.Text = "no agent has ever connected: muster node token prints the command that joins a machine"
	default:
		link.Text = "the agent is not connected: read its log on the machine" + lastHeardText
	}
	return link
}

// sessionSteps returns trace steps about the agent's session, with version, clock offset and restrictions.
func (s *explainRequest) sessionSteps(node model.NodeID) (under []v1.Link) {
	a, ok := s.Agent(node)
	if !ok {
		return nil
	}
	under = append(under, v1.Link{Holds: true, Text: fmt.Sprintf("version %s, from %s, since", cmp.Or(a.Version, "unknown"), a.Address), At: a.Since})
	if off := time.Duration(a.ClockOffsetMs) * time.Millisecond; off.Abs() >= clockTolerance {
		under = append(under, v1.Link{Text: "its clock is " + clockOffsetText(off) + " the server's: times here are the server's, cron uses the machine's"})
	}
	for _, what := range a.Refuses {
		under = append(under, v1.Link{Text: restrictionText(what)})
	}
	return under
}

// notRunningReason describes in a sentence why an assigned check or Template does not run on the node.
func notRunningReason(u v1.IdleUnit) string { return u.Name + " is not in force: " + u.Reason }

// clockOffsetText describes the difference between the clocks of node and server, such as "3s ahead of". The words
// complete the sentence "its clock is 3s ahead of the server's".
func clockOffsetText(off time.Duration) string {
	if off > 0 {
		return model.Duration(off.Round(time.Second)).String() + " ahead of"
	}
	return model.Duration(-off.Round(time.Second)).String() + " behind"
}

// restrictionText describes one restriction in an agent's settings, such as no remote commands.
func restrictionText(what string) string {
	switch what {
	case wire.RestrictRuns:
		return "it refuses requested runs (--no-run)"
	case wire.RestrictCommands:
		return "it runs only the commands of its list (--allow-commands)"
	case wire.RestrictChanges:
		return "it refuses commands from people (--audit-only)"
	}
	return "it refuses " + what
}

// assignmentStep returns the trace step that shows whether the agent has the newest assignment (list of checks)
func (s *explainRequest) assignmentStep(node model.NodeID) v1.Link {
	link := v1.Link{Name: "assignment"}
	want, ok := s.Directory.AssignmentVersion(node)
	if !ok {
		link.Text = "none for this node"
		return link
	}
	link.Holds, link.Text = true, fmt.Sprintf("revision %d", want)
	a, connected := s.Agent(node)
	for _, u := range a.IdleUnits {
		link.Steps = append(link.Steps, v1.Link{Text: notRunningReason(u)})
	}
	switch {
	case !connected:
		link.Text += "; unknown until the agent connects"
	case a.Assignment == want && a.Confirmed:
		link.Text += ", confirmed by the agent"
	case a.Assignment == want:
		link.Holds, link.Text = false, link.Text+" was sent; the agent has not confirmed it yet"
	case a.Assignment == 0:
		link.Holds, link.Text = false, link.Text+" is being sent; the agent has none yet"
	default:
		link.Holds, link.Text = false, link.Text+fmt.Sprintf(" is being sent; the agent has revision %d", a.Assignment)
	}
	return link
}

// lateResultDelay is the delay of a result above which it is late: agents batch results, and a busy machine is slow.
const lateResultDelay = 10 * time.Second

// addScheduleSteps adds a trace step about the check's schedule, with the last and the next run
func (c *traceBuilder) addScheduleSteps(spec *model.CheckSpec) {
	if spec == nil {
		return
	}
	if spec.Passive {
		c.addTraceStep("schedule", !spec.Disabled, "no node runs it: senders outside report its results")
		return
	}
	text := "every " + spec.Interval.String()
	if spec.Cron != "" {
		text = "at " + spec.Cron
		if spec.TimeZone != "" {
			text += " " + spec.TimeZone
		}
	}
	if spec.RoundRobin {
		text += ", on one node of its targets in turn"
	}
	if spec.Timeout > 0 {
		text += ", timeout " + spec.Timeout.String()
	}
	if spec.TTL > 0 {
		text += ", missed after " + spec.TTL.String()
	}
	link := c.addTraceStep("schedule", !spec.Disabled, "%s", text)
	if spec.Disabled || !c.targeted {
		return
	}
	if !c.lastRun.IsZero() {
		link.Steps = append(link.Steps, v1.Link{Holds: true, Text: "its last known run started", At: c.lastRun})
	}
	if spec.RoundRobin && spec.Proxy == nil {
		return // in round robin, the next run depends on the other members
	}
	skew := c.clockOffset
	if spec.RoundRobin {
		skew = 0 // the server schedules round-robin runs
	}
	next := when.Next(time.Duration(spec.Interval), spec.Cron, spec.TimeZone, c.lastRun, c.Now(), skew)
	if next.IsZero() {
		return
	}
	c.usesCron = spec.Cron != ""
	about := "the next run is due"
	if spec.Cron != "" && spec.TimeZone == "" {
		about += " (in this server's time zone; the machine uses its own)"
	}
	if skew.Abs() >= clockTolerance && spec.Cron != "" {
		about += " (the machine's clock is " + clockOffsetText(c.clockOffset) + " the server's)"
	}
	link.Steps = append(link.Steps, v1.Link{Holds: true, Text: about, At: next.UTC()})
}

// lastExceptionEnd returns when the last excluded time (schedule.except) since the check's last run ended. For
// a present exception it adds a step to the trace.
func (c *traceBuilder) lastExceptionEnd(st *event.State) (end time.Time) {
	definition := c.Judgement(st.Definition, st.Instance)
	if definition == nil || len(definition.Except) == 0 {
		return end
	}
	set, err := window.NewSet(definition.Except)
	if err != nil {
		return end
	}
	end, _ = set.LastEnd(c.lastRun, c.Now())
	if end.After(c.Now()) {
		c.addTraceStep("excepted", false, "excluded now (schedule.except), until").At = end.UTC()
	}
	return end
}

// addLateResultStep adds a trace step with possible causes if the check's result is overdue.
func (c *traceBuilder) addLateResultStep(spec *model.CheckSpec, st *event.State) {
	if spec == nil || spec.Interval <= 0 || !c.targeted || c.lastRun.IsZero() {
		return
	}
	timeout := cmp.Or(time.Duration(spec.Timeout), spec.DefaultTimeout())
	due := c.lastRun.Add(time.Duration(spec.Interval))
	if end := c.lastExceptionEnd(st); end.After(due) {
		due = end.Add(time.Duration(spec.Interval))
	}
	if c.Now().Before(due.Add(timeout + lateResultDelay)) {
		return
	}
	link := c.addTraceStep("late", false, "a result is missing: the run was due")
	link.At = due.UTC()
	session, connected := c.Agent(c.node)
	under := func(format string, args ...any) {
		link.Steps = append(link.Steps, v1.Link{Text: fmt.Sprintf(format, args...)})
	}
	switch stats := session.Stats; {
	case c.stopped:
		under("the agent was stopped: it runs nothing")
	case c.noAgent:
		under("the agent is not connected: while it runs, its spool stores the results")
	case !connected || stats == nil:
	case nodes.IsSpooling(stats):
		under("%d results wait in the agent's spool, the oldest for %s", stats.Spooled, model.Duration(time.Duration(stats.OldestSeconds)*time.Second))
	case stats.Skipped+stats.Late > 0:
		under("the machine is overloaded: %d runs skipped because the run before had not ended, %d started late", stats.Skipped, stats.Late)
	}
	if stats := session.Stats; stats != nil && stats.GaveWay+stats.Refused+stats.Lost > 0 {
		under("lost results: %d dropped by the spool, %d refused by the server, %d not stored on its disk", stats.GaveWay, stats.Refused, stats.Lost)
	}
}
