package resources

import (
	"github.com/muster-fleet/muster/internal/api/notification"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// routingState adds whether a silence or a window is in force, and the problems that it holds.
func (s *request) routingState(out *v1.State, r *model.Resource, held *notification.HoldCounter) {
	name, now := route.Name{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}, s.Now()
	switch spec := r.Spec.(type) {
	case *model.SilenceSpec:
		if out.InForce = notification.SilenceActive(spec, now); out.InForce {
			out.Ends, out.Holds = spec.Until.Time, held.Count(name)
		}
	case *model.WindowSpec:
		if at, ok := s.Routing.Window(name, now); ok {
			if out.InForce, out.Begins, out.Ends = at.Inside, at.Begins, at.Ends; at.Inside && spec.Maintenance != nil {
				out.Holds = held.Count(name)
			}
		}
	}
}

// stateOf returns the state of a declared resource: placement, events, limits.
func (s *request) stateOf(r *model.Resource, held *notification.HoldCounter) v1.State {
	key := intent.KeyOf(r)
	l := s.Directory.Placement(key)
	out := v1.State{Nodes: l.Nodes, Checks: l.Checks}
	out.Note, _ = s.Kinds.Effect(r, l, false)
	if k, _ := s.Kinds.Of(key.Kind); k.Users {
		out.UsedBy = l.UsedBy("")
	}
	if key.Kind == "Check" && r.Status != nil {
		c := s.Events.CountsOf(model.CheckID(r.Status.ID))
		by := v1.ByStatusOf(c.ByStatus)
		out.Events, out.Problems = &by, c.Problems
	}
	s.routingState(&out, r, held)
	if key.Kind == "Namespace" {
		out.Limits = s.Limits(key.Name)
	}
	if key.Kind == "Handler" {
		if stream, ok := s.Stream(route.Name{Namespace: key.Namespace, Name: key.Name}); ok {
			out.Stream = &stream
		}
	}
	return out
}
