package react

import (
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// presence is what a problem is now.
type presence struct {
	namespace model.NamespaceID
	status    model.Status
	output    string
	executed  int64
	expired   bool
	problem   *model.Problem
	hooks     []model.HookResult
}

// presence of a problem: what this very batch says of it, else what the view does. False: it
// has closed, and that is on its way.
func (r *router) presence(o *telling, e *escalation) (presence, bool) {
	if t := o.turns[e.Problem]; t != nil {
		return presence{t.Namespace, t.Status, t.Output, t.Executed, t.Expired, t.Problem, t.Hooks}, true
	}
	s, ok := r.opts.Present(e.NodeID, e.CheckID)
	if !ok || s.Problem == nil || s.Problem.ID != e.Problem {
		return presence{}, false
	}
	return presence{s.Namespace, s.Status, s.Output, s.Executed, s.Expired, s.Problem, s.Beside.Hooks}, true
}

// note is a notification of it.
func (r *router) note(e *escalation, p presence, kind string) *handler.Notification {
	n := &handler.Notification{Kind: kind, Problem: e.Problem, Labels: r.opts.Names.NodeLabels(e.NodeID),
		Status: p.status.String(), Worst: p.problem.Status.String(), Severity: p.problem.Severity.String(), Output: p.output,
		Opened: p.problem.Opened.UTC(), Executed: time.Unix(0, p.executed).UTC(), Expired: p.expired, Hooks: p.hooks}
	n.Space, n.Node, n.Check = r.called(e.NodeID, e.CheckID, p)
	return n
}

// called are the names of a problem's node and check, as they are, or what stands for them.
func (r *router) called(node model.NodeID, check model.CheckID, p presence) (space, name, of string) {
	return namesOf(r.opts.Names, &event.Transition{Node: node, Check: check, Namespace: p.namespace, Chunk: p.problem.Chunk})
}
