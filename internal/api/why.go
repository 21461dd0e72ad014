package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/store/history"
)

func (s *server) whyRoutes() {
	handle(s, operation("whyNode", http.MethodGet, "/api/v1/why/{namespace}/{node}", "nodes", "Why a node is in its groups and runs its checks"), s.whyNode)
	handle(s, operation("whyCheck", http.MethodGet, "/api/v1/why/{namespace}/{node}/{check}", "events",
		"The chain from who put a check on a node to who was told; what did not happen, with the reason"), s.whyCheck)
}

// reasons are the planner's, as links.
func reasons(list []plan.Why) (out []v1.Link) {
	for _, w := range list {
		out = append(out, v1.Link{Holds: w.Lands, Text: w.Text, Under: reasons(w.Under)})
	}
	return out
}

func (s *server) whyNode(ctx context.Context, in *struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Node      string `path:"node" maxLength:"253"`
}) (*body[v1.Why], error) {
	id, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.noNode(ctx, in.Namespace, in.Node)
	}
	out := v1.Why{Namespace: in.Namespace, Node: in.Node}
	declared, err := s.declared(ctx, intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Node})
	if err != nil {
		return nil, err
	}
	out.Links = append(out.Links, declared, s.agentLink(id))
	for _, w := range s.Directory.WhyGroups(id) {
		out.Links = append(out.Links, v1.Link{Name: "group", Holds: w.Lands, Text: w.Text, Under: reasons(w.Under)})
	}
	checks := v1.Link{Name: "checks", Text: "no check lands here: no check's targets name this node"}
	for _, check := range s.Directory.ChecksOf(id) {
		if why, ok := s.Directory.WhyCheck(id, check); ok {
			checks.Under = append(checks.Under, reasons([]plan.Why{why})...)
		}
	}
	if n := len(checks.Under); n > 0 {
		checks.Holds, checks.Text = true, fmt.Sprintf("checks that land here: %d", n)
	}
	slices.SortFunc(checks.Under, func(a, b v1.Link) int { return strings.Compare(a.Text, b.Text) })
	out.Links = append(out.Links, checks)
	return &body[v1.Why]{out}, nil
}

func (s *server) whyCheck(ctx context.Context, in *EventPath) (*body[v1.Why], error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.noNode(ctx, in.Namespace, in.Node)
	}
	check, err := s.checkOn(ctx, node, *in)
	if err != nil {
		return nil, err
	}
	c := chain{server: s, ctx: ctx, node: node, check: check, out: v1.Why{Namespace: in.Namespace, Node: in.Node, Check: in.Check}}
	if err := c.follow(); err != nil {
		return nil, err
	}
	return &body[v1.Why]{c.out}, nil
}

// checkOn is the check of a name that the node runs, else the one nearest to it.
func (s *server) checkOn(ctx context.Context, node model.NodeID, in EventPath) (model.CheckID, error) {
	checks := s.checksNamed([]string{in.Namespace}, in.Check)
	if len(checks) == 0 {
		return 0, s.noCheck(ctx, in.Namespace, in.Check)
	}
	for _, check := range checks {
		if s.Directory.Holds(node, check) {
			return check, nil
		}
	}
	return checks[0], nil
}

