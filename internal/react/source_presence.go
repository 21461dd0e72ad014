package react

import (
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Presence is the present state of a source on a node, as its view shows it.
type Presence struct {
	Namespace model.NamespaceID
	Status    model.Status
	Severity  model.Severity
	Output    string
	Executed  int64 // Unix ns
	Changed   int64 // Unix ns
	Expired   bool
	Problem   *model.Problem // the open one; nil: none
	Hooks     []model.HookResult
}

// EventPresence returns the Presence of checks, which the event view shows. It knows no other kind of source.
func EventPresence(get func(model.NodeID, model.CheckID) (event.State, bool)) func(model.NodeID, model.Source) (Presence, bool) {
	return func(node model.NodeID, source model.Source) (Presence, bool) {
		if source.Kind != model.SourceCheck {
			return Presence{}, false
		}
		s, ok := get(node, source.Check())
		return Presence{s.Namespace, s.Status, s.Severity, s.Output, s.Executed, s.Changed, s.Expired, s.Problem, s.Beside.Hooks}, ok
	}
}

// problemNow returns the open problem with the status of now; the problem's own is the worst so
// far. Nil: none is open.
func (p *Presence) problemNow() *model.Problem {
	if p.Problem == nil {
		return nil
	}
	now := *p.Problem
	now.Status = p.Status
	return &now
}

// presence returns the present state of a problem: from this very batch, else from the view. False: the problem
// has closed, and its transition is on its way.
func (r *router) presence(o *deliveryBatch, e *escalation) (Presence, bool) {
	if t := o.opened[e.Problem]; t != nil {
		return Presence{t.Namespace, t.Status, t.Severity, t.Output, t.Executed, t.Received, t.Expired, t.Problem, t.Hooks}, true
	}
	p, ok := r.Present(e.NodeID, e.Source)
	if !ok || p.Problem == nil || p.Problem.ID != e.Problem {
		return Presence{}, false
	}
	return p, true
}

// note returns a notification of a problem as it is now.
func (r *router) note(e *escalation, p Presence, kind string) *handler.Notification {
	n := &handler.Notification{Kind: kind, Problem: e.Problem, Labels: r.names.NodeLabels(e.NodeID),
		Status: p.Status.String(), Worst: p.Problem.Status.String(), Severity: p.Problem.Severity.String(), Output: p.Output,
		Opened: p.Problem.Opened.UTC(), Executed: time.Unix(0, p.Executed).UTC(), Expired: p.Expired, Hooks: p.Hooks}
	space, node, source := namesOf(r.names, &event.Transition{Node: e.NodeID, Source: e.Source, Namespace: p.Namespace, Chunk: p.Problem.Chunk})
	n.Space, n.Node = space, node
	n.SetSource(e.Source, source)
	return n
}