// declared is who wrote a resource last.
func (s *server) declared(ctx context.Context, key intent.Key) (v1.Link, error) {
	entries, err := s.Intent.Audit(ctx, intent.ChangeQuery{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Limit: 1}, true)
	if err != nil || len(entries) == 0 {
		return v1.Link{Name: "declared", Text: fmt.Sprintf("%s %s: nothing is recorded of it", strings.ToLower(key.Kind), key.Name)}, err
	}
	last := changeOf(&entries[0])
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

// agentLink says whether there is somebody to run what the node should run.
func (s *server) agentLink(node model.NodeID) v1.Link {
	sum := s.Events.Summaries([]model.NodeID{node})[0]
	link := v1.Link{Name: "agent", At: moment(sum.Heard)}
	switch {
	case s.Connected != nil && s.Connected(node):
		if link.Holds, link.Text = true, "the agent is connected"; !link.At.IsZero() {
			link.Text += "; last heard"
		}
	case sum.Stopped:
		link.Text = "the agent was stopped on purpose: start it again on the machine; last heard"
	case link.At.IsZero():
		link.Text = "no agent was ever heard: muster node token prints the line with which its machine joins"
	default:
		link.Text = "the agent is not connected: look at its log on the machine; last heard"
	}
	return link
}

// chain is one answer on its way.
type chain struct {
	*server
	ctx   context.Context
	node  model.NodeID
	check model.CheckID
	out   v1.Why
}

func (c *chain) add(name string, holds bool, format string, args ...any) *v1.Link {
	c.out.Links = append(c.out.Links, v1.Link{Name: name, Holds: holds, Text: fmt.Sprintf(format, args...)})
	return &c.out.Links[len(c.out.Links)-1]
}

// follow goes from the declaration to the last message, and ends where nothing can follow.
func (c *chain) follow() error {
	spec, err := c.wanted()
	if err != nil {
		return err
	}
	c.out.Links = append(c.out.Links, c.agentLink(c.node))
	c.schedule(spec)
	st, ok := c.Events.Get(c.node, c.check)
	if !ok {
		c.add("result", false, "%s", c.whyNoResult())
		return nil
	}
	c.add("result", true, "%s; %d applied, %d lost; executed", st.Status, st.Results, st.Lost).At = moment(st.Executed)
	text := fmt.Sprintf("%s, %d in a row, since", st.Status, st.Occurrences)
	if st.Expired {
		text = "no result came in time: " + text
	}
	c.add("event", true, "%s", text).At = moment(st.Changed)
	if st.Problem == nil {
		c.add("problem", st.Status == model.OK, "%s", whyNoProblem(&st, spec))
		return nil
	}
	c.add("problem", true, "%s is open since", st.Problem.ID).At = st.Problem.Opened
	return c.told(st.Problem.ID, spec)
}

// wanted says who put the check on the node; the spec is nil for what is built in.
func (c *chain) wanted() (*model.CheckSpec, error) {
	why, ok := c.Directory.WhyCheck(c.node, c.check)
	if !ok {
		c.add("wanted", true, "check %s is built in: every node has it", c.out.Check)
		return nil, nil
	}
	c.add("wanted", why.Lands, "%s", why.Text).Under = reasons(why.Under)
	namespace, name, _ := c.Directory.CheckName(c.check)
	key := intent.Key{Kind: "Check", Namespace: namespace, Name: name}
	declared, err := c.declared(c.ctx, key)
	if err != nil {
		return nil, err
	}
	c.out.Links = append(c.out.Links, declared)
	r, err := c.Intent.Get(c.ctx, key)
	if err != nil {
		return nil, err
	}
	spec, _ := r.Spec.(*model.CheckSpec)
	return spec, nil
}

func (c *chain) schedule(spec *model.CheckSpec) {
	if spec == nil {
		return
	}
	text := "every " + spec.Interval.String()
	if spec.Cron != "" {
		text = "at " + spec.Cron
	}
	if spec.Timeout > 0 {
		text += ", ended after " + spec.Timeout.String()
	}
	if spec.TTL > 0 {
		text += ", missed after " + spec.TTL.String()
	}
	c.add("schedule", !spec.Disabled, "%s", text)
}

// whyNoResult is the first link that does not hold, in other words.
func (c *chain) whyNoResult() string {
	for _, link := range c.out.Links {
		if !link.Holds {
			return "there is none, because " + link.Text
		}
	}
	return "there is none yet: a new check runs for the first time within 10 seconds, and its result comes when it has ended"
}

func whyNoProblem(st *event.State, spec *model.CheckSpec) string {
	if st.Status == model.OK {
		return "none is open: the status is OK"
	}
	if spec != nil && spec.Alert != nil && spec.Alert.FailAfter > 1 {
		return fmt.Sprintf("none is open: it opens after %d results in a row that are not OK (alert.failAfter), this is number %d", spec.Alert.FailAfter, st.Occurrences)
	}
	return "none is open: this status opens none"
}

func (c *chain) told(problem string, spec *model.CheckSpec) error {
	list, err := c.History.Deliveries(c.ctx, problem)
	if err != nil {
		return err
	}
	for _, d := range list {
		link := c.add("told", d.State != history.Dead, "%s of its being %s: %s", d.Handler.Name, d.Kind, d.State)
		switch link.At = d.Ended; d.State {
		case history.Pending:
			link.Text += fmt.Sprintf(" after %d attempts, again", d.Attempts)
			link.At = d.NextAt
		case history.Dead:
			link.Text = fmt.Sprintf("%s was not told of its being %s: given up after %d attempts", d.Handler.Name, d.Kind, d.Attempts)
		}
		if d.LastError != "" {
			link.Under = []v1.Link{{Text: "last error: " + d.LastError}}
		}
	}
	if len(list) > 0 {
		return nil
	}
	named, err := c.handlers(spec)
	if err != nil {
		return err
	}
	if len(named) == 0 {
		c.add("told", false, "nobody: neither the check (alert.handlers) nor namespace %s (handlers) names one", c.out.Namespace)
		return nil
	}
	c.add("told", false, "nobody yet: %s is to be, once history has recorded the problem; muster status says how far it is", strings.Join(named, ", "))
	return nil
}

// handlers are those that the check names, else those of the node's namespace.
func (c *chain) handlers(spec *model.CheckSpec) ([]string, error) {
	if spec != nil && spec.Alert != nil && len(spec.Alert.Handlers) > 0 {
		return spec.Alert.Handlers, nil
	}
	r, err := c.Intent.Get(c.ctx, intent.Key{Kind: "Namespace", Name: c.out.Namespace})
	if err != nil {
		return nil, err
	}
	if ns, ok := r.Spec.(*model.NamespaceSpec); ok {
		return ns.Handlers, nil
	}
	return nil, nil
}
